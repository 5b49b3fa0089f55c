"""The environment of an experiment: a sandbox in a temporary data directory, role processes and the effect journal."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from poweron_services.embedded.folders import prepare
from poweron_services.experiments.chaos.faults import SESSION_TIMEOUT
from poweron_services.experiments.chaos.role_processes import RoleProcesses
from poweron_services.experiments.chaos.scenarios import Journal
from poweron_services.experiments.sandbox.data_directory import make
from poweron_services.experiments.sandbox.servers import Sandbox, open_sandbox


@dataclass(frozen=True, slots=True)
class ChaosEnvironment:
    """The servers, the role processes and the journal of their effects."""

    sandbox: Sandbox
    role_processes: RoleProcesses
    journal: Journal
    logs: Path
    """The folder with the log files of the role processes."""


@asynccontextmanager
async def chaos_environment(home: Path, progress: Callable[[str], None]) -> AsyncGenerator[ChaosEnvironment, None]:
    """Run both servers, without any role process yet; stop everything when the block ends."""
    logs = home / "logs"
    logs.mkdir()
    journal = Journal(home / "effects.journal")
    async with open_sandbox(home, progress, session_timeout_ms=int(SESSION_TIMEOUT * 1_000)) as sandbox:
        role_processes = RoleProcesses(sandbox.environment(), logs, journal.path)
        try:
            yield ChaosEnvironment(sandbox, role_processes, journal, logs)
        finally:
            await role_processes.close()


async def temporary_home(user_home: Path) -> Path:
    """Create a data directory for one run."""
    software = (await asyncio.to_thread(prepare, user_home)).software
    home = Path(tempfile.mkdtemp(prefix="poweron-chaos-"))
    make(home, software)
    return home
