"""Child processes that may fail in any way: starting them, sending their input and ending them."""

import os
import signal
from asyncio import create_subprocess_exec
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from poweron_events.errors import Unavailable

CHUNK: Final = 1 << 20  # bytes received at a time
SENT: Final = 1 << 20  # bytes sent at a time


@asynccontextmanager
async def isolated_process(
    command: Sequence[str], purpose: str, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Process, None]:
    """Run a process in its own session, so that nothing it starts outlives it; its environment is empty by default.

    Args:
        command: the program and its arguments.
        purpose: completes the error message "No process could be started to …".
        environment: the whole environment of the process.

    Raises:
        Unavailable: this machine cannot start a process now.
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
    """Write the parts to the child's standard input and close it; if the child died, its missing answer shows that."""
    stdin = child.stdin
    assert stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(part), SENT):  # in pieces, because asyncio copies what it buffers
                stdin.write(view[start : start + SENT])
                await stdin.drain()
    stdin.close()
