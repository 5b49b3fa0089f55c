"""Role processes that are started, killed, frozen and restarted, in an environment with a data directory of its own.

Their role sets overlap: two processes play all roles, and two more divide all roles between them in their own consumer
groups. Every turn can therefore be taken by several processes, and any one of them may be missing.
"""

import asyncio
import signal
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from poweron_services.embedded.folders import prepare
from poweron_services.experiments.chaos import scenario_worker
from poweron_services.experiments.chaos.faults import SESSION_TIMEOUT
from poweron_services.experiments.chaos.ledger_witness import ChaosWitness, ledger_witness
from poweron_services.experiments.chaos.scenarios import Journal
from poweron_services.experiments.sandbox.child_process import STOP_DEADLINE, kill, send, start, stop
from poweron_services.experiments.sandbox.servers import Sandbox, make, open_sandbox
from poweron_services.wiring import ROLES

ROLE_SETS: Final[dict[str, tuple[str, ...]]] = {
    "all-1": ROLES,
    "all-2": ROLES,
    "executors": ("intake", "executor", "observer", "projector"),
    "deciders": ("planner", "selector", "parameterizer", "refiner", "reviewer"),
}
"""The roles of each permanent process, by its name."""

HALVES: Final = (("all-1", "all-2"), ("executors", "deciders"))
"""Two groups of processes, each of which plays every role."""

RESTART_PAUSE = 2.0  # seconds; constant restarts would keep a server from starting at all


class RoleProcesses:
    """Role processes by name. One that ends by itself is restarted and reported in `unexpected`, as a sentence."""

    def __init__(self, environment: Mapping[str, str], folder: Path, journal: Path) -> None:
        self._environment = environment
        self._folder = folder
        self._journal = journal
        self._running: dict[str, Process] = {}
        self._played: dict[str, Sequence[str]] = {}
        self._wanted: set[str] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self.unexpected: list[str] = []
        self.starts = 0

    def playing(self, role: str) -> list[str]:
        """Return the names of the permanent processes that play the role."""
        return [name for name, roles in ROLE_SETS.items() if role in roles]

    async def start(self, name: str, roles: Sequence[str] | None = None) -> None:
        """Start a process unless it is running; give `roles` for one that is not permanent."""
        self._wanted.add(name)
        await self._start_wanted(name, ROLE_SETS[name] if roles is None else roles)

    async def _start_wanted(self, name: str, played: Sequence[str]) -> None:
        async with self._starting:
            if name in self._wanted and name not in self._running:
                await self._start(name, played)

    async def _start(self, name: str, played: Sequence[str]) -> None:
        module, log = scenario_worker.__name__, self._folder / f"{name}.log"
        process = await start(module, str(self._journal), *played, environment=self._environment, log=log)
        self.starts += 1
        self._running[name] = process
        self._played[name] = played
        watching = asyncio.create_task(self._watch(name, played, process))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    async def kill(self, name: str) -> None:
        """Kill a process with `kill -9` and reap it."""
        process = self._taken(name)
        if process is not None:
            await kill(process)

    @asynccontextmanager
    async def all_killed(self) -> AsyncGenerator[None, None]:
        """Kill every process with `kill -9` and let none start within the block; then restart those still wanted."""
        async with self._starting:
            killed, self._running = self._running, {}
            await asyncio.gather(*(kill(process) for process in killed.values()))
            try:
                yield
            finally:
                for name in self._wanted & killed.keys():
                    await self._start(name, self._played[name])

    async def stop(self, name: str) -> None:
        """Ask a process to end; record it as unexpected if it does not end in time."""
        process = self._taken(name)
        if process is not None and not await stop(process):
            self.unexpected.append(f"Process {name!r} did not end within {STOP_DEADLINE:g} s of being asked to.")

    def _taken(self, name: str) -> Process | None:
        self._wanted.discard(name)
        return self._running.pop(name, None)

    def freeze(self, name: str) -> Process | None:
        """Suspend a process and return it, for `thaw`."""
        process = self._running.get(name)
        if process is not None:
            send(process, signal.SIGSTOP)
        return process

    async def close(self) -> None:
        """Kill all remaining processes."""
        for watching in self._watching:
            watching.cancel()
        for name in list(self._running):
            await self.kill(name)

    async def _watch(self, name: str, roles: Sequence[str], process: Process) -> None:
        code = await process.wait()
        if self._running.get(name) is not process:
            return
        del self._running[name]
        self.unexpected.append(f"Process {name!r} ended by itself with exit code {code}; its log says why.")
        await asyncio.sleep(RESTART_PAUSE)
        await self._start_wanted(name, roles)


def thaw(process: Process | None) -> None:
    """Resume a frozen process."""
    if process is not None:
        send(process, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class ChaosEnvironment:
    """The servers, the role processes and the journal of their effects."""

    sandbox: Sandbox
    role_processes: RoleProcesses
    journal: Journal
    logs: Path
    """The folder with the log files of the role processes."""
    witness: ChaosWitness


@asynccontextmanager
async def chaos_environment(home: Path, progress: Callable[[str], None]) -> AsyncGenerator[ChaosEnvironment, None]:
    """Run both servers, without any role process yet; stop everything when the block ends."""
    logs = home / "logs"
    logs.mkdir()
    journal = Journal(home / "effects.journal")
    async with (
        open_sandbox(home, progress, session_timeout_ms=int(SESSION_TIMEOUT * 1_000)) as sandbox,
        ledger_witness(home) as witness,
    ):
        environment = {**sandbox.environment(), "POWERON_LEDGER_POLICY": str(witness.policy)}
        role_processes = RoleProcesses(environment, logs, journal.path)
        try:
            yield ChaosEnvironment(sandbox, role_processes, journal, logs, witness)
        finally:
            await role_processes.close()


async def temporary_home(user_home: Path) -> Path:
    """Create a data directory for one run."""
    software = (await asyncio.to_thread(prepare, user_home)).software
    home = Path(tempfile.mkdtemp(prefix="poweron-chaos-"))
    make(home, software)
    return home
