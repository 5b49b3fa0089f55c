"""Follow the log on Kafka as a member of a consumer group, and look up the offsets of groups and the ends of topics."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NoReturn

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    IllegalStateError,
    KafkaError,
)
from aiokafka.structs import OffsetAndMetadata

from poweron_events import topics
from poweron_events.errors import Conflict, LogLost, Refused, Unavailable
from poweron_events.log import GroupState, Polled, Record
from poweron_events.log.kafka_clients import MAX_BYTES, closed, started, take_records
from poweron_events.log.kafka_settings import LEADER_TIMEOUT, REQUEST_TIMEOUT, KafkaSettings
from poweron_events.log.kafka_topics import make_again
from poweron_events.task_cancellation import retrieve_error

EVENTS = topics.EVENTS.name


MAX_POLL_INTERVAL_MS = 60_000


FETCHED = {topics.REQUESTS.name: 65_536}  # bytes of a partition per fetch: what is not taken at once is fetched again


WATCHDOG_PERIOD = 5.0  # seconds of polling between checks for a consumer that is stuck


METADATA_AGE_MS = 3_000  # after which a consumer checks whether its topic still exists, or exists again


LONGEST_POLL = 2.0  # seconds; a longer gap between two polls counts only this much as polling


HAND_OVER = 5.0  # seconds that the caller has to finish its work on revoked partitions


class KafkaFollower(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no type stubs
    """A member of a consumer group; it rebuilds its consumer if that stops making progress."""

    def __init__(self, settings: KafkaSettings, topic: str, group: str) -> None:
        self._settings, self._topic, self._group = settings, topic, group
        self._consumer: AIOKafkaConsumer | None = None
        self._revoked: set[int] = set()
        self._assigned: set[int] = set()
        self._mine: set[int] = set()
        self._sought: dict[int, int] = {}  # by partition, the next offset to be delivered
        self._paused: frozenset[int] = frozenset()
        self._ends: dict[int, int] = {}
        self._watched: dict[int, int] = {}
        self._poll_timeout: asyncio.Timeout | None = None
        self._building = asyncio.Lock()
        self._handed_over = asyncio.Event()
        self._polled_at = asyncio.get_running_loop().time()
        self._unwatched = 0.0

    # --- called by aiokafka in the background, at any time

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Make the group wait: no other member gets these partitions until the poll after the one that reports them."""
        if not revoked:
            return
        self._handed_over.clear()
        self._lose(partition.partition for partition in revoked)
        if self._consumer is None:  # it is being closed
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER):
                await self._handed_over.wait()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        assert self._consumer is not None
        for partition in assigned:
            self._consumer.pause(partition)
            self._mine.add(partition.partition)
            self._assigned.add(partition.partition)
        self._tell_soon()

    def _tell_soon(self) -> None:
        """End the wait of a poll, so that the caller learns of the new assignment first."""
        if self._poll_timeout is not None and not self._poll_timeout.expired():
            self._poll_timeout.reschedule(asyncio.get_running_loop().time())

    def _lose(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            self._revoked.add(number)
            self._assigned.discard(number)
            self._sought.pop(number, None)
            self._mine.discard(number)
        self._tell_soon()

    # --- called by PowerOn

    async def poll(self, timeout: float) -> Polled:
        if not self._revoked:
            self._handed_over.set()
        await self._watch()
        consumer = await self._ready()
        if self._revoked or self._assigned:
            return self._polled([])
        try:
            records = await self._fetch(consumer, timeout)
        except IllegalStateError as error:
            raise Unavailable(f"The group {self._group!r} is being formed anew") from error
        except KafkaError as error:
            raise Unavailable(f"Kafka cannot be followed: {error!r}") from error
        await self._expect_order(records)
        return self._polled(records)

    async def _expect_order(self, records: list[Record]) -> None:
        """Begin again if records arrive a second time: the topic was truncated or recreated, or has a new leader."""
        for record in records:
            if record.offset < self._sought.get(record.partition, 0):
                await self._begin_again(record.partition)
            if record.partition in self._sought:
                self._sought[record.partition] = record.offset + 1

    async def _begin_again(self, number: int) -> NoReturn:
        """Rebuild the consumer, and raise the error that explains why the leader sends old records again."""
        consumer, partition, sought = await self._ready(), self._partition(number), self._sought[number]
        try:
            ends = await end_offsets(consumer, [partition], {number: sought} if self._topic == EVENTS else None)
        finally:
            await self._rebuild()
        if ends[number] < sought:
            raise gone(partition)
        raise Unavailable(f"A broker that is not the leader of {partition.topic!r} any more has answered")

    async def _fetch(self, consumer: AIOKafkaConsumer, timeout: float) -> list[Record]:
        """Return records, or none if time is up, even while the group rebalances; no fetched record is lost."""
        taken: list[Record] = []
        try:
            async with asyncio.timeout(timeout) as self._poll_timeout:
                await take_records(consumer, self._topic, taken, timeout=timeout)
        except TimeoutError:
            pass
        except (KafkaError, IllegalStateError):
            if not taken:  # otherwise the error occurs again, and what was taken comes first
                raise
        finally:
            self._poll_timeout = None
        return taken

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
            self._sought[partition] = offset
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
        consumer, wanted = await self._ready(), self._partition(partition)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                offset = int(await consumer.committed(wanted) or 0)
        except (KafkaError, IllegalStateError, TimeoutError) as error:
            raise Unavailable(f"Kafka did not tell a committed offset: {error!r}") from error
        return offset if offset <= (await end_offsets(consumer, [wanted]))[partition] else 0

    async def close(self) -> None:
        self._handed_over.set()
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
            metadata_max_age_ms=METADATA_AGE_MS,
            session_timeout_ms=self._settings.session_timeout_ms,
            heartbeat_interval_ms=self._settings.session_timeout_ms // 3,
            max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
            fetch_max_bytes=MAX_BYTES,
            max_partition_fetch_bytes=FETCHED.get(self._topic, 1_048_576),
            rebalance_timeout_ms=int(REQUEST_TIMEOUT * 1000),
        )
        self._consumer = consumer
        consumer.subscribe([self._settings.physical(self._topic)], listener=self)
        try:
            await started(consumer, self._settings, LEADER_TIMEOUT)
        except BaseException as error:
            self._consumer = None
            if isinstance(error, Unavailable):
                await make_again(self._settings, self._topic)  # a missing topic may have delayed the start
            raise
        return consumer

    async def _watch(self) -> None:
        """From time to time while polling, check that the topic exists and that the consumer makes progress."""
        now = asyncio.get_running_loop().time()
        self._unwatched += min(now - self._polled_at, LONGEST_POLL)
        self._polled_at = now
        if self._unwatched < WATCHDOG_PERIOD or self._consumer is None:
            return
        self._unwatched = 0.0
        await self._expect_topic(self._consumer)
        await self._expect_progress(self._consumer)

    async def _expect_topic(self, consumer: AIOKafkaConsumer) -> None:
        """Raise if the topic was deleted, and begin again with the one that replaces it."""
        try:
            await expect_there(consumer, [self._partition(0)])
        except KafkaError as error:
            raise Unavailable(f"Kafka cannot be followed: {error!r}") from error
        except Unavailable:
            await make_again(self._settings, self._topic)
            await self._rebuild()
            raise

    async def _expect_progress(self, consumer: AIOKafkaConsumer) -> None:
        """Rebuild the consumer if it did not advance in a whole period of polling although there was more to read."""
        active = [self._partition(number) for number in self._sought.keys() - self._paused]
        if not active:
            self._watched = {}
            return
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT / 5):
                ends = await consumer.end_offsets(active)
                at = {partition.partition: await consumer.position(partition) for partition in active}
        except (KafkaError, IllegalStateError, TimeoutError):
            self._watched = {}
            return
        behind = {partition.partition for partition, end in ends.items() if at[partition.partition] < end}
        if any(self._watched.get(number) == at[number] for number in behind):
            behind.clear()
            await self._rebuild()
        self._watched = {number: at[number] for number in behind}

    async def _rebuild(self) -> None:
        self._lose(self._mine)
        await self.close()


MISSING_AFTER: Final = 1.0  # seconds within which a topic must appear


SHORTER_TIMEOUT: Final = 6.0  # seconds in which a broker that was frozen may still answer as the former leader


SHORTER_PERIOD: Final = 0.25  # seconds between two requests in that time


COORDINATOR_PERIOD: Final = 0.1  # seconds between attempts to find the coordinator of a group


async def end_offsets(
    consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition], at_least: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Return the end offset of each of these partitions, which belong to one topic.

    While one is lower than in `at_least`, ask its leader again for several seconds, with new metadata: a broker that
    was frozen or cut off still answers as the leader for a moment, without the records appended in the meantime.

    Raises:
        LogLost: the topic of the events does not exist.
        Unavailable: Kafka does not answer, or another topic does not exist.
    """
    wanted, now = list(partitions), asyncio.get_running_loop().time
    deadline = now() + SHORTER_TIMEOUT
    while True:
        ends = await _ask_for_ends(consumer, wanted)
        if now() > deadline or all(ends[number] >= end for number, end in (at_least or {}).items()):
            return ends
        consumer._client.force_metadata_update()  # noqa: SLF001 - the client has no public way to ask for it
        await asyncio.sleep(SHORTER_PERIOD)


async def _ask_for_ends(consumer: AIOKafkaConsumer, wanted: list[TopicPartition]) -> dict[int, int]:
    asking = asyncio.ensure_future(consumer.end_offsets(wanted))
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            while not (await asyncio.wait({asking}, timeout=MISSING_AFTER))[0]:
                await expect_there(consumer, wanted)
            found = asking.result()
    except (KafkaError, TimeoutError) as error:
        raise Unavailable(f"Kafka did not tell its end offsets: {error!r}") from error
    finally:
        retrieve_error(asking)
        asking.cancel()
    return {partition.partition: offset for partition, offset in found.items()}


async def expect_there(consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> None:
    """Raise if Kafka reports one of these partitions as missing; do nothing if it reports nothing about them."""
    for partition in partitions:
        known = consumer.partitions_for_topic(partition.topic)
        if known is None and partition.topic in await consumer.topics():
            continue
        if known is None or partition.partition not in known:
            raise gone(partition)


def gone(partition: TopicPartition) -> Unavailable:
    """Return the error for a partition that no longer exists or no longer holds its records."""
    error = LogLost if partition.topic.endswith(topics.EVENTS.name) else Unavailable
    return error(f"Topic {partition.topic!r} was deleted or cut: partition {partition.partition} is not what it was")


async def group_state(admin: AIOKafkaAdminClient, group: str, topic: str, ends: Mapping[int, int]) -> GroupState:
    """Return how far a group is in a topic with these ends, and whether it has members; a new group is at 0.

    Raises:
        Unavailable: Kafka does not answer.
        Refused: Kafka does not allow us to see the group.
    """
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            coordinator, offsets = await _committed(admin, group, [TopicPartition(topic, number) for number in ends])
            (response,) = await admin.describe_consumer_groups([group], coordinator)
    except GroupAuthorizationFailedError as error:
        raise Refused(f"Kafka does not let us look at the group {group!r}") from error
    except (KafkaError, OSError, TimeoutError) as error:
        raise Unavailable(f"Kafka did not say how far the group {group!r} is: {error!r}") from error
    committed = {number: offsets[TopicPartition(topic, number)].offset for number in ends}
    return GroupState(
        {number: offset if 0 <= offset <= ends[number] else 0 for number, offset in committed.items()},
        has_members=bool(response.groups[0][5]),
    )


async def _committed(
    admin: AIOKafkaAdminClient, group: str, partitions: list[TopicPartition]
) -> tuple[int, Mapping[TopicPartition, OffsetAndMetadata]]:
    """Return the broker that coordinates the group, and the offsets that the group has committed.

    While a broker loads the group, or after it has handed the group over, its answer has an error code and no
    partitions; the client library looks only at the partitions.
    """
    while True:
        coordinator = await _coordinator(admin, group)
        offsets = await admin.list_consumer_group_offsets(group, coordinator, partitions)
        if all(each in offsets for each in partitions):
            return coordinator, offsets
        await asyncio.sleep(COORDINATOR_PERIOD)


async def _coordinator(admin: AIOKafkaAdminClient, group: str) -> int:
    """Return the broker that coordinates the group; on a new cluster the first request appoints it."""
    while True:
        with suppress(GroupCoordinatorNotAvailableError):
            return int(await admin.find_coordinator(group))
        await asyncio.sleep(COORDINATOR_PERIOD)
