"""What becomes of a topic of Kafka that somebody deletes or cuts while it is in use."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from topic_admin import TopicAdmin, administering

from poweron_events import topics
from poweron_events.errors import LogLost, Unavailable
from poweron_events.log import Message, kafka_follower
from poweron_events.log.kafka import KafkaLog, connect
from poweron_events.log.kafka_settings import KafkaSettings

pytestmark = [pytest.mark.system]

EVENTS, REQUESTS = topics.EVENTS.name, topics.REQUESTS.name
THREE = [Message(b"w", b"%d" % number) for number in range(3)]


@pytest.fixture
async def admin(kafka: KafkaSettings) -> AsyncGenerator[TopicAdmin, None]:
    async with administering(kafka) as admin:
        yield admin


@pytest.fixture
async def log(kafka: KafkaSettings) -> AsyncGenerator[KafkaLog, None]:
    """A log with three events."""
    async with connect(kafka) as log:
        await log.append(EVENTS, THREE)
        yield log


@pytest.mark.req("E-02")
async def test_whoever_connects_makes_every_topic_but_that_of_deleted_events(
    log: KafkaLog, kafka: KafkaSettings, admin: TopicAdmin
) -> None:
    for topic in (topics.EVENTS, topics.REQUESTS):
        await admin.delete(topic)
    async with connect(kafka) as another:
        assert await admin.names() == {topic.name for topic in topics.ALL if topic != topics.EVENTS}
        with pytest.raises(LogLost, match=r"poweron\.events' was deleted or cut"):
            await another.ends(EVENTS)
    async with connect(kafka, recreate_events=True) as another:
        assert set((await another.ends(EVENTS)).values()) == {0}


@pytest.mark.req("E-02")
async def test_nobody_waits_for_events_that_were_deleted(log: KafkaLog, admin: TopicAdmin) -> None:
    partition, ends = log.partition_of(EVENTS, b"w"), await log.ends(EVENTS)
    tail = log.tail(EVENTS, {partition: 3})
    waiting = asyncio.ensure_future(anext(tail))
    await admin.delete(topics.EVENTS)
    for asked in (log.ends(EVENTS), waiting, anext(log.read(EVENTS, {}, ends))):
        with pytest.raises(LogLost):
            await asked
    await tail.aclose()


@pytest.mark.req("E-02")
async def test_nobody_waits_for_events_that_another_topic_of_that_name_does_not_hold(
    log: KafkaLog, admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_follower, "SHORTER_TIMEOUT", 0.0)
    partition, ends = log.partition_of(EVENTS, b"w"), await log.ends(EVENTS)
    await admin.delete(topics.EVENTS)
    await admin.make(topics.EVENTS)
    tail, read = log.tail(EVENTS, {partition: 3}), log.read(EVENTS, {}, ends)
    for asked in (anext(tail), anext(read)):
        with pytest.raises(LogLost):
            await asked


@pytest.mark.req("E-02")
async def test_what_was_not_written_before_the_events_were_deleted_is_not_written_after(
    log: KafkaLog, admin: TopicAdmin
) -> None:
    await admin.delete(topics.EVENTS)
    producer = log._producer
    appending = asyncio.ensure_future(log.append(EVENTS, THREE))
    async with asyncio.timeout(10):
        while log._producer is producer:  # noqa: ASYNC110 - it tells nobody that it gives up
            await asyncio.sleep(0.01)
    await log._giving_up
    await admin.make(topics.EVENTS)
    appending.cancel()
    await asyncio.wait({appending})
    assert await admin.records(topics.EVENTS) == []


async def test_requests_that_were_deleted_and_made_again_are_read_from_the_first(
    log: KafkaLog, admin: TopicAdmin, kafka: KafkaSettings
) -> None:
    await log.append(REQUESTS, THREE)
    partition = log.partition_of(REQUESTS, b"w")
    async with log.follow(REQUESTS, "readers") as follower:
        found: list[bytes | None] = []

        async def follow(until: bytes) -> None:
            async with asyncio.timeout(20):
                while until not in found:
                    try:
                        polled = await follower.poll(0.5)
                    except Unavailable:
                        continue
                    for number in polled.assigned:
                        await follower.seek(number, await follower.committed(number))
                    found.extend(record.value for record in polled.records)

        await follow(b"2")
        await follower.commit({partition: 3})
        await admin.delete(topics.REQUESTS)
        await admin.make(topics.REQUESTS)
        async with connect(kafka) as sender:
            await sender.append(REQUESTS, [Message(b"w", b"new")])
        await follow(b"new")
    assert found == [b"0", b"1", b"2", b"new"]
