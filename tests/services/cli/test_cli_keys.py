"""`poweron keys` on real servers: a key is printed once, listed without itself, and revoked by name or id."""

import asyncio
import hashlib
import re
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections.access_keys import KEY, find_key
from poweron_projections.connection import connect
from poweron_services.cli.main import app

pytestmark = pytest.mark.system

ADD = ("add", "crm", "--actor", "crm system", "--kind", "system", "--role", "sales", "--scope", "request,read")


@pytest.fixture
def _servers(kafka: KafkaSettings, dsn: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**kafka.environment(), "POWERON_POSTGRES": dsn, "POWERON_ACTOR": "root"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))


on_servers = pytest.mark.usefixtures("_servers")


def keys(*arguments: str, code: int = 0) -> tuple[str, str]:
    ended = CliRunner().invoke(app, ["keys", *arguments])
    assert ended.exit_code == code, ended.output
    return ended.stdout, ended.stderr


@on_servers
def test_a_key_is_the_only_line_on_stdout_and_is_not_shown_again() -> None:
    out, told = keys(*ADD, "--expires", "12h")
    key = out.strip()
    assert KEY.fullmatch(key)
    assert re.match(r"Key crm \([0-9a-f]{16}\) of crm system, valid until .+ \(UTC\)\. It is shown only now\.", told)
    listed, _ = keys("list")
    assert "crm system (system)" in listed
    assert "read, request" in listed
    assert key not in listed + told
    revoked, _ = keys("revoke", "crm")
    assert re.fullmatch(r"The key crm \([0-9a-f]{16}\) is revoked\.\n", revoked)
    assert "revoked" in keys("list")[0]


@on_servers
def test_the_json_of_each_command_has_the_same_fields_and_only_add_has_the_key(dsn: str) -> None:
    added = orjson.loads(keys(*ADD, "--json")[0])
    key = added.pop("key")
    (listed,) = map(orjson.loads, keys("list", "--json")[0].splitlines())
    assert listed == added
    assert (added["name"], added["actor"], added["kind"], added["roles"]) == ("crm", "crm system", "system", ["sales"])
    assert (added["scopes"], added["createdBy"], added["state"]) == (["read", "request"], "root", "valid")
    revoked = orjson.loads(keys("revoke", added["keyId"], "--json")[0])
    assert revoked == {**added, "state": "revoked", "revoked": revoked["revoked"], "revokedBy": "root"}
    assert asyncio.run(_id_of(dsn, key)) == added["keyId"]


async def _id_of(dsn: str, key: str) -> str | None:
    async with connect(dsn) as pool:
        found = await find_key(pool, sha256=hashlib.sha256(key.encode()).digest())
    return found and found.key.key_id


@on_servers
def test_what_cannot_be_done_is_said_in_a_sentence() -> None:
    assert keys("list")[0] == "There are no keys yet. Create one with `poweron keys add`.\n"
    keys(*ADD)
    assert "There is a key 'crm' already; choose another name, or revoke it" in keys(*ADD, code=1)[1].replace("\n", " ")
    assert "No key that is not revoked has the name or id 'erp'" in keys("revoke", "erp", code=1)[1].replace("\n", " ")


WRONG = [
    ((), "Missing option '--actor'"),
    (("--actor", "ada"), "Missing option '--scope'"),
    (("--actor", "ada", "--scope", "read,write"), "--scope: 'write' is no scope; there are read, content, request,"),
    (("--actor", "ada", "--scope", ","), "--scope: it names no scope; there are"),
    (("--actor", "ada", "--scope", "read", "--expires", "never"), "'never' is no duration; write it like 12h or 90d."),
    (("--actor", "ada", "--scope", "read", "--kind", "robot"), "'robot' is not one of"),
    (("--actor", "a\x1b[2J", "--scope", "read"), "write each as text on one line, without control characters."),
    (("--actor", "ada", "--role", " ", "--scope", "read"), "write each as text on one line"),
    (("--actor", "a" * 256, "--scope", "read"), "--actor or --role cannot be used: "),
]


@pytest.mark.parametrize(("arguments", "sentence"), WRONG, ids=lambda value: str(value)[:60])
def test_what_is_typed_wrong_is_said_before_any_server_is_needed(arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in " ".join(keys("add", "crm", *arguments, code=2)[1].split())


@pytest.mark.parametrize(("name", "expires"), [("a b", "1d"), ("0123456789abcdef", "1d"), ("crm", "9999d")])
def test_a_key_that_cannot_be_is_refused_before_any_server_is_needed(name: str, expires: str) -> None:
    _, told = keys("add", name, "--actor", "ada", "--scope", "read", "--expires", expires, code=1)
    assert "cannot name a key" in told or "A key is valid for at most 3650 days." in told
