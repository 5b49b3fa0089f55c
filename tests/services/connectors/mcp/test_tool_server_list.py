"""The file that names servers of tools: read as other MCP clients write it, and refused in sentences without secrets."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from tool_servers import named

from poweron_events.errors import Refused
from poweron_services.connectors.mcp.server_list import HttpServer, StdioServer, read_servers, secrets_of
from poweron_services.connectors.mcp.tool_description import ToolDescription, action_of, what_changed, with_own_names

SECRET = "sk-live-0123456789"
AROUND = {"PATH": "/bin", "HOME": "/home/ada", "AWS_SECRET_ACCESS_KEY": "never", "MUSEUM_KEY": SECRET}


def test_the_usual_form_is_read_and_a_program_gets_no_more_environment_than_it_needs(tmp_path: Path) -> None:
    env = {"KEY": "${MUSEUM_KEY}", "MODE": "${MODE:-quiet}"}
    path = named(
        tmp_path,
        {
            "files": {"command": "npx", "args": ["-y", "files", "${HOME}/docs"], "env": env, "autoApprove": ["x"]},
            "remote": {"type": "http", "url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer ${MUSEUM_KEY}"}},
            "off": {"command": "false", "disabled": True},
        },
    )  # fmt: skip
    files, remote = read_servers(path, AROUND)
    assert isinstance(files.place, StdioServer)
    assert files.place.args == ("-y", "files", "/home/ada/docs")
    environment = {name: value.get_secret_value() for name, value in files.place.env.items()}
    assert environment == {"PATH": "/bin", "HOME": "/home/ada", "KEY": SECRET, "MODE": "quiet"}
    assert isinstance(remote.place, HttpServer)
    assert remote.place.headers["Authorization"].get_secret_value() == f"Bearer {SECRET}"
    assert f"Bearer {SECRET}" in secrets_of([remote])
    assert SECRET not in repr((files, remote))
    assert "/home/ada" not in secrets_of([files])


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"a": {"args": ["x"]}}, "the server 'a' cannot be used: it must have either a `command` or a `url`."),
        ({"a": {"command": "x", "url": "y"}}, "it must have either a `command` or a `url`."),
        ({"a": {"command": 7}}, "command must be a text."),
        ({"a": {"command": "x", "env": {"K": 5}}}, "env.K must be a text."),
        ({"a": {"command": "x", "env": {"K": "${NOT_SET}"}}}, "it names the variable NOT_SET, which is not set; set it."),
        ({"a": {"type": "sse", "url": "http://x"}}, "the transport `sse` is not spoken"),
        ({"a": {"command": "x", "poweron": {"trsut": ["*"]}}}, "poweron.trsut is not a known field."),
        ({"a": {"command": "x", "poweron": {"timeout": 0}}}, "poweron.timeout must be"),
        ({"web": {"command": "x"}}, "`web` is a method of PowerOn's own actions; give it another name."),
        ({"a.b": {"command": "x"}, "a_b": {"command": "y"}}, "its actions would have the names of those of 'a.b'"),
        ({"a": {"url": "https://x", "headers": {"K": SECRET + "\n"}}}, "a header must be printable ASCII."),
        ({"a": [SECRET]}, "the server 'a' cannot be used: what its name stands for must be an object."),
        ({" ": {"command": "x"}}, "it has no name; give it one."),
        ({"a": {"command": "x", "poweron": {"timeout": "soon"}}}, "poweron.timeout must be a number."),
        ({"a": {"command": "x", "env": {"K=": SECRET}}}, "the name of a variable in `env` is empty, or has"),
        ({"a": {"command": "x", "env": {"K": SECRET + "\0"}}}, "`env` must not contain a zero byte."),
        ({"a": {"url": "https://x", "headers": {"My Key": SECRET}}}, "the name of a header is empty, or has"),
        ({"a": {"url": "ftp://x/${MUSEUM_KEY}"}}, "its `url` must be an address that begins with http:// or https://"),
        ({"a": {"url": f"https://ada:{SECRET}@x"}}, "names no user; a key belongs in `headers`."),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_a_sentence_that_tells_no_value(
    tmp_path: Path, entries: dict[str, Any], why: str
) -> None:
    with pytest.raises(Refused) as refused:
        read_servers(named(tmp_path, entries), AROUND)
    assert str(refused.value).startswith("POWERON_MCP: ")
    assert why in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("written", [b"", b"[]", b'{"servers": {}}', b"{" * 100_000, b'{"mcpServers": []}'])
def test_a_file_that_is_no_list_is_refused(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(written)
    with pytest.raises(Refused, match=r'is no list of servers; write it like \{"mcpServers": \{…\}\}\.'):
        read_servers(path, {})


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b'{"mcpServers": {\n  "a": {"command": "x"},\n}}', "It is no JSON: trailing comma is not allowed, line 2, column 24."),
        (b" " * 1_000_001, "It has more than 1,000,000 bytes."),
        (b'{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "says 'a' twice in one object; say it once."),
    ],
)  # fmt: skip
def test_a_slip_in_the_file_is_told_with_its_place(tmp_path: Path, written: bytes, why: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(written)
    with pytest.raises(Refused) as refused:
        read_servers(path, {})
    assert str(refused.value).endswith(why)


def test_a_file_with_the_mark_of_utf_8_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{"mcpServers": {"a": {"command": "x"}}}')
    assert [entry.name for entry in read_servers(path, {})] == ["a"]


def test_what_is_no_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mcp.json")
    with pytest.raises(Refused, match=r"It is no file\."):
        read_servers(tmp_path / "mcp.json", {})


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"cannot be read: No such file or directory\."):
        read_servers(tmp_path / "none.json", {})


@pytest.mark.parametrize(
    ("server", "tool", "action"),
    [
        ("files", "read_file", "files.read_file"),
        ("GitHub", "get-me", "gitHub.get-me"),
        ("my server", "files/read.text", "my_server.files_read_text"),
        ("1pass", "2fa", "s1pass.t2fa"),
        ("größe", "öl", "gr__e.t_l"),
        ("x", "y" * 200, "x." + "y" * 98),
    ],
)
def test_names_are_made_to_fit_always_in_the_same_way(server: str, tool: str, action: str) -> None:
    assert action_of(server, tool) == action
    ToolDescription(name=tool, input_schema={})


def test_of_two_tools_with_one_name_the_one_that_is_written_so_stays() -> None:
    assert with_own_names("files", ["read.text", "read_text", "read/text"]) == {"files.read_text": "read_text"}


def test_what_changed_is_told_and_the_digest_is_of_all_of_it() -> None:
    before = ToolDescription(name="a", description="Reads.", input_schema={"type": "object"})
    assert before.digest == ToolDescription.model_validate(orjson.loads(orjson.dumps(before.written))).digest
    for change, said in (
        ({"description": "Writes."}, "its description changed"),
        (
            {"input_schema": {}, "output_schema": {}},
            "the schema of its parameters and the schema of its result changed",
        ),
        ({"annotations": {"readOnlyHint": True}}, "what it says of its effects changed"),
    ):
        now = before.model_copy(update=change)
        assert now.digest != before.digest
        assert what_changed(now, before) == said
    assert what_changed(None, before) == "the server does not offer it any more"
