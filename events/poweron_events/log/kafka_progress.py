"""Progress on Kafka, with clients of its own: their failures do not affect the clients of the log."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from poweron_events import topics
from poweron_events.errors import Unavailable
from poweron_events.log import Message, Record
from poweron_events.log.kafka_clients import closed, given_up, started, take_records
from poweron_events.log.kafka_settings import KafkaSettings

SEND_TIMEOUT = 5.0  # seconds
READ_TIMEOUT = 1.0  # seconds that a read waits for records
LOOK_PERIOD = 0.1  # seconds between two reads, regardless of how much there is to read
RECENT_MS = 60_000  # older progress is ignored
FETCHED = 262_144  # bytes per fetch

NAME = topics.PROGRESS.name


class KafkaProgress:
    """A `ProgressTopic` on Kafka; it starts clients only when they are needed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None

    async def send(self, messages: Sequence[Message]) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT):
                producer = await self._ready_producer()
                sent = [
                    await producer.send(
                        self._partition(each.key).topic,
                        each.value,
                        key=each.key,
                        partition=self._partition(each.key).partition,
                    )
                    for each in messages
                ]
                await asyncio.gather(*sent)
        except (KafkaError, TimeoutError, AssertionError) as error:  # AssertionError: the partition does not exist
            await self.close()
            raise Unavailable(f"Kafka did not take progress: {error!r}") from error

    async def _ready_producer(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(**self._settings.client_options(), acks=1)
            await started(producer, self._settings, SEND_TIMEOUT)
            self._producer = producer
        return self._producer

    async def close(self) -> None:
        """Close the producer and discard what it has not sent."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await given_up(producer)

    async def tail(self, key: bytes | None) -> AsyncGenerator[Sequence[Record], None]:
        partitions = self._partitions() if key is None else [self._partition(key)]
        consumer = AIOKafkaConsumer(
            **self._settings.client_options(),
            enable_auto_commit=False,
            auto_offset_reset="latest",
            fetch_max_bytes=FETCHED,
            max_partition_fetch_bytes=FETCHED,
        )
        await started(consumer, self._settings, SEND_TIMEOUT)
        try:
            async with aclosing(_batches(consumer, partitions)) as batches:
                async for records in batches:
                    if ours := [record for record in records if key in (None, record.key)]:
                        yield ours
        except (KafkaError, TimeoutError) as error:
            raise Unavailable(f"Progress cannot be read: {error!r}") from error
        finally:
            await closed(consumer)

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self._settings.physical(NAME), number) for number in range(topics.PROGRESS.partitions)]

    def _partition(self, key: bytes) -> TopicPartition:
        return self._partitions()[topics.partition_of(key, topics.PROGRESS.partitions)]


async def _batches(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
) -> AsyncGenerator[Sequence[Record], None]:
    """Yield records as they arrive, a few times a second, starting with recent ones."""
    consumer.assign(partitions)
    since_ms = time.time_ns() // 1_000_000 - RECENT_MS
    async with asyncio.timeout(SEND_TIMEOUT):
        recent = await consumer.offsets_for_times(dict.fromkeys(partitions, since_ms))
    for partition, found in recent.items():
        if found is not None:
            consumer.seek(partition, found.offset)
    while True:
        taken: list[Record] = []
        await take_records(consumer, NAME, taken, timeout=READ_TIMEOUT, partitions=partitions)
        if taken:
            yield taken
        await asyncio.sleep(LOOK_PERIOD)
