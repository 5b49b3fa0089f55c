"""The log on Kafka.

No Kafka transactions (E-05): an idempotent producer with `acks=all`, at-least-once delivery, and a
fold that gives every event exactly one effect.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
)

from poweron_events import topics
from poweron_events.errors import Refused, Unavailable
from poweron_events.log import Message, Record
from poweron_events.log.kafka_clients import record_of, started, take_records, unreachable
from poweron_events.log.kafka_follower import KafkaFollower
from poweron_events.log.kafka_settings import LEADER_TIMEOUT, REQUEST_TIMEOUT, KafkaSettings
from poweron_events.log.kafka_shutdown import closed

READ_TIMEOUT = 1.0  # seconds that a read waits for something


@asynccontextmanager
async def connect(settings: KafkaSettings) -> AsyncGenerator["KafkaLog", None]:
    """The log on this Kafka; its topics are created where missing and checked (E-02).

    Raises:
        Unavailable: Kafka cannot be reached.
        Refused: a topic's settings would break the log.
    """
    log = KafkaLog(settings)
    await log.open()
    try:
        yield log
    finally:
        await log.close()


class KafkaLog:
    """Kafka topics behind the promises of `EventLog`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None
        self._producer_lock = asyncio.Lock()
        self._asking: AIOKafkaConsumer | None = None
        self._asking_lock = asyncio.Lock()
        self._partitions: dict[str, int] = {}

    async def open(self) -> None:
        """Create and check the topics."""
        admin = AIOKafkaAdminClient(**self._settings.client_options())
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                await admin.start()
            await self._create_topics(admin)
            await self._check_topics(admin)
        except (KafkaError, OSError, TimeoutError) as error:
            raise unreachable(self._settings, error) from error
        finally:
            await closed(admin)

    async def close(self) -> None:
        for client in (self._producer, self._asking):
            if client is not None:
                await closed(client)
        self._producer = self._asking = None

    async def _create_topics(self, admin: AIOKafkaAdminClient) -> None:
        found = set(await admin.list_topics())
        missing = [topic for topic in topics.ALL if self._settings.physical(topic.name) not in found]
        for topic in missing:
            new = NewTopic(
                self._settings.physical(topic.name),
                topic.partitions,
                self._settings.replication_factor,
                topic_configs=dict(topic.settings),
            )
            with suppress(TopicAlreadyExistsError):
                await admin.create_topics([new])
        async with asyncio.timeout(LEADER_TIMEOUT):
            await self._await_leaders(admin)

    async def _await_leaders(self, admin: AIOKafkaAdminClient) -> None:
        wanted = [self._settings.physical(topic.name) for topic in topics.ALL]
        while True:
            described = await admin.describe_topics(wanted)
            ready = {
                topic["topic"].removeprefix(self._settings.prefix): len(topic["partitions"])
                for topic in described
                if topic["error_code"] == 0 and all(partition["leader"] >= 0 for partition in topic["partitions"])
            }
            if len(ready) == len(topics.ALL):
                self._partitions = ready
                return
            await asyncio.sleep(0.02)

    async def _check_topics(self, admin: AIOKafkaAdminClient) -> None:
        topics.check_partitions(topics.EVENTS, self._partitions[topics.EVENTS.name])
        for topic in topics.ALL:
            resource = ConfigResource(ConfigResourceType.TOPIC, self._settings.physical(topic.name))
            (response,) = await admin.describe_configs([resource])
            (answer,) = response.resources
            topics.check(topic, {entry[0]: entry[1] for entry in answer[4]})

    # --- appending ------------------------------------------------------------------------------------

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        for message in messages:
            if len(message.value) > topics.MAX_RECORD:
                raise Refused(f"a record may take {topics.MAX_RECORD} bytes, not {len(message.value)}")
        physical = self._settings.physical(topic)
        producer = await self._ready_producer()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                sent = [
                    await producer.send(
                        physical, message.value, key=message.key, partition=self.partition_of(topic, message.key)
                    )
                    for message in messages
                ]
                return [metadata.offset for metadata in await asyncio.gather(*sent)]
        except MessageSizeTooLargeError as error:
            await self._replace(producer)
            raise Refused(f"Kafka refused a record of {topic!r} as too large") from error
        except TimeoutError as error:
            raise Unavailable(f"Kafka did not confirm an append to {topic!r} within {REQUEST_TIMEOUT:g} s") from error
        except KafkaError as error:
            if not error.retriable and not isinstance(error, KafkaTimeoutError):  # that is a full buffer: it drains
                await self._replace(producer)
            raise Unavailable(f"Kafka did not take an append to {topic!r}: {error!r}") from error

    async def _ready_producer(self) -> AIOKafkaProducer:
        async with self._producer_lock:
            if self._producer is None:
                self._producer = await self._start_producer()
            return self._producer

    async def _start_producer(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **self._settings.client_options(),
            acks="all",
            enable_idempotence=True,
            compression_type="zstd",  # a third of the bytes, for a tenth of the time that writing them takes
            linger_ms=0,
            max_batch_size=16_384,
            max_request_size=2 * topics.MAX_RECORD,
        )
        await started(producer, self._settings, REQUEST_TIMEOUT)
        return producer

    async def _replace(self, broken: AIOKafkaProducer) -> None:
        """An idempotent producer that met a refusal fails for ever after: the next append gets a new one."""
        async with self._producer_lock:
            if self._producer is broken:
                self._producer = None
        await closed(broken)

    # --- reading --------------------------------------------------------------------------------------

    @asynccontextmanager
    async def follow(self, topic: str, group: str) -> AsyncGenerator["KafkaFollower", None]:
        follower = KafkaFollower(self._settings, topic, group)
        try:
            yield follower
        finally:
            await follower.close()

    def partition_of(self, topic: str, key: bytes) -> int:
        return topics.partition_of(key, self._partitions[topic])

    async def partitions(self, topic: str) -> int:
        return self._partitions[topic]

    async def ends(self, topic: str) -> Mapping[int, int]:
        async with self._asking_lock:
            if self._asking is None:
                self._asking = await _start_consumer(self._settings)
            return await _end_offsets(self._asking, self._topic_partitions(topic))

    async def read(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> AsyncGenerator[Sequence[Record], None]:
        physical = self._settings.physical(topic)
        left = {TopicPartition(physical, number): stop for number, stop in end.items() if stop > start.get(number, 0)}
        if not left:
            return
        async with _consumer(self._settings) as consumer:
            consumer.assign(list(left))
            for partition in left:
                consumer.seek(partition, start.get(partition.partition, 0))
            while left:
                async for records in _upto(consumer, topic, left):
                    yield records

    async def tail(self, topic: str, partition: int, offset: int) -> AsyncGenerator[Sequence[Record], None]:
        followed = TopicPartition(self._settings.physical(topic), partition)
        async with _consumer(self._settings) as consumer:
            consumer.assign([followed])
            consumer.seek(followed, offset)
            while True:
                taken: dict[TopicPartition, list[Any]] = {}
                try:
                    await take_records(consumer, [followed], READ_TIMEOUT, taken)
                except KafkaError as error:
                    raise Unavailable(f"Kafka cannot be read: {error!r}") from error
                for records in taken.values():
                    yield [record_of(topic, record) for record in records]

    def _topic_partitions(self, topic: str) -> list[TopicPartition]:
        physical = self._settings.physical(topic)
        return [TopicPartition(physical, number) for number in range(self._partitions[topic])]


async def _upto(
    consumer: AIOKafkaConsumer, topic: str, left: dict[TopicPartition, int]
) -> AsyncGenerator[Sequence[Record], None]:
    """One fetch; partitions that have reached their end are struck from `left`."""
    taken: dict[TopicPartition, list[Any]] = {}
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            await take_records(consumer, list(left), READ_TIMEOUT, taken)
            at = {partition: await consumer.position(partition) for partition in left}
    except (KafkaError, TimeoutError) as error:
        raise Unavailable(f"Kafka cannot be read: {error!r}") from error
    for partition, records in taken.items():
        wanted = [record_of(topic, record) for record in records if record.offset < left[partition]]
        if wanted:
            yield wanted
    for partition, position in at.items():
        if position >= left[partition]:
            consumer.pause(partition)
            del left[partition]


@asynccontextmanager
async def _consumer(settings: KafkaSettings) -> AsyncGenerator[AIOKafkaConsumer, None]:
    """A consumer of no group, for reading what is there."""
    consumer = await _start_consumer(settings)
    try:
        yield consumer
    finally:
        await closed(consumer)


async def _start_consumer(settings: KafkaSettings) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        **settings.client_options(), enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_bytes=8_388_608
    )
    await started(consumer, settings, REQUEST_TIMEOUT)
    return consumer


async def _end_offsets(consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> dict[int, int]:
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            found = await consumer.end_offsets(list(partitions))
    except (KafkaError, TimeoutError) as error:
        raise Unavailable(f"Kafka did not tell its end offsets: {error!r}") from error
    return {partition.partition: offset for partition, offset in found.items()}
