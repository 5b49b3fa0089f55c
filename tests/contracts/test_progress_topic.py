"""What the topic of progress promises, whoever keeps it; and that nobody needs it."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import TypeAlias

import pytest
from topic_admin import administering

from poweron_events import topics
from poweron_events.errors import Unavailable
from poweron_events.log import Message
from poweron_events.log.kafka import connect
from poweron_events.log.kafka_progress import KafkaProgress
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.log.memory import MemoryProgress

OURS, OTHERS = b"w", b"x"
Keeper: TypeAlias = KafkaProgress | MemoryProgress


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.system)])
async def progress(request: pytest.FixtureRequest) -> AsyncGenerator[Keeper, None]:
    if request.param == "memory":
        yield MemoryProgress()
        return
    settings: KafkaSettings = request.getfixturevalue("kafka")
    async with connect(settings):
        kept = KafkaProgress(settings)
        yield kept
        await kept.close()


async def test_who_watches_a_workflow_hears_what_was_told_a_moment_ago_and_what_comes(progress: Keeper) -> None:
    await progress.send([Message(OTHERS, b"0"), Message(OURS, b"1"), Message(OURS, b"2")])
    heard: list[bytes | None] = []
    tail = progress.tail(OURS)
    async with asyncio.timeout(30):
        while len(heard) < 2:
            heard += [record.value for record in await anext(tail)]
        await progress.send([Message(OURS, b"3")])
        heard += [record.value for record in await anext(tail)]
    await tail.aclose()
    assert heard == [b"1", b"2", b"3"]


@pytest.mark.system
async def test_the_topic_is_made_with_the_others_and_keeps_an_hour(kafka: KafkaSettings) -> None:
    async with connect(kafka), administering(kafka) as admin:
        there = await admin.client.list_topics()
        assert kafka.physical("poweron.progress") in there
    assert topics.PROGRESS.settings["retention.ms"] == "3600000"
    assert topics.PROGRESS not in topics.ALL


@pytest.mark.system
async def test_where_the_topic_or_its_broker_is_missing_that_is_said_soon(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poweron_events.log.kafka_progress.SEND_TIMEOUT", 0.5)
    nowhere = KafkaSettings("127.0.0.1:9")
    for settings in (kafka, nowhere):
        progress, began = KafkaProgress(settings), time.monotonic()
        with pytest.raises(Unavailable):
            await progress.send([Message(OURS, b"1")])
        with pytest.raises(Unavailable):
            await anext(progress.tail(OURS))
        assert time.monotonic() - began < 10
