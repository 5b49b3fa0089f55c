"""The transport for servers that are local programs.

A program gets only its configured environment, and its process group is always ended.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from poweron_events.errors import Unavailable
from poweron_services.connectors.mcp.server_list import StdioServer
from poweron_services.connectors.mcp.streams import MAX_MESSAGE, Incoming, Traffic

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
    return f"{sentence} What stands behind the first word belongs in `args`." if len(parts) > 1 else sentence


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
