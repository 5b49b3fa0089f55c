"""Child processes: how a parent starts and ends them, and the main program of the child.

A child has its own session, so that Ctrl-C does not reach it. It works until SIGTERM. If its parent dies, its standard
input closes, and it ends at once.
"""

import asyncio
import os
import signal
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from poweron_services import wiring
from poweron_services.actions.registry import OpenActions
from poweron_services.models.chat_model import ChatModel
from poweron_services.process_memory import tune_memory
from poweron_services.settings.config import Settings
from poweron_services.signals import until_stopped
from poweron_services.standalone import open_connections

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


log = structlog.get_logger()


def run(work: Coroutine[Any, Any, None]) -> None:
    """Do this work until SIGTERM; if the parent is killed, end the process at once."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    asyncio.run(until_stopped(work))


async def serve(settings: Settings, roles: Sequence[str], model: ChatModel, open_actions: OpenActions) -> None:
    """Play these roles with this model and these actions."""
    async with open_connections(settings, lambda _: None, wait=True) as connections:
        tune_memory()
        log.info("service_started", roles=",".join(roles))
        await wiring.serve(connections, roles, model, open_actions)


def _end_with_the_parent() -> None:
    """Exit when standard input ends; read it without Python's own buffer, which a thread must not hold."""
    while os.read(0, 1):
        pass
    os._exit(1)
