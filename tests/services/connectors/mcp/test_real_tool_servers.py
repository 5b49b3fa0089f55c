"""Servers of tools as they are out there: the reference servers, in Node and in Python, over both transports."""

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from doubles import soon
from pytest_httpserver import HTTPServer
from registry_servers import EVERYTHING, FILESYSTEM, NODE, node_server, python_server
from tool_servers import KEY, named, tools_of
from werkzeug import Request, Response

from poweron_events.errors import Unavailable
from poweron_services.actions.action import Action, Done, Order
from poweron_services.connectors.mcp.server_list import read_servers
from poweron_services.connectors.mcp.tool_server import tool_servers
from poweron_services.connectors.web.web_rules import HostPattern, WebSettings

LETTER = Path(__file__).parents[4] / "docs" / "examples" / "letter.txt"


async def _no_model(_: Any) -> Any:
    raise AssertionError("a tool asks no model")


async def called(actions: Mapping[str, Action], name: str, told: Any = None, **parameters: Any) -> Done:
    progress = {} if told is None else {"tell_progress": lambda *step: told.append(step)}
    return await actions[name](Order(parameters, (), "en", "key", _no_model, **progress))


def texts(done: Done) -> str:
    return "\n".join(each.document_data.decode(errors="replace") for each in done.result.documents)


async def test_the_filesystem_server_reads_a_folder(tmp_path: Path) -> None:
    path = named(tmp_path, {"files": node_server(FILESYSTEM, str(LETTER.parent))})
    async with tools_of(path, tmp_path / "home") as actions:
        found = await called(actions, "files.search_files", path=str(LETTER.parent), pattern="letter.txt")
        assert str(LETTER) in texts(found)
        read = await called(actions, "files.read_text_file", path=str(LETTER))
        assert "exhibition" in texts(read)
        outside = await called(actions, "files.read_text_file", path="/etc/passwd")
        assert (outside.result.success, outside.code) == (False, "tool_failed")
        assert "denied" in texts(outside)
        writing = actions["files.write_file"].spec
        assert (
            actions["files.read_text_file"].spec.effect_class,
            actions["files.read_text_file"].spec.needs_approval,
        ) == ("pure", False)
        assert writing.needs_approval


async def test_everything_server_gives_every_kind_of_result_over_stdio(tmp_path: Path) -> None:
    path = named(tmp_path, {"everything": node_server(EVERYTHING, "stdio")})
    async with tools_of(path, tmp_path / "home") as actions:
        await every_kind(actions)


async def every_kind(actions: Mapping[str, Action]) -> None:
    assert texts(await called(actions, "everything.echo", message="Hello, harbour")) == "Echo: Hello, harbour"
    image = await called(actions, "everything.get-tiny-image")
    assert "image/png" in [each.mime_type for each in image.result.documents]
    structured = await called(actions, "everything.get-structured-content", location="Chicago")
    (weather,) = structured.result.documents
    assert weather.mime_type == "application/json"
    assert "temperature" in orjson.loads(weather.document_data)
    links = await called(actions, "everything.get-resource-links", count=3)
    assert "resources.txt" in [each.document_name for each in links.result.documents]
    told: list[Any] = []
    await called(actions, "everything.trigger-long-running-operation", told, duration=1, steps=3)
    assert told[-1] == ("tool_steps", 3, 3)


@pytest.fixture
async def streaming(tmp_path: Path) -> AsyncGenerator[int, None]:
    """The port at which the reference server speaks streamable HTTP."""
    entry = node_server(EVERYTHING, "streamableHttp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        str(NODE), *entry["args"], env={"PORT": str(port), "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        yield port
    finally:
        server.kill()
        await server.wait()


@asynccontextmanager
async def over_http(tmp_path: Path, port: int, private: str) -> AsyncGenerator[Mapping[str, Action], None]:
    entry = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Key": "${MUSEUM_KEY}"}}
    web = WebSettings(private_hosts=HostPattern.listed(private))
    async with tools_of(named(tmp_path, {"everything": entry}), tmp_path / "home", web=web) as actions:
        yield actions


async def test_the_same_server_over_streamable_http(tmp_path: Path, streaming: int) -> None:
    async with over_http(tmp_path, streaming, f"127.0.0.1:{streaming}") as actions:
        await every_kind(actions)


async def test_a_private_host_is_asked_only_where_the_settings_of_the_web_name_it(
    tmp_path: Path, streaming: int, capfd: pytest.CaptureFixture[str]
) -> None:
    async with over_http(tmp_path, streaming, "") as actions:
        assert actions == {}


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost:9", "localhost"])
async def test_who_names_a_private_address_is_told_which_settings_let_it_be_asked(tmp_path: Path, host: str) -> None:
    (server,) = read_servers(named(tmp_path, {"far": {"url": f"http://{host}/mcp"}}), {})
    async with tool_servers([server], WebSettings()) as (far,):
        with pytest.raises(Unavailable) as error:
            await far.tools()
    assert str(error.value).startswith(
        "The server 'far' cannot be used. The settings of the web do not let its address be asked: "
        "name a host of a private network in POWERON_WEB_PRIVATE_HOSTS (`HOST:PORT`), another port in POWERON_WEB_PORTS"
    )


async def test_a_server_in_python_tells_the_time(tmp_path: Path) -> None:
    async with tools_of(named(tmp_path, {"time": python_server()}), tmp_path / "home") as actions:
        done = await called(
            actions, "time.convert_time", source_timezone="Europe/Zurich", time="12:00", target_timezone="Asia/Tokyo"
        )
        assert '"+' in texts(done)
        wrong = await called(actions, "time.get_current_time", timezone="Mars/Olympus")
        assert wrong.code == "tool_failed"


OF_THE_SDK = """
import asyncio, pathlib, sys
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("sdk")

@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int = 2) -> int:
    return a + b

@server.tool(annotations={"readOnlyHint": True})
async def wait(ctx: Context) -> str:
    await ctx.report_progress(1, 2)
    try:
        await asyncio.sleep(60)
    finally:
        pathlib.Path(sys.argv[1]).write_text("told to stop")

server.run()
"""


async def test_a_server_of_the_sdk_speaks_the_newest_protocol_and_is_told_to_stop(tmp_path: Path) -> None:
    program, stopped = tmp_path / "server.py", tmp_path / "stopped"
    program.write_text(OF_THE_SDK)
    entry = {"command": sys.executable, "args": [str(program), str(stopped)]}
    async with tools_of(named(tmp_path, {"sdk": entry}), tmp_path / "home") as actions:
        (added,) = (await called(actions, "sdk.add", a=40)).result.documents
        assert (added.document_name, added.document_data) == ("add.json", b'{"result":42}')
        told: list[Any] = []
        waiting = asyncio.create_task(called(actions, "sdk.wait", told))
        await soon(lambda: bool(told))
        waiting.cancel()
        await asyncio.wait({waiting})
        await soon(stopped.exists)
    assert told == [("tool_steps", 1, 2)]


async def refused(tmp_path: Path, httpserver: HTTPServer, path: str = "/mcp", **ours: Any) -> Unavailable:
    """Why a server cannot be used."""
    headers = {"Authorization": "Bearer ${MUSEUM_KEY}"}
    entry = {"url": httpserver.url_for(path), "headers": headers, "poweron": ours}
    (server,) = read_servers(named(tmp_path, {"far": entry}), {"MUSEUM_KEY": KEY})
    web = WebSettings(private_hosts=HostPattern.listed(f"{httpserver.host}:{httpserver.port}"))
    async with tool_servers([server], web) as (far,):
        with pytest.raises(Unavailable) as error:
            await far.tools()
    assert KEY not in f"{error.value} {error.value.detail}"
    return error.value


async def test_what_comes_over_http_is_bounded_and_redirects_lead_nowhere_else(
    tmp_path: Path, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def moved(request: Request) -> Response:
        asked.append(request.headers["Authorization"])
        return Response(status=307, headers={"Location": "http://localhost:1/mcp"})

    httpserver.expect_request("/large").respond_with_data("x" * 10_000_000, content_type="application/json")
    httpserver.expect_request("/moved").respond_with_handler(moved)
    httpserver.expect_request("/packed").respond_with_data("x", headers={"Content-Encoding": "gzip"})
    for path in ("/large", "/moved", "/packed", "/nothing"):
        why = await refused(tmp_path, httpserver, path)
        assert str(why).startswith("The server 'far' cannot be used. ")
        assert why.code == "tool_server_unavailable"
    assert {*asked} == {f"Bearer {KEY}"}


class Sessions:
    """A server over HTTP that knows its clients by sessions, and forgets them where it starts again."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.calls = 0
        self.answers: Response | None = None

    def __call__(self, request: Request) -> Response:
        asked = request.get_json(silent=True)
        if request.method != "POST" or asked is None:
            return Response(status=405)
        if asked["method"] == "initialize":
            self.known.add(f"s{len(self.known)}")
            info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            return self.result(asked, info, {"Mcp-Session-Id": f"s{len(self.known) - 1}"})
        if request.headers.get("Mcp-Session-Id") not in self.known:
            return Response(status=404)
        if "id" not in asked:
            return Response(status=202)
        if asked["method"] == "tools/list":
            return self.result(asked, {"tools": [{"name": "write", "inputSchema": {"type": "object"}}]})
        self.calls += 1
        return self.answers or self.result(asked, {"content": [{"type": "text", "text": "written"}]})

    def result(self, asked: Any, result: Any, headers: Any = None) -> Response:
        written = orjson.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        return Response(written, content_type="application/json", headers=headers)


@pytest.fixture
async def sessions(
    tmp_path: Path, httpserver: HTTPServer
) -> AsyncGenerator[tuple[Sessions, Mapping[str, Action]], None]:
    server = Sessions()
    httpserver.expect_request("/mcp").respond_with_handler(server)
    web = WebSettings(private_hosts=HostPattern.listed(f"{httpserver.host}:{httpserver.port}"))
    path = named(tmp_path, {"far": {"url": httpserver.url_for("/mcp")}})
    async with tools_of(path, tmp_path / "home", web=web) as actions:
        yield server, actions


async def test_a_server_over_http_that_was_started_again_is_connected_to_again(
    sessions: tuple[Sessions, Mapping[str, Action]],
) -> None:
    server, actions = sessions
    assert texts(await called(actions, "far.write")) == "written"
    server.known = {"of another start"}
    assert texts(await called(actions, "far.write")) == "written"
    assert server.calls == 2


async def test_nobody_knows_what_came_of_a_call_that_something_between_us_answered(
    sessions: tuple[Sessions, Mapping[str, Action]],
) -> None:
    server, actions = sessions
    server.answers = Response("<p>Gateway Timeout", status=504)
    with pytest.raises(Unavailable) as unknown:
        await called(actions, "far.write")
    assert unknown.value.code == "tool_server_ended"
    assert server.calls == 1
    server.answers = None
    assert texts(await called(actions, "far.write")) == "written"


async def test_one_that_never_answers_over_http_is_given_up(tmp_path: Path, httpserver: HTTPServer) -> None:
    released = threading.Event()

    def silent(_: Request) -> Response:
        released.wait(10)
        return Response()

    httpserver.expect_request("/mcp").respond_with_handler(silent)
    try:
        why = await refused(tmp_path, httpserver, timeout=0.5)
    finally:
        released.set()
    assert str(why) == "The server 'far' cannot be used. It did not answer within 0.5 s."
