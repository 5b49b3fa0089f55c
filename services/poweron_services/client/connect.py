"""The open connections of a service or a command: to the log, the rows and the content store."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from poweron_events.content import ContentStore
from poweron_events.log import ProgressTopic
from poweron_events.log.kafka import KafkaLog
from poweron_events.log.kafka import unopened as unopened_log
from poweron_events.log.kafka_progress import KafkaProgress
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.log.memory import MemoryProgress
from poweron_projections.connection import Pool
from poweron_projections.connection import connect as connect_postgres
from poweron_projections.log_guard import GuardedLog
from poweron_services.settings.config import Settings


@dataclass(frozen=True, slots=True)
class Connections:
    """The open connections of a service or a command."""

    settings: Settings
    log: GuardedLog
    pool: Pool
    content: ContentStore
    progress: ProgressTopic = field(default_factory=MemoryProgress)
    """The progress of long work; by default shared only within this process."""
    seal: Callable[[bytes], bytes] | None = None
    """Seals the requests of actors whom a door has verified; None for doors that verify no one."""


@asynccontextmanager
async def connect(
    settings: Settings, *, kafka: KafkaSettings, postgres: str, recreate_events: bool = False
) -> AsyncGenerator[Connections, None]:
    """Open the log, the rows and the content store.

    With `recreate_events`, the topic of the events is created again if it was deleted.

    Raises:
        Unavailable: Kafka or Postgres cannot be reached.
        Refused: a topic's settings would break the log.
    """
    async with unopened(settings, kafka=kafka, postgres=postgres) as (connections, log):
        await log.open(recreate_events=recreate_events)
        yield connections


@asynccontextmanager
async def unopened(
    settings: Settings, *, kafka: KafkaSettings, postgres: str
) -> AsyncGenerator[tuple[Connections, KafkaLog], None]:
    """Provide the same while servers may not answer; what needs Kafka raises Unavailable until the log is open."""
    async with (
        unopened_log(kafka) as log,
        connect_postgres(
            postgres, statement_cache_size=settings.postgres_statement_cache, bi_role=settings.bi_role
        ) as pool,
    ):
        progress = KafkaProgress(kafka)
        try:
            content = ContentStore.at(*settings.content_places)
            yield Connections(settings, GuardedLog(log, pool), pool, content, progress), log
        finally:
            await progress.close()
