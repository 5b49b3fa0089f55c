"""What streams read: the log in its order with nothing skipped or doubled, and workflows with their messages."""

import random
from collections import defaultdict

import pytest

from builders import Policies, Told, applied, typical
from poweron_events import topics
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_projections import bootstrap, reader
from poweron_projections.connection import Pool, acquire
from poweron_projections.reader import LoggedRecord
from poweron_projections.verify import catch_up

EVENTS = topics.EVENTS.name


async def run(pool: Pool, statement: str) -> None:
    async with acquire(pool) as connection:
        await connection.execute(statement)


async def many(log: MemoryLog, pool: Pool) -> list[Told]:
    """Workflows in many partitions, with records between that are not events."""
    stories = [typical(str(number)) for number in range(12)]
    for number in range(max(len(told.messages) for told in stories)):
        await log.append(EVENTS, [told.messages[number] for told in stories if number < len(told.messages)])
        await log.append(EVENTS, [Message(f"junk {number}".encode(), b"no event")])
    await catch_up(log, pool)
    return stories


async def pages(pool: Pool, limit: int) -> list[LoggedRecord]:
    at, found = [0] * topics.EVENTS.partitions, list[LoggedRecord]()
    while page := await reader.records_after(pool, at, limit=limit):
        assert len(page) <= limit
        for record in page:
            assert record.offset == at[record.partition]  # the next one of its partition: none skipped, none doubled
            at[record.partition] += 1
        found += page
    assert dict(enumerate(at)) == await bootstrap.positions(pool)
    return found


@pytest.mark.parametrize("limit", [1, 2, 7, 50, 1_000])
async def test_pages_of_the_log_skip_and_double_nothing_while_clocks_of_partitions_differ(
    log: MemoryLog, pool: Pool, limit: int
) -> None:
    stories = await many(log, pool)
    chance = random.Random(limit)
    async with acquire(pool) as connection:
        for row in await connection.fetch("SELECT partition, log_offset FROM records"):
            time_ms = 1_000 * row["partition"] + chance.randrange(10_000)
            await connection.execute(
                "UPDATE records SET time_ms = $3 WHERE partition = $1 AND log_offset = $2", *row, time_ms
            )
    seqs = defaultdict[str, list[int]](list)
    for record in await pages(pool, limit):
        if record.event is not None:
            seqs[record.event.workflow_id].append(record.event.seq)
    assert seqs == {told.id: [*range(len(told.messages))] for told in stories}


async def test_a_damaged_row_is_told_without_its_data_and_blocks_nothing(log: MemoryLog, pool: Pool) -> None:
    (told, *_) = await many(log, pool)
    await run(pool, f"UPDATE records SET compressed = '\\x00' WHERE workflow_id = '{told.id}' AND seq IN (3, 14)")
    events = [
        record.event
        for record in await pages(pool, 50)
        if record.event is not None and record.event.workflow_id == told.id
    ]
    assert [event.seq for event in events if event.data is None] == [3, 14]
    news = await reader.news(pool, told.id, limit=500)
    assert [event.seq for event in news.events] == [*range(len(told.messages))]
    assert [event.seq for event in news.events if event.data is None] == [3, 14]


async def test_news_are_records_with_the_messages_that_they_added_and_the_state_after_all_of_them(
    log: MemoryLog, pool: Pool
) -> None:
    (told, *_) = await many(log, pool)
    events = await reader.events(pool, told.id, limit=500)
    history = {entry.seq: entry for entry in await reader.history(pool, told.id, limit=500)}
    for after in range(-1, len(events)):
        news = await reader.news(pool, told.id, after_seq=after, limit=4)
        assert news.events == events[after + 1 : after + 5]
        assert news.messages == {event.seq: history[event.seq] for event in news.events if event.seq in history}
        assert news.workflow == await reader.workflow(pool, told.id)


async def test_news_of_the_log_are_its_records_with_their_messages_and_the_state_after_the_newest(
    log: MemoryLog, pool: Pool
) -> None:
    stories = await many(log, pool)
    await log.append(EVENTS, Policies().tell(applied()).messages)  # which no list of workflows shows
    await catch_up(log, pool)
    at, records = [0] * topics.EVENTS.partitions, list[LoggedRecord]()
    while page := await reader.log_news(pool, at, limit=30):
        expected = await reader.records_after(pool, at, limit=30)
        assert [record[:3] for record in page] == [record[:3] for record in expected]
        for record in page:
            at[record.partition] += 1
        records += page
    assert dict(enumerate(at)) == await bootstrap.positions(pool)
    shown = {record[:2]: (record.message, record.state) for record in records}
    for told in stories:
        workflow, history = await reader.workflow(pool, told.id), await reader.history(pool, told.id, limit=500)
        messages = {entry.seq: {**entry.model_dump(), "workflow_id": told.id} for entry in history}
        for event in await reader.events(pool, told.id, limit=500):
            message, state = shown.pop((event.partition, event.offset))
            assert (message and message.model_dump()) == messages.get(event.seq)
            assert state == (workflow if event.seq == len(told.messages) - 1 else None)
    assert {*shown.values()} == {(None, None)}
