"""The log on Kafka: the only module that knows aiokafka.

No Kafka transactions (E-05): an idempotent producer with `acks=all`, at-least-once delivery, and a
fold that gives every event exactly one effect.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
)

from poweron_events import topics
from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.log import Message, Polled, Record
from poweron_events.log.closing import closed
from poweron_events.log.kafka_settings import REQUEST_TIMEOUT, KafkaSettings

MAX_POLL_INTERVAL_MS = 60_000
MAX_RECORDS = 2_000  # in one poll
FETCHED = {topics.REQUESTS.name: 65_536}  # bytes of a partition at a time: what is not taken at once is fetched again
WATCHDOG_PERIOD = 5.0  # seconds between looks at whether a silent consumer is stuck
LEADER_TIMEOUT = 30.0  # seconds for a new topic to get its leaders

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what matters of it is raised as errors of ours


async def reach(settings: KafkaSettings, timeout: float) -> None:
    """Return when Kafka has answered.

    Raises:
        Unavailable: it has not within this many seconds, or it does not let us in.
        Refused: the settings cannot be used.
    """
    admin = AIOKafkaAdminClient(**settings.client_options())
    try:
        async with asyncio.timeout(timeout):
            await admin.start()
    except (KafkaError, OSError, TimeoutError) as error:
        raise Unavailable(f"Kafka does not answer at {settings.bootstrap}: {error!r}") from error
    finally:
        await closed(admin)


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
            raise Unavailable(f"Kafka at {self._settings.bootstrap} cannot be reached: {error!r}") from error
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
            compression_type="lz4",  # a third of the bytes, for a tenth of the time that writing them takes
            linger_ms=0,
            max_batch_size=16_384,
            max_request_size=2 * topics.MAX_RECORD,
        )
        await _started(producer, self._settings, REQUEST_TIMEOUT)
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
                try:
                    fetched = await consumer.getmany(followed, timeout_ms=1_000, max_records=MAX_RECORDS)
                except KafkaError as error:
                    raise Unavailable(f"Kafka cannot be read: {error!r}") from error
                for records in fetched.values():
                    yield [_record(topic, record) for record in records]

    def _topic_partitions(self, topic: str) -> list[TopicPartition]:
        physical = self._settings.physical(topic)
        return [TopicPartition(physical, number) for number in range(self._partitions[topic])]


async def _upto(
    consumer: AIOKafkaConsumer, topic: str, left: dict[TopicPartition, int]
) -> AsyncGenerator[Sequence[Record], None]:
    """One fetch; partitions that have reached their end are struck from `left`."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            fetched = await consumer.getmany(*left, timeout_ms=1_000, max_records=MAX_RECORDS)
            at = {partition: await consumer.position(partition) for partition in left}
    except (KafkaError, TimeoutError) as error:
        raise Unavailable(f"Kafka cannot be read: {error!r}") from error
    for partition, records in fetched.items():
        wanted = [_record(topic, record) for record in records if record.offset < left[partition]]
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
    await _started(consumer, settings, REQUEST_TIMEOUT)
    return consumer


async def _end_offsets(consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> dict[int, int]:
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            found = await consumer.end_offsets(list(partitions))
    except (KafkaError, TimeoutError) as error:
        raise Unavailable(f"Kafka did not tell its end offsets: {error!r}") from error
    return {partition.partition: offset for partition, offset in found.items()}


def _record(topic: str, record: Any) -> Record:
    return Record(
        topic, record.partition, record.offset, record.timestamp, record.key, record.value, dict(record.headers)
    )


async def _started(client: Any, settings: KafkaSettings, timeout: float) -> None:
    """Start a client; one that does not start, or is no longer wanted, is closed."""
    try:
        async with asyncio.timeout(timeout):
            await client.start()
    except (KafkaError, OSError, TimeoutError) as error:
        await closed(client)
        raise Unavailable(f"Kafka at {settings.bootstrap} cannot be reached: {error!r}") from error
    except BaseException:
        await closed(client)
        raise


# --- following ----------------------------------------------------------------------------------------


class KafkaFollower(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no type stubs
    """A member of a consumer group; its consumer is built anew when it falls silent."""

    def __init__(self, settings: KafkaSettings, topic: str, group: str) -> None:
        self._settings, self._topic, self._group = settings, topic, group
        self._consumer: AIOKafkaConsumer | None = None
        self._revoked: set[int] = set()
        self._assigned: set[int] = set()
        self._mine: set[int] = set()
        self._sought: set[int] = set()
        self._paused: frozenset[int] = frozenset()
        self._ends: dict[int, int] = {}
        self._watched: dict[int, int] = {}
        self._patience: asyncio.Timeout | None = None
        self._building = asyncio.Lock()
        self._watch_at = asyncio.get_running_loop().time() + WATCHDOG_PERIOD

    # --- called by aiokafka in the background, in the middle of anything

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._lose(partition.partition for partition in revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        assert self._consumer is not None
        for partition in assigned:
            self._consumer.pause(partition)
            self._mine.add(partition.partition)
            self._assigned.add(partition.partition)
        self._tell_soon()

    def _tell_soon(self) -> None:
        """End the wait of a poll: whoever follows should hear of the assignment first."""
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    def _lose(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            self._revoked.add(number)
            self._assigned.discard(number)
            self._sought.discard(number)
            self._mine.discard(number)
        self._tell_soon()

    # --- called by us

    async def poll(self, timeout: float) -> Polled:
        await self._watch()
        consumer = await self._ready()
        if self._revoked or self._assigned:
            return self._polled([])
        try:
            fetched = await self._fetch(consumer, timeout)
        except IllegalStateError as error:
            raise Unavailable(f"The group {self._group!r} is being formed anew") from error
        except KafkaError as error:
            raise Unavailable(f"Kafka cannot be followed: {error!r}") from error
        return self._polled([_record(self._topic, record) for records in fetched.values() for record in records])

    async def _fetch(self, consumer: AIOKafkaConsumer, timeout: float) -> dict[TopicPartition, list[Any]]:
        """Records, or none if time is up, also while the group is being formed anew; nothing fetched is lost."""
        try:
            async with asyncio.timeout(timeout) as self._patience:
                fetched: dict[TopicPartition, list[Any]] = await consumer.getmany(
                    timeout_ms=int(timeout * 1000), max_records=MAX_RECORDS
                )
                return fetched
        except TimeoutError:
            return {}
        finally:
            self._patience = None

    def _polled(self, records: list[Record]) -> Polled:
        revoked, assigned = frozenset(self._revoked), frozenset(self._assigned)
        self._revoked.clear()
        self._assigned.clear()
        wanted = [record for record in records if record.partition in self._sought]
        for number in {record.partition for record in wanted}:
            self._note_end(number)
        return Polled(revoked, assigned, wanted)

    def _note_end(self, number: int) -> None:
        assert self._consumer is not None
        with suppress(IllegalStateError, KafkaError, AssertionError):
            self._ends[number] = self._consumer.highwater(self._partition(number)) or self._ends.get(number, 0)

    async def seek(self, partition: int, offset: int) -> None:
        if self._consumer is None or partition not in self._mine:
            return
        with suppress(IllegalStateError):
            self._consumer.seek(self._partition(partition), offset)
            self._sought.add(partition)
            self._ends.pop(partition, None)
        self._apply_pauses()

    def pause(self, partitions: frozenset[int]) -> None:
        if partitions != self._paused:
            self._paused = partitions
            self._apply_pauses()

    def end(self, partition: int) -> int:
        return self._ends.get(partition, 0)

    async def commit(self, offsets: Mapping[int, int]) -> None:
        if not offsets:
            return
        consumer = await self._ready()
        if not offsets.keys() <= self._mine:
            raise Conflict("a partition has moved to another member of the group")
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                await consumer.commit({self._partition(number): offset for number, offset in offsets.items()})
        except (CommitFailedError, IllegalStateError) as error:
            raise Conflict("a partition has moved to another member of the group") from error
        except (KafkaError, TimeoutError) as error:
            raise Unavailable(f"Kafka did not confirm a commit: {error!r}") from error

    async def committed(self, partition: int) -> int:
        consumer = await self._ready()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                return int(await consumer.committed(self._partition(partition)) or 0)
        except (KafkaError, IllegalStateError, TimeoutError) as error:
            raise Unavailable(f"Kafka did not tell a committed offset: {error!r}") from error

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await closed(consumer)

    def _partition(self, number: int) -> TopicPartition:
        return TopicPartition(self._settings.physical(self._topic), number)

    def _apply_pauses(self) -> None:
        if self._consumer is None:
            return
        for number in self._mine:
            silent = number in self._paused or number not in self._sought
            with suppress(IllegalStateError):
                (self._consumer.pause if silent else self._consumer.resume)(self._partition(number))

    async def _ready(self) -> AIOKafkaConsumer:
        async with self._building:
            return self._consumer or await self._build()

    async def _build(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            **self._settings.client_options(),
            group_id=self._settings.physical(self._group),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=self._settings.session_timeout_ms,
            heartbeat_interval_ms=self._settings.session_timeout_ms // 3,
            max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
            max_partition_fetch_bytes=FETCHED.get(self._topic, 1_048_576),
            rebalance_timeout_ms=int(REQUEST_TIMEOUT * 1000),
        )
        self._consumer = consumer
        consumer.subscribe([self._settings.physical(self._topic)], listener=self)
        try:
            await _started(consumer, self._settings, LEADER_TIMEOUT)
        except BaseException:
            self._consumer = None
            raise
        return consumer

    async def _watch(self) -> None:
        """Build the consumer anew if, for a whole period, it stood still although there was more to read."""
        now = asyncio.get_running_loop().time()
        if now < self._watch_at or self._consumer is None:
            return
        self._watch_at = now + WATCHDOG_PERIOD
        active = [self._partition(number) for number in self._sought - self._paused]
        if not active:
            self._watched = {}
            return
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT / 5):
                ends = await self._consumer.end_offsets(active)
                at = {partition.partition: await self._consumer.position(partition) for partition in active}
        except (KafkaError, IllegalStateError, TimeoutError):
            return
        behind = {partition.partition for partition, end in ends.items() if at[partition.partition] < end}
        if any(self._watched.get(number) == at[number] for number in behind):
            behind.clear()
            await self._rebuild()
        self._watched = {number: at[number] for number in behind}

    async def _rebuild(self) -> None:
        self._lose(self._mine)
        await self.close()
