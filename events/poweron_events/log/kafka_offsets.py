"""Where a topic's partitions end on Kafka, how far a group has read them, and the errors raised if they are gone."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupAuthorizationFailedError, GroupCoordinatorNotAvailableError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from poweron_events import topics
from poweron_events.errors import LogLost, Refused, Unavailable
from poweron_events.log import GroupState
from poweron_events.log.kafka_settings import REQUEST_TIMEOUT
from poweron_events.task_cancellation import retrieve_error

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
    """Return how far a group is in a topic with these ends, and if it has members; a group without history is at 0.

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
