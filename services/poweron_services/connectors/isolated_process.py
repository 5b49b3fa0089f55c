"""A child process that may fail in every way: how it is started, given its question, and ended."""

import os
import signal
from asyncio import create_subprocess_exec
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from poweron_events.errors import Unavailable

CHUNK: Final = 1 << 20  # bytes that are received at a time
SENT: Final = 1 << 20  # bytes that are sent at a time


@asynccontextmanager
async def isolated_process(
    command: Sequence[str], purpose: str, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Process, None]:
    """A process in a session of its own, so that nothing it starts outlives it; without environment unless given one.

    Args:
        command: the program and its arguments.
        purpose: what follows "No process could be started to" where none can be.
        environment: all of its environment.

    Raises:
        Unavailable: this machine can start no process now.
    """
    try:
        child = await create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment or {},
            start_new_session=True,
            limit=CHUNK,
        )
    except OSError as error:
        raise Unavailable(f"No process could be started to {purpose}: {error}.") from error
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.communicate()


async def send(child: Process, *parts: bytes) -> None:
    """Write this to its standard input, and close it; a child that died says why by its silence."""
    stdin = child.stdin
    assert stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(part), SENT):  # what is written at once is copied
                stdin.write(view[start : start + SENT])
                await stdin.drain()
    stdin.close()
