"""What `--json` promises for every command: objects on stdout, one a line, and the last says what went wrong."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner

from poweron_services.cli.main import app

SERVERS = {
    ("serve",),
    ("door",),
    ("mcp", "serve"),
    ("witness", "serve"),
}  # they run until they are stopped, and have lines of their own
OF_THEIR_OWN = {
    ("bench",),
    ("chaos",),
    ("policy", "check"),
    ("audit", "verify"),
    ("audit", "verifier"),
}  # they read no setting that a user sets
ID = "3f0d0a9e-8c0f-5d0e-9a52-6f5d9f6c2b11"
ARGUMENTS = {
    ("ask",): ["What?"],
    ("deny",): [ID, "--reason", "No."],
    ("diff",): [ID, ID],
    ("fork",): [ID, "--at", "3"],
    ("erase",): [ID, "--reason", "They asked for it."],
    ("evaluate",): ["requests.jsonl"],
    ("export",): [ID],
    ("recover",): ["--yes"],
    ("replay",): [ID],
    ("audit", "key"): [],
    ("audit", "rotate"): [],
    ("audit", "verifier"): [],
    ("audit", "verify"): ["bundle", "--key", "KEY"],
    ("witness", "key"): [],
    ("witness", "sign"): ["bundle", "--key", "KEY"],
    ("audit", "identify"): ["requests.jsonl"],
    ("policy", "apply"): ["policy.toml"],
    ("policy", "check"): ["policy.toml"],
    ("bi", "export"): ["--output", "bi"],
    ("bi", "report"): ["--output", "report.html"],
    ("documents", "gc"): ["--yes"],
    ("keys", "add"): ["crm", "--actor", "ada", "--scope", "read"],
}


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())
WITH_JSON = sorted(COMMANDS.keys() - SERVERS)
named = pytest.mark.parametrize("path", WITH_JSON, ids=" ".join)


def needed(path: tuple[str, ...]) -> list[str]:
    """Arguments that a command takes."""
    wanted = [each for each in COMMANDS[path].params if each.param_type_name == "argument" and each.required]
    return ARGUMENTS.get(path, [ID] * len(wanted))


def failed(path: tuple[str, ...], *arguments: str) -> tuple[int, dict[str, str]]:
    """Its exit code, and what it printed: one object, whose sentence stands on stderr, too."""
    ended = CliRunner().invoke(app, [*path, *arguments, "--json"])
    (line,) = ended.stdout.splitlines()
    told: dict[str, str] = orjson.loads(line)
    assert told.keys() == {"error", "code"}
    assert " ".join(told["error"].split()) in " ".join(ended.stderr.split())
    return ended.exit_code, told


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*filter(lambda name: name.startswith("POWERON_"), os.environ)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_every_command_that_ends_by_itself_prints_json() -> None:
    options = {path: {name for each in command.params for name in each.opts} for path, command in COMMANDS.items()}
    assert {path for path, names in options.items() if "--json" not in names} == SERVERS


@named
def test_what_no_command_understands_is_told_as_json(path: tuple[str, ...]) -> None:
    code, told = failed(path, *needed(path), "--no-such-option")
    assert (code, told["code"]) == (2, "usage")
    assert "--no-such-option" in told["error"]


@pytest.mark.parametrize(
    "path", [path for path in WITH_JSON if any(each.required for each in COMMANDS[path].params)], ids=" ".join
)
def test_an_argument_that_is_missing_is_told_as_json(path: tuple[str, ...]) -> None:
    code, told = failed(path)
    assert (code, told["code"]) == (2, "usage")


@pytest.mark.parametrize("path", [("no-such-command",), ("mcp", "no-such-command")], ids=" ".join)
def test_a_command_that_there_is_not_is_told_as_json(path: tuple[str, ...]) -> None:
    code, told = failed(path)
    assert (code, told["code"]) == (2, "usage")


@pytest.mark.parametrize("path", [path for path in WITH_JSON if path not in OF_THEIR_OWN], ids=" ".join)
def test_a_setting_that_cannot_be_used_is_told_as_json(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("requests.jsonl").write_text('{"prompt": "What?", "expect": {"status": "completed"}}\n')
    monkeypatch.setenv("POWERON_MAX_OPEN", "many")
    code, told = failed(path, *needed(path))
    assert (code, told["code"]) == (2, "setting_invalid")
    assert "POWERON_MAX_OPEN" in told["error"]


def test_a_command_that_is_stopped_while_it_waits_says_so_as_json() -> None:
    """By a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        given = {"POWERON_KAFKA": address, "POWERON_POSTGRES": f"postgresql://nobody@{address}/none"}
        program = "import os, signal, threading\nfrom poweron_services.cli.entry import main\n"
        program += "threading.Timer(3, os.kill, (os.getpid(), signal.SIGTERM)).start()\nmain()"
        command = [sys.executable, "-c", program, "workflows", "--json"]
        ended = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, check=False)
    assert ended.returncode == 143
    assert orjson.loads(ended.stdout.splitlines()[-1])["code"] == "stopped"
