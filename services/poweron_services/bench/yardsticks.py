"""The yardsticks: what Kafka and Postgres do at best for the same payloads, with nothing of PowerOn around them.

The ring is five topics and five hops: each reads what has come, sends as many records to the next topic in one go
and waits until they are confirmed. A lap is what an iteration costs at least: its topics have as many partitions as
ours and its producers promise what ours promises, but nothing is folded, checked or kept in a content store.
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
from poweron_services.bench.instant import OBSERVATION, PARAMETERS, REFINEMENT, RESULT, SELECTION, filled
from poweron_services.sandbox.polling import until

HOPS: Final = (SELECTION, PARAMETERS, RESULT, OBSERVATION, REFINEMENT)  # bytes of each hop's record
PAYLOADS: Final = tuple(filled("", size).encode() for size in HOPS)
TOPICS: Final = tuple(f"yardstick.ring.{number}" for number in range(1, len(HOPS) + 1))
RING_SCHEMA: Final = "yardstick"
DEADLINE: Final = 120.0  # seconds for one measurement
COUNT_PERIOD: Final = 0.005  # seconds between two counts of the rows
LEADER_PERIOD: Final = 0.02  # seconds between two questions whether the topics are ready

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
    """Five hops that hand on whatever comes; the last one counts the laps and begins the next."""

    producers: list[AIOKafkaProducer]
    consumers: list[AIOKafkaConsumer]
    left: int = 0  # laps to begin yet
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
        """A lap has ended; whether its token runs another one."""
        self.ends.append(time.perf_counter())
        if self.left:
            self.left -= 1
            return True
        self.running -= 1
        if not self.running:
            self.done.set()
        return False

    async def run(self, laps: int, *, at_once: int) -> list[float]:
        """So many laps, and when the first one began and each one ended."""
        self.running, self.left = at_once, laps - at_once
        self.ends = [time.perf_counter()]
        self.done.clear()
        async with asyncio.timeout(DEADLINE):
            await _send(self.producers[-1], 0, [str(token).encode() for token in range(at_once)])
            await self.done.wait()
        return self.ends


async def _send(producer: AIOKafkaProducer, hop: int, keys: Iterable[bytes]) -> None:
    """Send a record for each key, in as few batches as may be, and wait until all are confirmed."""
    sent = [await producer.send(TOPICS[hop], PAYLOADS[hop], key=key) for key in keys]
    await asyncio.gather(*sent)


@asynccontextmanager
async def ring(kafka: KafkaSettings) -> AsyncGenerator[Ring, None]:
    """A ring on this broker, running while the block lasts."""
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
    """Whether every partition can be written to."""
    topics: list[dict[str, Any]] = await admin.describe_topics(list(TOPICS))
    return all(
        topic["error_code"] == 0 and all(partition["leader"] >= 0 for partition in topic["partitions"])
        for topic in topics
    )


@asynccontextmanager
async def _producer(kafka: KafkaSettings) -> AsyncGenerator[AIOKafkaProducer, None]:
    """Promises what ours does: written once and in order, confirmed by all replicas."""
    producer = AIOKafkaProducer(**kafka.client_options(), acks="all", enable_idempotence=True, linger_ms=0)
    async with producer:
        yield producer


@asynccontextmanager
async def _consumer(kafka: KafkaSettings, *names: str) -> AsyncGenerator[AIOKafkaConsumer, None]:
    """Begins at the end of these topics."""
    consumer = AIOKafkaConsumer(**kafka.client_options(), enable_auto_commit=False)
    async with consumer:
        partitions = [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_end(*partitions)
        for partition in partitions:
            await consumer.position(partition)  # known only now
        yield consumer


async def project(kafka: KafkaSettings, dsn: str, *, ready: Callable[[], None]) -> None:
    """Write each record of the ring to Postgres, as many at a time as have come; runs until cancelled."""
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
        """Wait until there are so many; the answer is when that was."""
        async with asyncio.timeout(DEADLINE), acquire(self.pool) as connection:

            async def reached() -> bool:
                written: int = await connection.fetchval(_COUNT)
                return written >= count

            await until(reached, COUNT_PERIOD)
        return time.perf_counter()
