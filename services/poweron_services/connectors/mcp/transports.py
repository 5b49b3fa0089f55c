"""The transports of MCP servers: local programs, and streamable HTTP over the guarded network with the web rules.

A program gets only its configured environment, and its process group is always ended. Incoming messages are limited in
size. Responses pass, as do a limited number of requests and a few progress notifications a second; all other messages
are counted and dropped.
"""

import asyncio
import os
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, cast

import anyio
import httpcore2
import httpx2
import structlog
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    jsonrpc_message_adapter,
)
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from poweron_events.codes import Code
from poweron_events.errors import Unavailable
from poweron_events.validation_messages import named, worded
from poweron_services.connectors.mcp.server_list import HttpServer, StdioServer
from poweron_services.connectors.mcp.tool_description import MAX_TOOLS
from poweron_services.connectors.web.network_guard import GuardedNetwork, SystemResolver
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_rules import WebRules, WebSettings

MAX_MESSAGE: Final = 8_000_000  # bytes
MAX_PARTS: Final = 10_000  # of one response, such as contents or tools: checking each takes time
MAX_SAID: Final = 2_000  # bytes of a program's diagnostic output
PROGRESS_PAUSE: Final = 0.1  # seconds
MAX_REQUESTS: Final = 100  # from a server to us over one connection
METHOD: Final = "tools/list"

Incoming = SessionMessage | Exception


@dataclass(slots=True)
class Traffic:
    """What was received over one connection, and how it ended."""

    unasked: int = 0
    """The number of dropped messages."""
    code: Code = "tool_server_ended"
    """Why it ended; valid once `ended` is set."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    said: bytes = b""
    """The end of what the program wrote to its standard error, and of its output that is not a message."""
    exit_code: int | None = None
    """The exit code of a program that exited on its own."""
    answer: str = ""
    """The outcome of the last HTTP request, as a sentence for users if the server is unusable."""
    version: str = ""
    """The protocol version, once negotiated."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Why tools were removed from the last list, by name."""
    _requests: int = 0
    _progress: float = 0.0

    def says(self, output: bytes) -> None:
        """Append diagnostic output and keep its end."""
        self.said = (self.said + output[-MAX_SAID:])[-MAX_SAID:]

    def lets_in(self, message: Incoming) -> bool:
        """Return whether to pass the message on, and count it."""
        match message.message if isinstance(message, SessionMessage) else message:
            case JSONRPCResponse() | JSONRPCError():
                return True
            case JSONRPCNotification(method="notifications/progress") if self._may_progress():
                return True
            case JSONRPCRequest() if self._requests < MAX_REQUESTS:
                self._requests += 1
                return True
        self.unasked += 1
        return False

    def take_out_unreadable(self, message: Incoming) -> None:
        """Remove tools that break the protocol from a list."""
        if self.version and isinstance(message, SessionMessage):
            self.unreadable.update(_leave_out_unreadable(message.message, self.version))

    def _may_progress(self) -> bool:
        now = time.monotonic()
        if now - self._progress < PROGRESS_PAUSE:
            return False
        self._progress = now
        return True


async def let_in(source: ObjectReceiveStream[Incoming], to: ObjectSendStream[Incoming], traffic: Traffic) -> None:
    """Pass on accepted messages until the server closes the stream."""
    try:
        async with source, to:
            async for message in source:
                if _has_too_many_parts(message):
                    traffic.code = "tool_result_too_large"
                    return
                if traffic.lets_in(message):
                    traffic.take_out_unreadable(message)
                    await to.send(message)
                elif not traffic.unasked % 100:
                    await anyio.lowlevel.checkpoint()  # a flood of messages must not block other tasks
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the receiver is closed
    finally:
        traffic.ended.set()


def _has_too_many_parts(message: Incoming) -> bool:
    answer = message.message if isinstance(message, SessionMessage) else None
    parts = answer.result.values() if isinstance(answer, JSONRPCResponse) else ()
    return any(isinstance(part, list) and len(part) > MAX_PARTS for part in parts)


def _leave_out_unreadable(message: Any, version: str) -> dict[str, str]:
    """Remove invalid tools from the message, if it is a list of tools, and return the reasons by tool name.

    If the list has more than `MAX_TOOLS` tools, one extra tool is kept, so the caller can tell that there are more.
    """
    content = message.result if isinstance(message, JSONRPCResponse) else {}
    if not isinstance(content.get("tools"), list):
        return {}
    tools = content["tools"] = content["tools"][: MAX_TOOLS + 1]
    if not (wrong := _problems(content, version)):
        return {}
    content["tools"] = [tool for number, tool in enumerate(tools) if number not in wrong]
    return {_name(tools[number], number): reason for number, reason in wrong.items()}


def _problems(content: dict[str, Any], version: str) -> dict[int, str]:
    """The problem with each invalid tool, by its position in the list."""
    try:
        validate_server_result(METHOD, version, content)
        ListToolsResult.model_validate(content)
    except ValidationError as error:
        problems: dict[int, str] = {}
        for problem in error.errors(include_url=False, include_input=False):
            match problem["loc"]:
                case ("tools", int(number), *place):
                    sentence = worded(place, problem["type"], problem.get("ctx", {}))
                    problems.setdefault(number, sentence or f"{named(place)} is not as the protocol wants it")
        return problems
    except (KeyError, ValueError):  # the SDK has no schema for this protocol version
        return {}
    return {}


def _name(tool: Any, number: int) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) and name else f"tool {number + 1}"


log = structlog.get_logger()

ENDS_WITHIN: Final = 2.0  # seconds for a server to exit once its input is closed, and again after each signal
EXITS_WITHIN: Final = 0.5  # seconds to wait for the exit code after the end of the output
MAX_NAMED: Final = 200  # characters of a command
CHUNK: Final = 65_536

Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def stdio_streams(server: StdioServer, traffic: Traffic) -> AsyncGenerator[Streams, None]:
    """Start the program and connect to it. Its whole process group is ended when the context exits.

    Raises:
        Unavailable: the program cannot be started.
    """
    child = await _start(server)
    incoming_end, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, outgoing_end = anyio.create_memory_object_stream[SessionMessage](0)
    async with incoming_end, incoming, outgoing, outgoing_end, anyio.create_task_group() as tasks:
        tasks.start_soon(_read, child, incoming_end, traffic)
        tasks.start_soon(_write, child, outgoing_end)
        tasks.start_soon(_listen, child, traffic)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                await _end(child)
            tasks.cancel_scope.cancel()


async def _start(server: StdioServer) -> Process:
    env = {name: value.get_secret_value() for name, value in server.env.items()}
    try:
        return await asyncio.create_subprocess_exec(
            server.command,
            *server.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=env,
            cwd=server.folder,
            limit=MAX_MESSAGE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise Unavailable(_start_failure(server, error), code="tool_server_unavailable") from error


def _start_failure(server: StdioServer, error: Exception) -> str:
    if server.folder is not None and not os.path.isdir(server.folder):  # noqa: PTH112 - as the system takes it
        return f"The folder {server.folder[:MAX_NAMED]!r} (`cwd`) in which to start it is not there."
    reason = getattr(error, "strerror", None) or "it is no command"
    sentence = f"The program {server.command[:MAX_NAMED]!r} could not be started: {reason}."
    parts = server.command.split()
    return f"{sentence} What follows the first word belongs in `args`." if len(parts) > 1 else sentence


async def _read(child: Process, to: MemoryObjectSendStream[Incoming], traffic: Traffic) -> None:
    stdout = child.stdout
    assert stdout is not None
    async with to:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while line := await _line(stdout, traffic):
                message = _parse(line)
                if isinstance(message, Exception):
                    traffic.says(line)
                await to.send(message)
        if traffic.code != "tool_result_too_large" and await _has_ended(child, EXITS_WITHIN):
            traffic.exit_code = child.returncode


async def _line(stdout: asyncio.StreamReader, traffic: Traffic) -> bytes:
    """The next line; empty at the end of the output and if a line is too long."""
    try:
        return await stdout.readline()
    except ValueError:  # raised by readline if a line exceeds the limit
        traffic.code = "tool_result_too_large"
    except ConnectionError:
        pass
    return b""


def _parse(line: bytes) -> Incoming:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(child: Process, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Send outgoing messages.

    Write errors are ignored: a server that no longer reads may have answered already, and `_read` notices its end.
    """
    stdin = child.stdin
    assert stdin is not None
    async with source:
        async for message in source:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            with suppress(OSError, RuntimeError):
                stdin.write(text.encode(errors="replace") + b"\n")
                await stdin.drain()


async def _listen(child: Process, traffic: Traffic) -> None:
    """Drain its standard error, so that it never blocks on a full pipe, and keep the last part."""
    stderr = child.stderr
    assert stderr is not None
    while chunk := await stderr.read(CHUNK):
        traffic.says(chunk)


async def _end(child: Process) -> None:
    """Close its input, terminate its process group if it does not exit, then kill the group: no process is left."""
    assert child.stdin is not None
    child.stdin.close()
    if not await _has_ended(child):
        _signal(child, signal.SIGTERM)
        await _has_ended(child)
    _signal(child, signal.SIGKILL)  # also kills processes that it started and left running
    await _has_ended(child)
    child._transport.close()  # type: ignore[attr-defined] # noqa: SLF001 - else an unread pipe stays open
    await anyio.lowlevel.checkpoint()


async def _has_ended(child: Process, within: float = ENDS_WITHIN) -> bool:
    with anyio.move_on_after(within):
        while child.returncode is None:  # noqa: ASYNC110 - `wait` waits for the pipes too, which a grandchild may hold
            await anyio.sleep(0.01)
    return child.returncode is not None


def _signal(child: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


CONNECT: Final = 10.0  # seconds
SENT: Final = 30.0  # seconds to write a message, and to wait for a free connection
CONNECTIONS: Final = 20
MAX_TOLD: Final = 200  # characters of an answer that are reported
EVENTS: Final = "text/event-stream"
SESSION: Final = "Mcp-Session-Id"


@asynccontextmanager
async def http_streams(server: HttpServer, settings: WebSettings, traffic: Traffic) -> AsyncGenerator[Any, None]:
    """Connect to the server.

    Raises:
        Refused: the web settings do not allow its address (`address_refused`).
    """
    rules = WebRules(settings)
    rules.check(WebAddress.of(server.url))
    resolver = SystemResolver()
    pool = httpcore2.AsyncConnectionPool(
        ssl_context=httpcore2.default_ssl_context(),
        max_connections=CONNECTIONS,
        network_backend=GuardedNetwork(rules, resolver, httpcore2.AnyIOBackend()),
    )
    headers = {name: value.get_secret_value() for name, value in server.headers.items()}
    try:
        async with (
            httpx2.AsyncClient(
                transport=_Guarded(pool, rules, traffic),
                headers={"User-Agent": settings.user_agent, **headers, "Accept-Encoding": "identity"},
                timeout=httpx2.Timeout(SENT, connect=CONNECT, read=None),  # each call has its own time limit
                trust_env=False,
            ) as client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
        ):
            yield streams
    finally:
        resolver.close()


class _TooMuch(httpx2.TransportError):
    """The response is too long, or is compressed, so its length is unknown."""


class _NoAnswer(httpx2.TransportError):
    """The response does not answer the request: the session is no longer known, or a gateway failed."""


class _Guarded(httpx2.AsyncHTTPTransport):
    """HTTP over connections that reach only checked addresses, with responses limited to the size of a message."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool, rules: WebRules, traffic: Traffic) -> None:
        self._pool = pool
        self._rules = rules
        self._traffic = traffic

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._rules.check(WebAddress.of(str(request.url)))
        try:
            response = await super().handle_async_request(request)
        except httpx2.ConnectError as error:
            self._traffic.answer = f"No connection to it could be made: {str(error)[:MAX_TOLD]}."
            raise
        if request.method == "POST":
            self._traffic.answer = _answer_text(response)
        if request.method == "POST" and _is_no_answer(request, response):
            await response.aclose()
            raise _NoAnswer(f"status {response.status_code}")
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            raise _TooMuch("compressed, though that was not asked for")
        if not response.headers.get("Content-Type", "").lower().startswith(EVENTS):  # each event has its own limit
            response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream), self._traffic)
        return response


def _answer_text(response: httpx2.Response) -> str:
    kind = "".join(filter(str.isprintable, response.headers.get("Content-Type", "").partition(";")[0]))[:MAX_TOLD]
    answer = f"status {response.status_code}" + (f" ({kind})" if kind else "")
    return f"It answered with {answer}, but not as a server of MCP does."


def _is_no_answer(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Return whether the SDK would take the response for an error of the tool, although the tool may have run."""
    if response.status_code == HTTPStatus.NOT_FOUND:
        return SESSION in request.headers
    speaks = response.headers.get("Content-Type", "").lower().startswith("application/json")
    return response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR and not speaks


class _Bounded(httpx2.AsyncByteStream):
    """A body that raises `_TooMuch` once it is longer than `MAX_MESSAGE`."""

    def __init__(self, stream: httpx2.AsyncByteStream, traffic: Traffic) -> None:
        self._stream = stream
        self._traffic = traffic

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                self._traffic.code = "tool_result_too_large"
                raise _TooMuch(f"longer than {MAX_MESSAGE} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
