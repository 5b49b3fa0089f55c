"""A sandbox: Kafka and Postgres for one run, and connections to them that ignore the user's settings.

Its data directory, which `make` creates and `remove` deletes, shares only the server software with the user's.
"""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from poweron_events.event import TaskType
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services import embedded
from poweron_services.client.connect import Connections, connect
from poweron_services.embedded.folders import PRIVATE, Folders, load
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.postgres_server import Postgres
from poweron_services.embedded.server_process import true_within, working_in
from poweron_services.experiments.sandbox.child_process import clean_environment
from poweron_services.settings.config import Settings

SESSION_TIMEOUT_MS: Final[int] = Settings.model_fields["kafka_session_timeout_ms"].default


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The servers of one run and the connections of the process that started them."""

    kafka: Kafka
    postgres: Postgres
    kafka_settings: KafkaSettings
    connections: Connections

    @property
    def home(self) -> Path:
        return self.connections.settings.home

    def environment(self) -> dict[str, str]:
        """Return the environment of a child process: it names these servers and none of the user's own settings."""
        servers = {**self.kafka_settings.environment(), "POWERON_POSTGRES": self.postgres.dsn}
        own_actions = {f"POWERON_ALLOW_{kind.upper()}": "*" for kind in get_args(TaskType)}
        return {**clean_environment(self.home), **servers, **own_actions}


@asynccontextmanager
async def open_sandbox(
    home: Path, progress: Callable[[str], None], *, fsync: bool = False, session_timeout_ms: int = SESSION_TIMEOUT_MS
) -> AsyncGenerator[Sandbox, None]:
    """Run both servers of this data directory while the block lasts.

    Args:
        home: the data directory of the run.
        progress: called with sentences that describe the progress.
        fsync: make the broker flush each record to the disk.
        session_timeout_ms: the time after which the partitions of a silent process are reassigned.

    Raises:
        Unavailable: a server does not start.
        Refused: something must be fixed first; the message says what.
    """
    async with embedded.lease(home, progress, fsync=fsync) as servers:
        settings = Settings.model_construct(home=servers.home, kafka_session_timeout_ms=session_timeout_ms)
        kafka = settings.clients_of(servers.kafka)
        async with connect(settings, kafka=kafka, postgres=servers.postgres) as connections:
            yield Sandbox(*_processes(servers.home, fsync=fsync), kafka, connections)


def _processes(home: Path, *, fsync: bool) -> tuple[Kafka, Postgres]:
    """Return the servers as processes that can be found, stopped and restarted."""
    folders = Folders.of(home)
    socket_folder = load(folders.state).socket_folder
    return Kafka(folders, fsync), Postgres(folders, Path(socket_folder) if socket_folder else None)


async def until(question: Callable[[], Awaitable[bool]], period: float) -> None:
    """Poll a condition every `period` seconds until it is true."""
    while not await question():  # noqa: ASYNC110 - Kafka and Postgres send no notification
        await asyncio.sleep(period)


async def stopped(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait for this many seconds and return False; return True at once if `stopping` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return False
    return True


CACHE_DEADLINE: Final = 120.0  # seconds


def make(home: Path, software: Path) -> None:
    """Create a data directory; its servers download their software to `software`, which the user's servers share."""
    folders = Folders.of(home)
    folders.servers.mkdir(mode=PRIVATE, parents=True)
    folders.software.symlink_to(software)


async def remove(home: Path) -> None:
    """Stop any servers still running in the data directory, and delete it."""
    try:
        await embedded.down(home)
        await true_within(CACHE_DEADLINE, lambda: not _makes_start_cache(home))
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def _makes_start_cache(home: Path) -> bool:
    """Return whether Java's start-up cache is still being built there, as happens once after the very first broker."""
    kafka = Folders.of(home).kafka
    return any(working_in(kafka, name) for name in ("sh", "java"))
