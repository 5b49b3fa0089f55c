"""The projector's promises, on a real Postgres: every record once, whatever happens to it."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
from asyncpg.exceptions import LockNotAvailableError
from histories import histories, of_newer_catalogue
from hypothesis import given
from hypothesis import strategies as st
from living import projected, running
from tables import contents, count, on_one_database, wipe

from builders import (
    SOURCE,
    Told,
    cancellation,
    completed,
    follow_up,
    planned,
    refused,
    requested,
    reviewed,
    step,
    typical,
)
from poweron_events import topics
from poweron_events.dead_letter import DeadLetter
from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.log import Message, Polled, Record
from poweron_events.log.memory import MemoryFollower, MemoryLog
from poweron_events.task_cancellation import cancel_task
from poweron_projections import bootstrap, offsets, projector, reader, request_answers, rows, workflow_excerpts
from poweron_projections.connection import Connection, Pool, acquire, snapshot
from poweron_projections.migrations import migrate
from poweron_projections.rebuild import rebuild
from poweron_projections.records import compress, decompress
from poweron_projections.rows import RowWriter
from poweron_projections.verify import catch_up, verify

EVENTS = topics.EVENTS.name
DEAD_LETTERS = topics.DEAD_LETTERS.name


async def records(log: MemoryLog) -> list[Record]:
    return [record async for some in log.read(EVENTS, {}, await log.ends(EVENTS)) for record in some]


def writer(log: MemoryLog, pool: Pool) -> RowWriter:
    return RowWriter(log, pool, EVENTS, renew=partial(rebuild, log, pool))


async def loaded(log: MemoryLog, pool: Pool) -> RowWriter:
    one = writer(log, pool)
    await one.load(range(topics.EVENTS.partitions))
    return one


@pytest.mark.req("E-11")
async def test_every_record_is_kept_with_its_bytes_its_verdict_and_its_place(log: MemoryLog, pool: Pool) -> None:
    told = typical(steps=1)
    told.write(told.values[2])  # said twice
    told.write(of_newer_catalogue(told.values[2]))
    await log.append(EVENTS, told.messages)
    await catch_up(log, pool)
    async with acquire(pool) as connection:
        rows = await connection.fetch("SELECT seq, verdict, compressed, sha256 FROM records ORDER BY log_offset")
    assert [decompress(row["compressed"]) for row in rows] == told.values
    assert [row["sha256"] for row in rows] == [hashlib.sha256(value).digest() for value in told.values]
    assert [row["verdict"] for row in rows] == ["accepted"] * 10 + ["superseded", "unknown"]
    assert [row["seq"] for row in rows] == list(range(12))


@pytest.mark.req("E-11")
@on_one_database
@given(history=histories(), cuts=st.lists(st.integers(1, 9), min_size=1), forgetful=st.booleans())
async def test_any_history_cut_into_any_batches_gives_the_same_rows(
    pool: Pool, history: list[Message], cuts: list[int], forgetful: bool
) -> None:
    log = MemoryLog()
    await wipe(pool)
    await log.append(EVENTS, history)
    one, left = await loaded(log, pool), await records(log)
    for turn in range(len(left)):
        cut = cuts[turn % len(cuts)]
        await one.project(left[:cut])
        left = left[cut:]
        if forgetful:
            one = await loaded(log, pool)
    await catch_up(log, pool)
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-07")
@on_one_database
@given(history=histories())
async def test_a_snapshot_holds_the_open_workflows_as_the_full_fold_has_them(
    pool: Pool, history: list[Message]
) -> None:
    log = MemoryLog()
    await wipe(pool)
    await log.append(EVENTS, history)
    await catch_up(log, pool)
    loaded_ = await bootstrap.load(pool, range(topics.EVENTS.partitions))
    expected = full_fold(await records(log))
    opened = {name: workflow for name, workflow in expected.items() if workflow.is_open}
    assert {name: workflow for part in loaded_.values() for name, workflow in part.workflows.items()} == opened
    assert {partition: part.offset for partition, part in loaded_.items()} == await log.ends(EVENTS)
    for partition in loaded_:
        _, stubs = await bootstrap.look_up(pool, partition, list(expected))
        for name, stub in stubs.items():
            workflow = expected[name]
            assert (stub.openings, stub.is_open, stub.seq, stub.last) == (
                workflow.openings, workflow.is_open, workflow.seq, workflow.last
            )  # fmt: skip


def full_fold(records: Sequence[Record]) -> dict[str, object]:
    from poweron_events.codec import Undecodable
    from poweron_events.fold.evolve import evolve
    from poweron_events.fold.state import Workflow
    from poweron_projections.projection import read

    folded: dict[str, Workflow] = {}
    for _, recorded in map(read, records):
        if not isinstance(recorded, Undecodable):
            name = recorded.envelope.workflow_id
            folded[name], _ = evolve(folded.get(name, Workflow(name)), recorded)
    return folded


@pytest.mark.req("E-11")
async def test_of_two_projectors_that_project_the_same_one_is_refused(log: MemoryLog, pool: Pool) -> None:
    await log.append(EVENTS, typical().messages)
    first, second = await loaded(log, pool), await loaded(log, pool)
    await first.project(await records(log))
    with pytest.raises(Conflict):
        await second.project(await records(log))
    assert await count(pool, "records") == 16


@pytest.mark.req("E-11")
async def test_a_projector_frozen_within_its_transaction_holds_up_the_others_for_a_while_only(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "MOST_IDLE_MS", 300)
    await log.append(EVENTS, typical(steps=1).messages)
    frozen, other = await loaded(log, pool), await loaded(log, pool)
    all_records = await records(log)
    transaction = snapshot(pool, readonly=False)
    await frozen._rows.write(await transaction.__aenter__(), EVENTS, all_records)
    async with asyncio.timeout(10):
        await other.project(all_records)
    with pytest.raises(Unavailable):
        await transaction.__aexit__(None, None, None)
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-11")
async def test_projectors_that_race_all_the_way_project_everything_once(log: MemoryLog, pool: Pool) -> None:
    for number in range(20):
        await log.append(EVENTS, typical(str(number), steps=1).messages)

    async def race(batch: int) -> None:
        one = writer(log, pool)
        while True:
            start = await one.load(range(topics.EVENTS.partitions))
            left = [record for record in await records(log) if record.offset >= start[record.partition]]
            if not left:
                return
            try:
                for place in range(0, len(left), batch):
                    await one.project(left[place : place + batch])
            except Conflict:
                continue

    async with asyncio.TaskGroup() as group:
        for batch in (3, 5, 7):
            group.create_task(race(batch))
    assert await count(pool, "records") == 200
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-11")
async def test_a_projector_killed_again_and_again_leaves_no_trace(log: MemoryLog, pool: Pool) -> None:
    for number in range(10):
        await log.append(EVENTS, typical(str(number)).messages)
    patience, done = 0.01, False
    while not done:
        patience *= 1.3
        try:
            async with asyncio.timeout(patience):
                await catch_up(log, pool)
            done = True
        except TimeoutError:
            pass
    assert await count(pool, "records") == 160
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-11")
async def test_a_commit_whose_answer_is_lost_counts_once(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = iter([True])

    @asynccontextmanager
    async def snapshot_and_lose(pool: Pool, *, readonly: bool) -> AsyncGenerator[Connection, None]:
        async with snapshot(pool, readonly=readonly) as connection:
            yield connection
        if one._rows.offsets.get(EVENTS, {}).get(partition, 0) and next(lost, False):
            raise Unavailable("the connection broke before the answer came")

    told = typical()
    await log.append(EVENTS, told.messages)
    partition = log.partition_of(EVENTS, told.id.encode())
    one = await loaded(log, pool)
    monkeypatch.setattr(rows, "snapshot", snapshot_and_lose)
    with pytest.raises(Unavailable):
        await one.project(await records(log))
    start = await one.load(range(topics.EVENTS.partitions))
    assert start[partition] == 16
    await one.project(await records(log))  # delivered once more
    assert await count(pool, "records") == 16


async def test_a_running_projector_follows_the_log(log: MemoryLog, pool: Pool) -> None:
    async with running(log, pool):
        await log.append(EVENTS, typical("1").messages)
        await projected(log, pool)
        await log.append(EVENTS, typical("2").messages)
        await projected(log, pool)
    assert await count(pool, "workflows WHERE status = 'completed'") == 2


def test_the_more_records_come_the_longer_the_next_gather_but_never_for_long() -> None:
    alone, some, many = (projector.gathering(records) for records in (1, 20, rows.BATCH - 1))
    assert 0 < alone < some < many <= 0.25, "one record is in the rows at once, and many within a quarter of a second"
    assert projector.gathering(rows.BATCH) == 0.0, "after a standstill nothing waits"


async def test_a_projector_without_a_partition_waits_for_one(log: MemoryLog, pool: Pool) -> None:
    one = await loaded(log, pool)
    assert await one.load([]) == {}


@pytest.mark.req("E-11")
async def test_a_running_projector_outlives_its_connections(log: MemoryLog, pool: Pool) -> None:
    async with running(log, pool):
        for number in range(10):
            await log.append(EVENTS, typical(str(number)).messages)
            async with acquire(pool) as connection:
                await connection.fetch(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'poweron' AND pid <> pg_backend_pid()"
                )
        await projected(log, pool)
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-01")
async def test_a_running_projector_fills_a_wiped_postgres_again(log: MemoryLog, pool: Pool) -> None:
    async with running(log, pool):
        await log.append(EVENTS, typical("1").messages)
        await projected(log, pool)
        await wipe(pool)
        await log.append(EVENTS, typical("2").messages)
        await projected(log, pool)
    assert await count(pool, "workflows") == 2
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-01")
async def test_a_wiped_postgres_is_filled_again_while_nothing_happens(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "IDLE", 0.05)
    async with running(log, pool):
        await log.append(EVENTS, typical("1").messages)
        await projected(log, pool)
        await wipe(pool)
        await projected(log, pool)
    assert await count(pool, "workflows") == 1


@pytest.mark.req("E-01")
async def test_the_rows_cannot_be_wiped_while_a_projector_looks_where_they_end(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wipes them waits; else tables that somebody makes anew would know nothing of the partition."""
    begin = offsets.begin

    async def begun_then_wiped(connection: Connection, topic: str, partitions: Iterable[int]) -> None:
        await begin(connection, topic, partitions)
        async with acquire(pool) as other:
            with suppress(LockNotAvailableError):
                await other.execute("LOCK TABLE offsets IN ACCESS EXCLUSIVE MODE NOWAIT; DELETE FROM offsets")

    monkeypatch.setattr(offsets, "begin", begun_then_wiped)
    assert await writer(log, pool).load([0]) == {0: 0}


@pytest.mark.req("E-09")
async def test_polling_goes_on_while_postgres_does_not_answer(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls, enough = 0, asyncio.Event()
    poll = MemoryFollower.poll

    async def counted(self: MemoryFollower, timeout: float) -> Polled:
        nonlocal polls
        polls += 1
        if polls > 10:
            enough.set()
        return await poll(self, timeout)

    async with running(log, pool):
        await log.append(EVENTS, typical("1").messages)
        await projected(log, pool)
        async with acquire(pool) as connection, connection.transaction():
            await connection.execute("LOCK TABLE offsets IN ACCESS EXCLUSIVE MODE")
            await log.append(EVENTS, typical("2").messages)
            monkeypatch.setattr(MemoryFollower, "poll", counted)
            async with asyncio.timeout(10):
                await enough.wait()
        await projected(log, pool)
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-09")
async def test_a_transaction_that_is_cancelled_twice_leaves_no_connection_in_it(pool: Pool) -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with acquire(pool) as other:
        asleep = asyncio.create_task(sleep_in_transaction(pool))
        while not await other.fetchval("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')"):
            pass
        asleep.cancel()
        await asyncio.sleep(0)  # it now waits to roll back
        asleep.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asleep
    assert told == []


async def test_a_statement_that_is_cancelled_while_it_is_prepared_locks_no_table(pool: Pool) -> None:
    await migrate(pool)
    async with acquire(pool) as other:
        await other.execute("SET lock_timeout = '5s'")
        for number in range(100):  # each is cancelled a little later than the one before
            await count_rows(pool, name="once")  # so that there is a connection
            reading = asyncio.create_task(count_rows(pool, name=f"rows{number}"))
            for _ in range(number):
                await asyncio.sleep(0)
            await cancel_task(reading)
            async with other.transaction():
                await other.execute("LOCK TABLE offsets IN ACCESS EXCLUSIVE MODE")


async def count_rows(pool: Pool, name: str) -> None:
    async with acquire(pool) as connection:
        await connection.fetch(f"SELECT count(*) AS {name} FROM offsets WHERE partition <> $1", 0)


async def sleep_in_transaction(pool: Pool) -> None:
    async with snapshot(pool) as connection:
        await connection.execute("SELECT pg_sleep(60)")


@pytest.mark.req("E-14")
async def test_what_is_no_event_is_skipped_kept_and_told_once(log: MemoryLog, pool: Pool) -> None:
    told = typical()
    log.write(EVENTS, told.id.encode(), b"no event")
    log.write(EVENTS, None, None)
    await log.append(EVENTS, told.messages)
    await catch_up(log, pool)
    await catch_up(log, pool)
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            "SELECT key, compressed, seq FROM records WHERE verdict = 'undecodable' ORDER BY key"
        )
    assert [tuple(row) for row in rows] == [(told.id.encode(), compress(b"no event"), None), (None, None, None)]
    buried = await reader.dead_letters(pool)
    assert {(letter.topic, letter.raw) for letter in buried} == {(EVENTS, b"no event"), (EVENTS, None)}
    assert "not JSON" in next(letter.reason for letter in buried if letter.raw == b"no event")
    assert sum((await log.ends(DEAD_LETTERS)).values()) == 2
    assert (await reader.workflow(pool, told.id)).status == "completed"


async def test_the_dead_letters_of_other_topics_become_rows_too(log: MemoryLog, pool: Pool) -> None:
    record = Record(topics.REQUESTS.name, 3, 7, 0, None, b"\xff", {})
    await log.append(DEAD_LETTERS, [DeadLetter.of(record, "not JSON").message()] * 2)
    log.write(DEAD_LETTERS, None, b"not even a dead letter")
    await catch_up(log, pool)
    found = [(letter.topic, letter.partition, letter.offset, letter.raw) for letter in await reader.dead_letters(pool)]
    assert sorted(found) == [(DEAD_LETTERS, 0, 2, b"not even a dead letter"), (topics.REQUESTS.name, 3, 7, b"\xff")]


@pytest.mark.req("E-11")
async def test_records_of_a_workflow_that_was_never_opened_give_a_row_in_round_0(log: MemoryLog, pool: Pool) -> None:
    told = Told("stray").tell(cancellation(), planned())
    await log.append(EVENTS, told.messages)
    await catch_up(log, pool)
    found = await reader.workflow(pool, told.id)
    assert (found.status, found.current_round, found.seq, found.prompt) == ("never_opened", 0, 2, None)
    await log.append(EVENTS, Told("stray").tell(requested("stray")).messages)
    await catch_up(log, pool)
    assert (await reader.workflow(pool, told.id)).status == "running"
    assert (await verify(log, pool)).differences == []


async def test_text_that_postgres_cannot_hold_and_large_numbers_do_not_stop_the_projector(
    log: MemoryLog, pool: Pool
) -> None:
    told = Told().tell(requested(prompt="a\0b"), planned())
    parts = step(1)
    parts[1] = parts[1].model_copy(update={"parameters": {"a\0": ["\0", "\\u0000"]}})
    parts[3] = parts[3].model_copy(update={"duration_ms": 10**15})
    told.tell(*parts)
    await log.append(EVENTS, told.messages)
    await catch_up(log, pool)
    assert (await reader.workflow(pool, told.id)).prompt == "a\ufffdb"
    entry = (await workflow_excerpts.steps(pool, told.id))[0]
    assert (entry.parameters, entry.duration_ms) == ({"a\ufffd": ["\ufffd", "\\u0000"]}, 10**15)
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-15")
async def test_an_accepted_answer_outranks_a_refused_one(log: MemoryLog, pool: Pool) -> None:
    told = Told("1").tell(requested("1"), refused("2"), planned(), *step(1), reviewed(), completed(), refused("2"))
    await log.append(EVENTS, told.messages)
    await catch_up(log, pool)
    assert (await request_answers.answer(pool, SOURCE, "2")).reason == "round_open"
    assert await request_answers.answer(pool, SOURCE, "3") is None
    await log.append(EVENTS, told.tell(follow_up(2, "2")).messages[-1:])
    await catch_up(log, pool)
    answered = await request_answers.answer(pool, SOURCE, "2")
    assert (answered.answer, answered.round, answered.workflow_id) == ("accepted", 2, told.id)


async def test_a_projector_of_an_older_release_leaves_newer_tables_alone(log: MemoryLog, pool: Pool) -> None:
    await catch_up(log, pool)
    async with acquire(pool) as connection:
        await connection.execute("UPDATE projection SET version = 1000")
    with pytest.raises(Refused, match="use the newer release"):
        await catch_up(log, pool)


async def test_tables_of_an_older_release_are_rebuilt(log: MemoryLog, pool: Pool) -> None:
    await log.append(EVENTS, typical().messages)
    await catch_up(log, pool)
    before = await contents(pool)
    async with acquire(pool) as connection:
        await connection.execute("UPDATE projection SET version = 0; ALTER TABLE steps DROP COLUMN hint")
    async with running(log, pool):
        await log.append(EVENTS, typical("2").messages)
        await projected(log, pool)
    after = await contents(pool)
    assert all(row in after["steps"] for row in before["steps"])
    assert len(after["workflows"]) == 2
