"""`poweron door` as it is typed: the address, the names, and what the start says about keys."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from poweron_services.cli.main import app
from poweron_services.door.http_guard import plain_host
from poweron_services.door.http_server import is_loopback

pytestmark = pytest.mark.system

POWERON = Path(sys.executable).with_name("poweron")


@pytest.mark.parametrize("host", ["", "a b", "http://a", "a/b", "a:80", "[::1]:80", "user@a", "-a", "ä.example"])
def test_a_name_that_no_browser_sends_is_refused(host: str) -> None:
    ended = CliRunner().invoke(app, ["door", "--host", host])
    assert ended.exit_code == 2
    assert "write for example poweron.example.com, without port." in " ".join(ended.stderr.split())


def test_addresses_of_loopback_are_known_in_every_spelling() -> None:
    assert [*map(is_loopback, ("127.0.0.1", "127.0.0.2", "::1", "localhost"))] == [True] * 4
    assert [*map(is_loopback, ("0.0.0.0", "::", "192.168.1.5", "door.example.com", "localhost.example"))] == [False] * 5
    assert plain_host("[::1]:8800") == plain_host("[0:0::0:1]") == "::1"


STARTS = [
    (("--listen", "127.0.0.1:0"), ""),
    (("--listen", "127.0.0.1:0", "--host", "b.example", "--host", "A.example"), "for a.example and b.example need a"),
    (("--listen", "0.0.0.0:0"), "Other machines can connect, so every request needs a key. Create one with `poweron"),
]


@pytest.mark.parametrize(("arguments", "sentence"), STARTS, ids=lambda value: str(value)[:40])
def test_the_start_says_who_needs_a_key_and_how_to_create_one(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path))
    monkeypatch.setenv("POWERON_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("POWERON_POSTGRES", "postgresql://nobody@127.0.0.1:1/nothing")
    started = subprocess.Popen([POWERON, "door", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout
    assert started.stdout.readline().startswith("PowerOn is at http://")
    started.terminate()
    _, told = started.communicate(timeout=30)
    assert (sentence in " ".join(told.split())) if sentence else ("key" not in told)
    assert ("TLS" in told) == ("0.0.0.0:0" in arguments)
