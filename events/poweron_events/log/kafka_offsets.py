"""The ends of a topic's partitions on Kafka, and what it means when they are not there any more."""

import asyncio
from collections.abc import Iterable
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from poweron_events import topics
from poweron_events.errors import LogLost, Unavailable
from poweron_events.log.kafka_settings import REQUEST_TIMEOUT
from poweron_events.task_cancellation import retrieve_error

MISSING_AFTER: Final = 1.0  # seconds in which a topic must turn up


async def end_offsets(consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> dict[int, int]:
    """The end of each of these partitions, which are of one topic.

    Raises:
        LogLost: the topic of the events is not there.
        Unavailable: Kafka does not answer, or another topic is not there.
    """
    wanted = list(partitions)
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
    """Raise where Kafka says that one of these partitions is not there; nothing where it says nothing."""
    for partition in partitions:
        known = consumer.partitions_for_topic(partition.topic)
        if known is None and partition.topic in await consumer.topics():
            continue
        if known is None or partition.partition not in known:
            raise gone(partition)


def gone(partition: TopicPartition) -> Unavailable:
    """That a partition, or records of it, were there and are not any more."""
    error = LogLost if partition.topic.endswith(topics.EVENTS.name) else Unavailable
    return error(f"Topic {partition.topic!r} was deleted or cut: partition {partition.partition} is not what it was")
