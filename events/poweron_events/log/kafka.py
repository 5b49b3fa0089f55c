"""The log on Kafka.

It uses no Kafka transactions (E-05) but an idempotent producer with `acks=all`, at-least-once delivery,
and a fold that gives every event exactly one effect.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import (
    KafkaError,
    KafkaStorageError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
)

from poweron_events import topics
from poweron_events.errors import DiskFull, Refused, Unavailable
from poweron_events.log import GroupState, Message, Record
from poweron_events.log.kafka_clients import MAX_BYTES, closed, given_up, started, take_records
from poweron_events.log.kafka_follower import KafkaFollower, end_offsets, expect_there, gone, group_state
from poweron_events.log.kafka_settings import REQUEST_TIMEOUT, KafkaSettings
from poweron_events.log.kafka_topics import prepare
from poweron_events.task_cancellation import retrieve_error

MAX_BATCH = 131_072  # bytes before compression, far below a topic's limit: appends of many workflows share a batch
MANY = 20  # messages of one key from which on they are appended in whole batches
READ_TIMEOUT = 1.0  # seconds that a read waits for records
FETCHED = 1_048_576  # bytes of each partition in one fetch


@asynccontextmanager
async def connect(settings: KafkaSettings, *, recreate_events: bool = False) -> AsyncGenerator["KafkaLog", None]:
    """Connect to the log on this Kafka, creating missing topics and checking all of them (E-02).

    Args:
        settings: where Kafka is.
        recreate_events: create the topic of the events again if it was deleted; by default it stays deleted.

    Raises:
        Unavailable: Kafka cannot be reached, or a topic is missing and cannot be created.
        Refused: a topic's settings would break the log.
    """
    async with unopened(settings) as log:
        await log.open(recreate_events=recreate_events)
        yield log


@asynccontextmanager
async def unopened(settings: KafkaSettings) -> AsyncGenerator["KafkaLog", None]:
    """Provide a log that raises Unavailable until `open` has reached Kafka, and close it at the end."""
    log = KafkaLog(settings)
    try:
        yield log
    finally:
        await log.close()


class KafkaLog:
    """An `EventLog` on Kafka topics."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None
        self._producer_lock = asyncio.Lock()
        self._asking: AIOKafkaConsumer | None = None
        self._asking_lock = asyncio.Lock()
        self._admin: AIOKafkaAdminClient | None = None
        self._admin_lock = asyncio.Lock()
        self._giving_up: asyncio.Task[None] | None = None
        self._partitions: Mapping[str, int] = {}

    async def open(self, *, recreate_events: bool) -> None:
        """Create and check the topics."""
        self._partitions = await prepare(self._settings, recreate_events=recreate_events)

    async def close(self) -> None:
        if self._giving_up is not None:
            await self._giving_up
        for client in (self._producer, self._asking, self._admin):
            if client is not None:
                await closed(client)
        self._producer = self._asking = self._admin = None

    # --- appending ------------------------------------------------------------------------------------

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        for message in messages:
            if len(message.value) > topics.MAX_RECORD:
                raise Refused(f"a record may take {topics.MAX_RECORD} bytes, not {len(message.value)}")
        physical = self._settings.physical(topic)
        producer = self._producer or await self._ready_producer()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                if len(messages) >= MANY and len({message.key for message in messages}) == 1:
                    partition = TopicPartition(physical, self.partition_of(topic, messages[0].key))
                    return await _appended_in_batches(producer, partition, messages)
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
        except KafkaStorageError as error:
            raise DiskFull("Kafka cannot write to its disk, which is full or broken") from error
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
            compression_type="zstd",  # a third of the bytes, for a tenth of the time that writing takes
            linger_ms=0,
            max_batch_size=MAX_BATCH,
            max_request_size=2 * topics.MAX_RECORD,
        )
        await started(producer, self._settings, REQUEST_TIMEOUT)
        self._give_up_when_deleted(producer)
        return producer

    def _give_up_when_deleted(self, producer: AIOKafkaProducer) -> None:
        """Discard what the producer holds if the topic of the events is deleted: no new topic may receive it."""
        events, seen = self._settings.physical(topics.EVENTS.name), False

        def look(cluster: ClusterMetadata) -> None:
            nonlocal seen
            there = cluster.partitions_for_topic(events) is not None
            if seen and not there:
                self._giving_up = asyncio.create_task(self._replace(producer, given_up))
                retrieve_error(self._giving_up)
            seen = there

        producer.client.cluster.add_listener(look)

    async def _replace(
        self, broken: AIOKafkaProducer, close: Callable[[AIOKafkaProducer], Awaitable[None]] = closed
    ) -> None:
        """Discard a producer; the next append starts one. An idempotent producer fails for ever after a refusal."""
        async with self._producer_lock:
            if self._producer is broken:
                self._producer = None
        await close(broken)

    # --- reading --------------------------------------------------------------------------------------

    @asynccontextmanager
    async def follow(self, topic: str, group: str) -> AsyncGenerator["KafkaFollower", None]:
        follower = KafkaFollower(self._settings, topic, group)
        try:
            yield follower
        finally:
            await follower.close()

    async def group_state(self, topic: str, group: str) -> GroupState:
        ends = await self.ends(topic)
        async with self._admin_lock:
            if self._admin is None:
                admin = AIOKafkaAdminClient(**self._settings.client_options())
                await started(admin, self._settings, REQUEST_TIMEOUT)
                self._admin = admin
            return await group_state(self._admin, self._settings.physical(group), self._settings.physical(topic), ends)

    def partition_of(self, topic: str, key: bytes) -> int:
        return topics.partition_of(key, self._count(topic))

    async def partitions(self, topic: str) -> int:
        return self._count(topic)

    async def ends(self, topic: str, at_least: Mapping[int, int] | None = None) -> Mapping[int, int]:
        partitions = self._topic_partitions(topic)
        async with self._asking_lock:
            if self._asking is None:
                self._asking = await _start_consumer(self._settings)
            return await end_offsets(self._asking, partitions, at_least)

    async def read(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> AsyncGenerator[Sequence[Record], None]:
        physical = self._settings.physical(topic)
        left = {TopicPartition(physical, number): stop for number, stop in end.items() if stop > start.get(number, 0)}
        if not left:
            return
        most_wanted = max(stop - start.get(partition.partition, 0) for partition, stop in left.items())
        fetched = MAX_BATCH if most_wanted == 1 else FETCHED
        async with _consumer(self._settings, fetched=fetched) as consumer:
            consumer.assign(list(left))
            at = {partition: start.get(partition.partition, 0) for partition in left}
            for partition, offset in at.items():
                consumer.seek(partition, offset)
            while left:
                async for records in _upto(consumer, topic, left, at):
                    yield records

    async def tail(self, topic: str, start: Mapping[int, int]) -> AsyncGenerator[Sequence[Record], None]:
        physical = self._settings.physical(topic)
        followed = [TopicPartition(physical, number) for number in start]
        async with _consumer(self._settings, reset="none") as consumer:
            consumer.assign(followed)
            for partition in followed:
                consumer.seek(partition, start[partition.partition])
            while True:
                taken: list[Record] = []
                try:
                    await take_records(consumer, topic, taken, timeout=READ_TIMEOUT, partitions=followed)
                    if not taken:
                        await expect_there(consumer, followed)
                except OffsetOutOfRangeError as error:
                    await _expect_as_long(consumer, {each: await consumer.position(each) for each in followed})
                    raise Unavailable(f"A broker that lost {physical!r} to another one has answered") from error
                except KafkaError as error:
                    raise Unavailable(f"Kafka cannot be read: {error!r}") from error
                if taken:
                    yield taken

    def _topic_partitions(self, topic: str) -> list[TopicPartition]:
        physical = self._settings.physical(topic)
        return [TopicPartition(physical, number) for number in range(self._count(topic))]

    def _count(self, topic: str) -> int:
        if not self._partitions:
            raise Unavailable(f"Kafka at {self._settings.bootstrap} does not answer yet", retry_after=1)
        return self._partitions[topic]


async def _appended_in_batches(
    producer: AIOKafkaProducer, partition: TopicPartition, messages: Sequence[Message]
) -> list[int]:
    """Append to one partition and return the offsets: a batch at a time takes much less than a message at a time."""
    batches = [producer.create_batch()]
    for message in messages:
        while batches[-1].append(key=message.key, value=message.value, timestamp=None) is None:  # it is full
            batches.append(producer.create_batch())
    for batch in batches:
        batch.close()  # otherwise, messages of other tasks would be added while it waits
    sent = [await producer.send_batch(batch, partition.topic, partition=partition.partition) for batch in batches]
    firsts = [metadata.offset for metadata in await asyncio.gather(*sent)]
    return [
        first + number for first, batch in zip(firsts, batches, strict=True) for number in range(batch.record_count())
    ]


async def _upto(
    consumer: AIOKafkaConsumer, topic: str, left: dict[TopicPartition, int], at: dict[TopicPartition, int]
) -> AsyncGenerator[Sequence[Record], None]:
    """Fetch once and yield the wanted records; advance `at`, and remove partitions at their end from `left`."""
    taken: list[Record] = []
    wanted = sum(stop - at[partition] for partition, stop in left.items())
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            await take_records(consumer, topic, taken, timeout=READ_TIMEOUT, partitions=list(left), limit=wanted)
            positions = {partition: await consumer.position(partition) for partition in left}
    except (KafkaError, TimeoutError) as error:
        raise Unavailable(f"Kafka cannot be read: {error!r}") from error
    back = [partition for partition, position in positions.items() if position < at[partition]]
    if back or not taken:
        await _expect_as_long(consumer, left)
    for partition in back:  # the broker that sent them had fewer records: it is no longer the leader
        consumer.seek(partition, at[partition])
    wanted_of = {partition.partition: range(at[partition], stop) for partition, stop in left.items()}
    within = [record for record in taken if record.offset in wanted_of[record.partition]]
    if within:
        yield within
    for partition in positions.keys() - set(back):
        at[partition] = positions[partition]
        if at[partition] >= left[partition]:
            consumer.pause(partition)
            del left[partition]


async def _expect_as_long(consumer: AIOKafkaConsumer, left: Mapping[TopicPartition, int]) -> None:
    """Raise if wanted records are gone, instead of waiting for them."""
    ends = await end_offsets(consumer, left, {partition.partition: stop for partition, stop in left.items()})
    for partition, stop in left.items():
        if ends[partition.partition] < stop:
            raise gone(partition)


@asynccontextmanager
async def _consumer(
    settings: KafkaSettings, *, reset: str = "earliest", fetched: int = FETCHED
) -> AsyncGenerator[AIOKafkaConsumer, None]:
    """Open a consumer without a group, for reading existing records."""
    consumer = await _start_consumer(settings, reset=reset, fetched=fetched)
    try:
        yield consumer
    finally:
        await closed(consumer)


async def _start_consumer(
    settings: KafkaSettings, *, reset: str = "earliest", fetched: int = FETCHED
) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        **settings.client_options(),
        enable_auto_commit=False,
        auto_offset_reset=reset,
        fetch_max_bytes=MAX_BYTES,
        max_partition_fetch_bytes=fetched,
    )
    await started(consumer, settings, REQUEST_TIMEOUT)
    return consumer
