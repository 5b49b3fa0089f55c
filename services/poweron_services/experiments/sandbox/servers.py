"""A sandbox: Kafka and Postgres for one run, and connections to them that ignore the user's settings."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import TaskType
from poweron_services import embedded
from poweron_services.client.connect import Connections, connect
from poweron_services.embedded.folders import Folders
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.pair_state import load
from poweron_services.embedded.postgres_server import Postgres
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
