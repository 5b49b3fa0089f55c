"""A rebuild makes the same rows from the log alone, beside whoever goes on working."""

import asyncio
import shutil
from asyncio.subprocess import Process
from collections.abc import Collection, Mapping
from typing import Any

import psutil
import pytest
from histories import histories
from hypothesis import given
from living import projected, running
from tables import contents, count, on_one_database, wipe

from builders import follow_up, planned, refused, typical
from poweron_events import topics
from poweron_events.errors import Conflict, Unavailable
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_projections import folder, rows, shadow
from poweron_projections import rebuild as module
from poweron_projections.connection import Pool, acquire
from poweron_projections.folder import LocalFolder
from poweron_projections.projection import View
from poweron_projections.rebuild import Rebuilt, rebuild
from poweron_projections.verify import catch_up, verify

EVENTS = topics.EVENTS.name
DEAD_LETTERS = topics.DEAD_LETTERS.name


@pytest.mark.req("H-04")
@on_one_database
@given(history=histories())
async def test_a_rebuild_of_any_history_gives_the_same_rows(pool: Pool, history: list[Message]) -> None:
    log = MemoryLog()
    await wipe(pool)
    await log.append(EVENTS, history)
    await catch_up(log, pool)
    before = await contents(pool)
    rebuilt = await rebuild(log, pool)
    assert rebuilt.events == len(history)
    assert rebuilt.differences == []
    assert await contents(pool) == before


@pytest.mark.req("H-04")
@pytest.mark.parametrize("many", [1, 1_000])
async def test_several_processes_make_the_rows_that_one_makes(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """Rounds that follow in a later batch, requests of ended workflows and what is no event among them."""
    for number in range(8):
        told = typical(str(number)).tell(refused("x"), follow_up(2, f"{number}-2"), planned(2, 2))
        await log.append(EVENTS, told.messages)
        log.write(EVENTS, told.id.encode(), b"no event")
    await catch_up(log, pool)
    before = await contents(pool)
    monkeypatch.setattr(folder, "RECORDS_PER_PROCESS", 50)
    monkeypatch.setattr(shadow, "BATCH", 7)
    monkeypatch.setattr(rows, "MANY", many)
    started = spied(monkeypatch)
    rebuilding, verifying = list[tuple[int, int]](), list[tuple[int, int]]()
    assert (await rebuild(log, pool, lambda *told: rebuilding.append(told))).differences == []
    assert await contents(pool) == before
    assert (await verify(log, pool, lambda *told: verifying.append(told))).differences == []
    ends = [await log.ends(topic) for topic in (EVENTS, DEAD_LETTERS)]
    records = sum(sum(each.values()) for each in ends)
    assert (records, records) in rebuilding
    assert verifying[-1] == (records, records)
    assert len(started) == 2, "the first process starts the other"
    assert all(process.returncode is not None for process in started)


def spied(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes that are started from now on, on a machine that has two processors."""
    started: list[Process] = []
    start = asyncio.create_subprocess_exec

    async def start_and_tell(*command: str, **options: Any) -> Process:
        started.append(await start(*command, **options))
        return started[-1]

    monkeypatch.setattr(folder.asyncio, "create_subprocess_exec", start_and_tell)
    monkeypatch.setattr(folder.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    return started


async def test_what_may_use_one_core_only_folds_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many the machine has."""
    monkeypatch.setattr(folder.os, "cpu_count", lambda: 64)
    monkeypatch.setattr(folder.os, "sched_getaffinity", lambda _: {7}, raising=False)
    async with folder.folders(records=10**6, partitions=12) as folders:
        assert [type(folder) for folder in folders] == [LocalFolder]


async def test_a_process_that_dies_ends_the_rebuild_which_can_be_repeated(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        await log.append(EVENTS, typical(str(number)).messages)
    monkeypatch.setattr(folder, "RECORDS_PER_PROCESS", 50)
    spied(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(folder.sys, "executable", shutil.which("false"))
        with pytest.raises(Unavailable, match="a process that folds has ended"):
            await rebuild(log, pool)
    assert (await rebuild(log, pool)).events == 8 * 16


async def test_a_copy_of_the_first_process_that_dies_is_noticed_and_the_first_one_ends(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(EVENTS, typical().messages)
    ends = await log.ends(EVENTS)
    records = [record async for some in log.read(EVENTS, {}, ends) for record in some]
    started = spied(monkeypatch)
    async with folder.child_folders(2) as (first, second):
        for child in (first, second):
            assert len((await child.fold(records, _nothing)).new["records"]) == len(records)
        (copy,) = psutil.Process(started[0].pid).children()
        copy.kill()
        with pytest.raises(Unavailable, match="a process that folds has ended"):
            await second.fold(records, _nothing)
    assert started[0].returncode == 0


async def _nothing(_: Collection[str]) -> Mapping[str, View]:
    return {}


@pytest.mark.req("H-04")
@pytest.mark.parametrize("state", ["never there", "dropped", "empty"])
async def test_a_rebuild_needs_nothing_but_the_log(log: MemoryLog, pool: Pool, state: str) -> None:
    told = typical()
    log.write(EVENTS, told.id.encode(), b"no event")
    await log.append(EVENTS, told.messages)
    if state != "never there":
        await catch_up(log, pool)
        await wipe(pool)
    if state == "empty":
        await catch_up(MemoryLog(), pool)
    assert await rebuild(log, pool) == Rebuilt(17, 1, None)
    assert (await verify(log, pool)).differences == []
    assert sum((await log.ends(DEAD_LETTERS)).values()) == 1


async def test_a_rebuild_names_what_it_mends(log: MemoryLog, pool: Pool) -> None:
    await log.append(EVENTS, typical().messages)
    await catch_up(log, pool)
    async with acquire(pool) as connection:
        await connection.execute("UPDATE messages SET summary = 'Nothing.' WHERE kind = 'step' AND step = 2")
    rebuilt = await rebuild(log, pool)
    assert [(one.table, one.column, one.expected) for one in rebuilt.differences] == [
        ("messages", "summary", "Read one document.")
    ]
    assert (await rebuild(log, pool)).differences == []


async def test_a_rebuild_beside_a_running_projector_loses_nothing(log: MemoryLog, pool: Pool) -> None:
    written, rebuilds = 0, 0

    async def write() -> None:
        nonlocal written
        while rebuilds < 3:
            await log.append(EVENTS, typical(str(written), steps=1).messages)
            written += 1
            await asyncio.sleep(0.01)

    async with running(log, pool):
        writing = asyncio.create_task(write())
        while rebuilds < 3:
            assert (await rebuild(log, pool)).differences in ([], None)
            rebuilds += 1
        await writing
        await projected(log, pool)
    assert await count(pool, "workflows WHERE status = 'completed'") == written
    assert (await verify(log, pool)).differences == []


async def test_a_killed_rebuild_is_begun_anew(log: MemoryLog, pool: Pool) -> None:
    for number in range(10):
        await log.append(EVENTS, typical(str(number)).messages)
    await catch_up(log, pool)
    before = await contents(pool)
    patience, kills = 0.001, 0  # seconds: far less than any rebuild takes
    while True:
        patience *= 1.4
        try:
            async with asyncio.timeout(patience):
                await rebuild(log, pool)
            break
        except TimeoutError:
            kills += 1
    assert kills > 1
    assert await contents(pool) == before


async def test_only_one_process_rebuilds_at_a_time(log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    fill = shadow.Shadow.fill

    async def held(self: shadow.Shadow, ends: shadow.Ends) -> None:
        begun.set()
        await go_on.wait()
        await fill(self, ends)

    monkeypatch.setattr(module.Shadow, "fill", held)
    await log.append(EVENTS, typical().messages)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(rebuild(log, pool))
        await begun.wait()
        with pytest.raises(Conflict, match="another process"):
            await rebuild(log, pool)
        go_on.set()
    assert first.result().events == 16
