"""PowerOn as a server of tools, in memory: what an assistant is shown, what it may hand over, and how errors read."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.client.client import Client

from poweron_events.errors import Refused, Unavailable
from poweron_services.cli.error_messages import explained
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.mcp_server.file_access import AllowedFolders, NotHandedOver
from poweron_services.mcp_server.tool_calls import ToolCalls, Workplace, workplace
from poweron_services.mcp_server.tool_protocol import TOOLS, tool_server

ID = "00000000-0000-0000-0000-000000000007"
Opening = Callable[[], AbstractAsyncContextManager[Any]]


def failing(error: Exception) -> Opening:
    @asynccontextmanager
    async def opening() -> AsyncGenerator[Any, None]:
        raise error
        yield

    return opening


async def for_ever(_: Any) -> None:
    await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def assistant(opening: Opening, *folders: Path, mode: str = "legacy") -> AsyncGenerator[Client, None]:
    async with workplace(opening, for_ever) as place:
        server = tool_server(ToolCalls(place, AllowedFolders(folders), lambda _: ()), explained)
        async with Client(server, mode=mode) as client:
            yield client


async def error(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    given = await client.call_tool(tool, arguments)
    assert given.is_error
    return given.structured_content  # type: ignore[no-any-return] # an object of JSON


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_assistant_is_shown_four_tools_with_schemas_of_what_they_take_and_give(mode: str) -> None:
    async with assistant(failing(Unavailable("-")), mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["ask", "workflow", "history", "approve"] == list(TOOLS)
        assert all(tool.output_schema and tool.output_schema["type"] == "object" for tool in tools)
        assert tools[0].input_schema["required"] == ["prompt"]
        assert tools[3].annotations is not None
        assert tools[3].annotations.destructive_hint
        assert "Never decide for them" in (client.instructions or "")
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "poweron://workflows/{workflowId}/documents/{documentId}"


@pytest.mark.req("L-10")
async def test_errors_are_results_with_the_sentences_and_codes_of_the_commands() -> None:
    gone = Unavailable("Kafka at nowhere:9092 does not answer")
    async with assistant(failing(gone)) as client:
        sentence, code = explained(gone)
        assert await error(client, "workflow", workflowId=ID) == {"error": sentence, "code": code}
        assert await error(client, "ask", prompt="Write it.") == {"error": sentence, "code": code}
        assert await error(client, "history", workflowId="7") == {
            "error": "'7' is not a workflow's id. `poweron workflows` lists them.",
            "code": "not_a_workflow_id",
        }
        with pytest.raises(MCPError, match="Kafka at nowhere:9092"):
            await client.read_resource(f"poweron://workflows/{ID}/documents/d1")
    async with assistant(failing(UnknownWorkflow(ID))) as client:
        assert await error(client, "workflow", workflowId=ID) == {
            "error": f"There is no workflow {ID}. `poweron workflows` lists all workflows.",
            "code": "unknown_workflow",
        }


@pytest.mark.req("X-06")
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("ask", {}, "prompt is missing"),
        ("ask", {"prompt": " "}, "prompt"),
        ("ask", {"prompt": "x", "shell": "rm"}, "shell is not a known field"),
        ("ask", {"prompt": "x", "documents": [{"name": "a", "base64": "?"}]}, "'a' is not base64"),
        ("ask", {"prompt": "x", "documents": [{"path": "a", "text": "b"}]}, "documents"),
        ("ask", {"prompt": "x", "waitSeconds": 1e9}, "waitSeconds"),
        ("history", {"workflowId": ID, "limit": 1_000}, "limit"),
        ("approve", {"workflowId": ID, "approvalId": "x", "decision": "maybe"}, "decision"),
        ("approve", {"workflowId": ID, "approvalId": "x", "decision": "deny"}, "Say why the action must not run."),
        ("approve", {"workflowId": ID, "decision": "approve"}, "approvalId is missing"),
    ],
)
async def test_what_cannot_be_asked_for_is_told_in_a_sentence(tool: str, arguments: Any, said: str) -> None:
    async with assistant(failing(Unavailable("-"))) as client:
        told = await error(client, tool, **arguments)
        assert said in told["error"]
        assert told["code"] == "invalid_request"
        with pytest.raises(MCPError, match="There is no tool 'shell'"):
            await client.call_tool("shell", {})


async def test_after_trouble_the_next_call_tries_again() -> None:
    tried: list[int] = []

    @asynccontextmanager
    async def opening() -> AsyncGenerator[Any, None]:
        tried.append(1)
        if len(tried) == 1:
            raise Unavailable("not yet")
        yield "open"

    async def work(connections: Any) -> Any:
        return connections

    async with workplace(opening, for_ever) as place:
        with pytest.raises(Unavailable, match="not yet"):
            await place.do(work)
        assert [await place.do(work), await place.do(work), len(tried)] == ["open", "open", 2]


async def test_where_the_roles_cannot_be_played_whoever_waits_is_told_why() -> None:
    @asynccontextmanager
    async def opening() -> AsyncGenerator[Any, None]:
        yield "open"

    async def serving(_: Any) -> None:
        raise Refused("POWERON_MODEL must be set.")

    place = Workplace(opening, serving)
    with pytest.raises(Refused, match="POWERON_MODEL"):
        await place.do(for_ever)  # type: ignore[arg-type] # what never ends
    await place.close()


async def test_whoever_stops_waiting_stops_nothing_else() -> None:
    begun, gate, opened = asyncio.Event(), asyncio.Event(), list[int]()

    @asynccontextmanager
    async def opening() -> AsyncGenerator[Any, None]:
        opened.append(1)
        begun.set()
        await gate.wait()
        yield "open"

    async def work(connections: Any) -> Any:
        return connections

    async with workplace(opening, for_ever) as place:
        server = tool_server(ToolCalls(place, AllowedFolders(()), lambda _: ()), explained)
        async with Client(server, mode="legacy") as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "ask", {"prompt": "Write it."})
                await begun.wait()
                group.cancel_scope.cancel()
            gate.set()
            assert (await place.do(work), opened) == ("open", [1])


# --- files


@pytest.fixture
def allowed(tmp_path: Path) -> AllowedFolders:
    folder = tmp_path / "allowed"
    (folder / "in").mkdir(parents=True)
    (folder / ".git").mkdir()
    (tmp_path / "allowed-too").mkdir()
    for path in ("allowed/a.txt", "allowed/in/b.txt", "allowed/.env", "allowed/.git/c", "secret", "allowed-too/d"):
        (tmp_path / path).write_text(path)
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "way").symlink_to(tmp_path / "allowed-too")
    os.mkfifo(folder / "pipe")
    return AllowedFolders((folder,))


@pytest.mark.req("X-03")
@pytest.mark.parametrize(
    ("path", "said"), [("a.txt", "allowed/a.txt"), ("in/b.txt", "allowed/in/b.txt"), ("in/../a.txt", None)]
)
def test_files_below_the_folder_are_read(allowed: AllowedFolders, path: str, said: str | None) -> None:
    if said is None:
        with pytest.raises(NotHandedOver):
            allowed.read(path)
        return
    for named in (path, str(allowed.folders[0] / path)):
        assert allowed.read(named).data.decode() == said


@pytest.mark.req("X-03")
@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "link",
        "way/d",
        ".env",
        ".git/c",
        "in",
        "pipe",
        "/etc/passwd",
        "",
        ".",
        "~/.ssh/id_rsa",
        "in/../../secret",
        "a\0.txt",
        "\ud800.txt",
    ],
)
def test_no_way_leads_to_another_file(allowed: AllowedFolders, path: str) -> None:
    folder = allowed.folders[0]
    below = path if path.startswith("/") else f"{folder}/{path}"
    for named in (path, below, f"{folder.parent}/allowed-too/d", f"{folder}-too/d"):
        with pytest.raises(NotHandedOver) as refused:
            allowed.read(named)
        assert refused.value.code == "file_not_allowed"


def test_a_file_that_is_missing_is_told_so(allowed: AllowedFolders) -> None:
    with pytest.raises(NotHandedOver, match=r"There is no file 'x\.txt'") as refused:
        allowed.read("x.txt")
    assert refused.value.code == "file_missing"


def test_the_folder_it_was_started_in_is_allowed_unless_everything_is_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert AllowedFolders.of([]).folders == (tmp_path.resolve(),)
    assert AllowedFolders.of([tmp_path / "x"]).folders == ((tmp_path / "x").resolve(),)
    monkeypatch.setenv("HOME", str(tmp_path))
    none = AllowedFolders.of([])
    monkeypatch.chdir("/")
    for folders in (none, AllowedFolders.of([])):
        with pytest.raises(NotHandedOver, match="No folder is allowed; `poweron mcp serve --allow DIR` names one"):
            folders.read("a.txt")
