"""The scene: a pair of servers of its own in a temporary data directory, and what is needed to reach them.

Nothing of the user's is touched; only the broker's jars are shared, so that they are fetched once.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from poweron_services import embedded
from poweron_services.chaos.faults import SESSION_TIMEOUT
from poweron_services.chaos.role_processes import Crew
from poweron_services.chaos.scenarios import Journal
from poweron_services.client.connect import Connections, connect
from poweron_services.config import Settings
from poweron_services.embedded import jars
from poweron_services.embedded.folders import PRIVATE, Folders, prepare
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.pair_state import load
from poweron_services.embedded.postgres_server import Postgres
from poweron_services.embedded.start_cache import StartCache


@dataclass(frozen=True, slots=True)
class Scene:
    """The servers, the connections of whoever looks on, the crew and the journal of its effects."""

    home: Path
    kafka: Kafka
    postgres: Postgres
    connections: Connections
    crew: Crew
    journal: Journal


@asynccontextmanager
async def scene(home: Path, progress: Callable[[str], None]) -> AsyncGenerator[Scene, None]:
    """Both servers running, and a crew that is not started yet; afterwards nothing runs any more."""
    logs = home / "logs"
    logs.mkdir()
    journal = Journal(home / "effects.journal")
    async with embedded.lease(home, progress) as servers:
        settings = _settings(home, servers)
        crew = Crew(_environment(settings), logs, journal.path)
        folders = Folders.of(home)
        short = load(folders.state).socket_folder
        postgres = Postgres(folders, Path(short) if short else None)
        async with connect(settings, kafka=servers.kafka, postgres=servers.postgres) as connections:
            try:
                yield Scene(home, Kafka(folders), postgres, connections, crew, journal)
            finally:
                await crew.close()


async def new_home(user_home: Path, progress: Callable[[str], None]) -> Path:
    """A data directory for one run. What the user's own servers have fetched is not fetched again."""
    software = (await asyncio.to_thread(prepare, user_home)).software
    await jars.download(software, progress)
    home = Path(tempfile.mkdtemp(prefix="poweron-chaos-"))
    await asyncio.to_thread(_share, software, Folders.of(home))
    return home


def remove(home: Path) -> None:
    """Forget a run."""
    shutil.rmtree(home, ignore_errors=True)


def _share(software: Path, folders: Folders) -> None:
    """Link the jars, and Java's start-up cache if it is there; a cache of our own is not worth making."""
    folders.servers.mkdir(mode=PRIVATE)
    for jar in jars.pinned():
        place = folders.software / jar.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(software / jar.path)
    cache = StartCache.of(software).path
    ours = folders.software / cache.name
    if cache.exists():
        ours.symlink_to(cache)
    else:
        ours.with_name(f"{ours.name}.used").touch()


def _settings(home: Path, servers: embedded.Servers) -> Settings:
    """Settings that nothing in the user's environment has a say in."""
    return Settings.model_construct(
        home=home,
        kafka=servers.kafka,
        postgres=SecretStr(servers.postgres),
        kafka_session_timeout_ms=int(SESSION_TIMEOUT * 1_000),
    )


def _environment(settings: Settings) -> dict[str, str]:
    """The same for role processes."""
    assert settings.kafka is not None
    assert settings.postgres is not None
    return {
        "POWERON_HOME": str(settings.home),
        "POWERON_KAFKA": settings.kafka,
        "POWERON_POSTGRES": settings.postgres.get_secret_value(),
        "POWERON_KAFKA_SESSION_TIMEOUT_MS": str(settings.kafka_session_timeout_ms),
    }
