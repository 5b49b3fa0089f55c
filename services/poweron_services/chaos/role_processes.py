"""The crew: role processes that are started, killed, frozen and started again.

Their role sets overlap: two processes play everything, two more share everything between them, each half under
consumer groups of its own. So every turn has several takers, and any one process may be missing.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from poweron_services.chaos import scenario_worker
from poweron_services.wiring import ROLES

CREW: Final[dict[str, tuple[str, ...]]] = {
    "north": ROLES,
    "south": ROLES,
    "hands": ("intake", "executor", "observer", "projector"),
    "heads": ("planner", "selector", "parameterizer", "refiner", "reviewer"),
}

HALVES: Final = (("north", "south"), ("hands", "heads"))
"""Each of them plays every role."""

RESTART_PAUSE = 2.0  # seconds; starting again and again would keep a server from starting at all
STOP_DEADLINE = 20.0  # seconds that a process has to end by itself when asked to


class Crew:
    """Role processes by name. One that ends unasked is started again; `surprises` tells which did."""

    def __init__(self, environment: Mapping[str, str], folder: Path, journal: Path) -> None:
        self._environment = {**_foreign(os.environ), **environment}
        self._folder = folder
        self._journal = journal
        self._running: dict[str, Process] = {}
        self._wanted: set[str] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self.surprises: list[str] = []
        self.starts = 0

    def playing(self, role: str) -> list[str]:
        """The names of those of the standing crew that play the role."""
        return [name for name, roles in CREW.items() if role in roles]

    async def start(self, name: str, roles: Sequence[str] | None = None) -> None:
        """Start a process unless it runs; `roles` for one that does not belong to the standing crew."""
        self._wanted.add(name)
        await self._start_wanted(name, CREW[name] if roles is None else roles)

    async def _start_wanted(self, name: str, played: Sequence[str]) -> None:
        async with self._starting:
            if name in self._wanted and name not in self._running:
                await self._start(name, played)

    async def _start(self, name: str, played: Sequence[str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", scenario_worker.__name__, str(self._journal), *played),
                env=self._environment,
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1
        self._running[name] = process
        watching = asyncio.create_task(self._watch(name, played, process))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    async def kill(self, name: str) -> None:
        """`kill -9`, and reap."""
        process = self._taken(name)
        if process is not None:
            _send(process, signal.SIGKILL)
            await process.wait()

    async def stop(self, name: str) -> None:
        """Ask a process to end; one that does not is a surprise."""
        process = self._taken(name)
        if process is None:
            return
        _send(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_DEADLINE):
                await process.wait()
        except TimeoutError:
            self.surprises.append(f"Process {name!r} did not end within {STOP_DEADLINE:g} s of being asked to.")
            _send(process, signal.SIGKILL)
            await process.wait()

    def _taken(self, name: str) -> Process | None:
        self._wanted.discard(name)
        return self._running.pop(name, None)

    def freeze(self, name: str) -> Process | None:
        """Hold a process as it stands; the answer is what `thaw` wants."""
        process = self._running.get(name)
        if process is not None:
            _send(process, signal.SIGSTOP)
        return process

    async def close(self) -> None:
        """Kill whoever is left."""
        for watching in self._watching:
            watching.cancel()
        for name in list(self._running):
            await self.kill(name)

    async def _watch(self, name: str, roles: Sequence[str], process: Process) -> None:
        code = await process.wait()
        if self._running.get(name) is not process:
            return
        del self._running[name]
        self.surprises.append(f"Process {name!r} ended by itself with exit code {code}; its log says why.")
        await asyncio.sleep(RESTART_PAUSE)
        await self._start_wanted(name, roles)


def thaw(process: Process | None) -> None:
    """Let a frozen process go on."""
    if process is not None:
        _send(process, signal.SIGCONT)


def _send(process: Process, what: signal.Signals) -> None:
    if process.returncode is None:
        process.send_signal(what)


def _foreign(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the user's own settings: these processes have nothing to do with their data."""
    return {name: value for name, value in environment.items() if not name.startswith("POWERON_")}
