"""The yardsticks: the best that Kafka and Postgres achieve with the same payloads, without PowerOn around them.

The ring has five topics and five hops: each hop reads the records that have arrived, sends as many to the next topic
in one go and waits until they are confirmed. A lap is the minimum cost of an iteration: its topics have as many
partitions as PowerOn's and its producers give the same guarantees, but nothing is folded, checked or kept in a content
store.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.topics import PARTITIONS
from poweron_projections.connection import Pool, acquire, connect
from poweron_services.experiments.bench.instant import OBSERVATION, PARAMETERS, REFINEMENT, RESULT, SELECTION, filled
from poweron_services.experiments.sandbox.servers import until

HOPS: Final = (SELECTION, PARAMETERS, RESULT, OBSERVATION, REFINEMENT)  # bytes of each hop's record
PAYLOADS: Final = tuple(filled("", size).encode() for size in HOPS)
TOPICS: Final = tuple(f"yardstick.ring.{number}" for number in range(1, len(HOPS) + 1))
RING_SCHEMA: Final = "yardstick"
DEADLINE: Final = 120.0  # seconds for one measurement
COUNT_PERIOD: Final = 0.005  # seconds between two counts of the rows
LEADER_PERIOD: Final = 0.02  # seconds between two checks that the topics are ready

_CREATE: Final = """
CREATE SCHEMA IF NOT EXISTS yardstick;
CREATE TABLE IF NOT EXISTS yardstick.ring (
    hop integer NOT NULL, partition integer NOT NULL, log_offset bigint NOT NULL, key bytea, value bytea
);
TRUNCATE yardstick.ring;
"""
_COUNT: Final = "SELECT count(*) FROM yardstick.ring"


@dataclass(slots=True)
class Ring:
    """Five hops that pass on every record; the last hop counts the laps and begins the next one."""

    producers: list[AIOKafkaProducer]
    consumers: list[AIOKafkaConsumer]
    left: int = 0  # laps not yet begun
    running: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)
    ends: list[float] = field(default_factory=list)

    async def hop(self, number: int) -> None:
        consumer, producer, following = self.consumers[number], self.producers[number], number + 1
        while True:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                going_on = [record.key for record in records if following < len(HOPS) or self._next_lap()]
                await _send(producer, following % len(HOPS), going_on)

    def _next_lap(self) -> bool:
        """Record that a lap has ended and return whether its token runs another one."""
        self.ends.append(time.perf_counter())
        if self.left:
            self.left -= 1
            return True
        self.running -= 1
        if not self.running:
            self.done.set()
        return False

    async def run(self, laps: int, *, at_once: int) -> list[float]:
        """Run this many laps and return when the first one began and when each one ended."""
        self.running, self.left = at_once, laps - at_once
        self.ends = [time.perf_counter()]
        self.done.clear()
        async with asyncio.timeout(DEADLINE):
            await _send(self.producers[-1], 0, [str(token).encode() for token in range(at_once)])
            await self.done.wait()
        return self.ends


async def _send(producer: AIOKafkaProducer, hop: int, keys: Iterable[bytes]) -> None:
    """Send a record for each key, in as few batches as possible, and wait until all are confirmed."""
    sent = [await producer.send(TOPICS[hop], PAYLOADS[hop], key=key) for key in keys]
    await asyncio.gather(*sent)


@asynccontextmanager
async def ring(kafka: KafkaSettings) -> AsyncGenerator[Ring, None]:
    """Run a ring on this broker while the block lasts."""
    await _create_topics(kafka)
    async with AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(_producer(kafka)) for _ in HOPS]
        consumers = [await stack.enter_async_context(_consumer(kafka, topic)) for topic in TOPICS]
        running = Ring(producers, consumers)
        async with asyncio.TaskGroup() as group:
            hops = [group.create_task(running.hop(number)) for number in range(len(HOPS))]
            yield running
            for hop in hops:
                hop.cancel()


async def _create_topics(kafka: KafkaSettings) -> None:
    admin = AIOKafkaAdminClient(**kafka.client_options())
    await admin.start()
    try:
        missing = set(TOPICS) - set(await admin.list_topics())
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in sorted(missing)])
        async with asyncio.timeout(DEADLINE):
            await until(partial(_all_led, admin), LEADER_PERIOD)
    finally:
        await admin.close()


async def _all_led(admin: AIOKafkaAdminClient) -> bool:
    """Return whether every partition can be written to."""
    topics: list[dict[str, Any]] = await admin.describe_topics(list(TOPICS))
    return all(
        topic["error_code"] == 0 and all(partition["leader"] >= 0 for partition in topic["partitions"])
        for topic in topics
    )


@asynccontextmanager
async def _producer(kafka: KafkaSettings) -> AsyncGenerator[AIOKafkaProducer, None]:
    """A producer with PowerOn's guarantees: records are written once, in order and confirmed by all replicas."""
    producer = AIOKafkaProducer(**kafka.client_options(), acks="all", enable_idempotence=True, linger_ms=0)
    async with producer:
        yield producer


@asynccontextmanager
async def _consumer(kafka: KafkaSettings, *names: str) -> AsyncGenerator[AIOKafkaConsumer, None]:
    """A consumer that starts at the end of these topics."""
    consumer = AIOKafkaConsumer(**kafka.client_options(), enable_auto_commit=False)
    async with consumer:
        partitions = [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_end(*partitions)
        for partition in partitions:
            await consumer.position(partition)  # fetch the end position now
        yield consumer


async def project(kafka: KafkaSettings, dsn: str, *, ready: Callable[[], None]) -> None:
    """Write each record of the ring to Postgres, in batches of all that have arrived, until cancelled."""
    async with connect(dsn) as pool, acquire(pool) as connection, _consumer(kafka, *TOPICS) as consumer:
        await connection.execute(_CREATE)
        ready()
        while True:
            fetched = await consumer.getmany(timeout_ms=1_000)
            rows = [_row(record) for records in fetched.values() for record in records]
            if rows:
                await connection.copy_records_to_table("ring", records=rows, schema_name=RING_SCHEMA)


def _row(record: Any) -> tuple[int, int, int, bytes, bytes]:
    return (TOPICS.index(record.topic), record.partition, record.offset, record.key, record.value)


@dataclass(frozen=True, slots=True)
class RingRows:
    """The rows that `project` has written."""

    pool: Pool

    async def reach(self, count: int) -> float:
        """Wait until there are this many rows and return when that was."""
        async with asyncio.timeout(DEADLINE), acquire(self.pool) as connection:

            async def reached() -> bool:
                written: int = await connection.fetchval(_COUNT)
                return written >= count

            await until(reached, COUNT_PERIOD)
        return time.perf_counter()
