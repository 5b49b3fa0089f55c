"""Child processes, from the parent's side; `child_main` is the child's side.

A child has its own session, so that Ctrl-C does not reach it, and its standard input closes when its parent ends.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Final

STOP_DEADLINE: Final = 20.0  # seconds in which a process must end when asked to


def clean_environment(home: Path) -> dict[str, str]:
    """Return the user's environment with this data directory and no other PowerOn settings."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("POWERON_")}
    return {**others, "POWERON_HOME": str(home)}


async def start(
    module: str, *arguments: str, environment: Mapping[str, str], log: Path, stdout: int = DEVNULL
) -> Process:
    """Start `python -m MODULE ARGUMENTS…`, appending its stderr to the log."""
    with log.open("ab") as stderr:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, *arguments),
            env=environment,
            stdin=PIPE,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


async def stop(process: Process) -> bool:
    """Ask a process to end and kill it at the deadline; return whether it ended by itself."""
    send(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_DEADLINE):
            await process.wait()
    except TimeoutError:
        await kill(process)
        return False
    return True


async def kill(process: Process) -> None:
    """Kill a process with `kill -9` and reap it."""
    send(process, signal.SIGKILL)
    await process.wait()


def send(process: Process, what: signal.Signals) -> None:
    """Send a signal, unless the process has ended."""
    if process.returncode is None:
        process.send_signal(what)
