"""The ledger enters every record of the log, and what it signs is what its topic holds."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from histories import histories
from hypothesis import HealthCheck, given, settings
from ledgers import KEYS, NOW_MS, enter_all, write
from living import running
from tables import wipe

from builders import Told, requested
from poweron_events import topics
from poweron_events.errors import Conflict
from poweron_events.log import Message, Record
from poweron_events.log.memory import MemoryLog
from poweron_events.task_cancellation import cancel_task
from poweron_projections.audit import ledger_role
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.ledger import Ledger
from poweron_projections.audit.ledger_entry import heads_root
from poweron_projections.audit.ledger_heads import listed_heads
from poweron_projections.audit.merkle_tree import GrowingTree, leaf_hash
from poweron_projections.audit.notes import SignedNote
from poweron_projections.connection import Pool, acquire
from poweron_projections.verify import catch_up, verify


async def _entries(log: MemoryLog) -> list[bytes]:
    ends = await log.ends(topics.LEDGER.name)
    return [record.value or b"" async for batch in log.read(topics.LEDGER.name, {}, ends) for record in batch]


async def _checkpoints(log: MemoryLog) -> list[Checkpoint]:
    ends = await log.ends(topics.CHECKPOINTS.name)
    notes = [record async for batch in log.read(topics.CHECKPOINTS.name, {}, ends) for record in batch]
    return [Checkpoint.parse(SignedNote.parse((note.value or b"").decode()).text) for note in notes]


def _root(entries: Sequence[bytes]) -> bytes:
    tree = GrowingTree()
    for entry in entries:
        tree.append(leaf_hash(entry))
    return tree.root


async def _verdicts(pool: Pool) -> dict[tuple[int, int], tuple[Any, ...]]:
    async with acquire(pool) as connection:
        rows = await connection.fetch("SELECT * FROM records")
    return {
        (row["partition"], row["log_offset"]): (
            row["verdict"],
            row["workflow_id"] and str(row["workflow_id"]),
            row["seq"],
        )
        for row in rows
    }


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(first=histories(), second=histories())
async def test_every_record_is_entered_once_with_the_verdict_of_the_fold(
    pool: Pool, first: list[Message], second: list[Message]
) -> None:
    await wipe(pool)
    log = MemoryLog()
    for part in (first, second):
        for message in part:
            log.write(topics.EVENTS.name, message.key, message.value)
        await enter_all(log, pool)
    entries = await _entries(log)
    parsed = [orjson.loads(entry) for entry in entries]
    of_records = [entry for entry in parsed if entry["kind"] in ("event", "reject")]
    entered = {(entry["part"], entry["off"]): entry for entry in of_records}
    rows = await _verdicts(pool)
    assert len(entered) == len(of_records)
    assert entered.keys() == rows.keys()
    last = defaultdict[str, str](str)
    for entry, raw in zip(parsed, entries, strict=True):
        if entry["kind"] == "event":
            assert rows[entry["part"], entry["off"]] == (entry["verdict"], entry["wf"], entry["seq"])
            assert entry["prev"] == last[entry["wf"]]
            last[entry["wf"]] = leaf_hash(raw).hex()
    heads = [(place, entry) for place, entry in enumerate(parsed) if entry["kind"] == "heads"]
    async with acquire(pool) as connection:
        for place, entry in heads:
            listed = await listed_heads(connection, place)
            assert (entry["root"], entry["open"]) == (heads_root(listed.all).hex(), len(listed.open))
            assert entry["size"] == place
    signed = [Checkpoint(KEYS[0].name, place + 1, _root(entries[: place + 1])) for place, _ in heads]
    assert await _checkpoints(log) == signed
    assert (await verify(log, pool)).differences == []


async def test_of_two_ledgers_one_gives_up_and_what_they_repeat_counts_once(log: MemoryLog, pool: Pool) -> None:
    told = Told("one").tell(requested())
    write(log, told)
    await catch_up(log, pool)
    first, second = [await Ledger.load(log, pool, KEYS) for _ in range(2)]
    records = await _records(log)
    await first.enter(records)
    with pytest.raises(Conflict):
        await second.enter(records)
    await catch_up(log, pool)
    async with acquire(pool) as connection:
        kinds = [row["kind"] for row in await connection.fetch("SELECT kind FROM ledger_entries ORDER BY place")]
    assert kinds == ["event"] * len(records) + ["repeated"] * len(records)
    third = await Ledger.load(log, pool, KEYS)
    await third.sign(NOW_MS)
    assert (await _checkpoints(log))[-1].root == _root(await _entries(log))


async def test_the_role_enters_what_arrives_and_signs_when_it_stops(log: MemoryLog, pool: Pool) -> None:
    told = Told("one").tell(requested())
    write(log, told)
    async with running(log, pool):
        playing = asyncio.create_task(ledger_role.run(log, pool, KEYS, "1.0"))
        await _until_entered(log, 1)
        other = asyncio.create_task(ledger_role.run(log, pool, KEYS, "1.0"))
        write(log, Told("two").tell(requested()))
        await _until_entered(log, 2)
        for task in (playing, other):
            await cancel_task(task)
    entries = [orjson.loads(entry) for entry in await _entries(log)]
    assert [entry["kind"] for entry in entries[:2]] == ["key", "epoch"]
    assert entries[-1]["kind"] == "heads"
    assert (await _checkpoints(log))[-1].root == _root(await _entries(log))


async def _records(log: MemoryLog) -> list[Record]:
    ends = await log.ends(topics.EVENTS.name)
    return [record async for batch in log.read(topics.EVENTS.name, {}, ends) for record in batch]


async def _until_entered(log: MemoryLog, count: int) -> None:
    async with asyncio.timeout(20):
        while sum(b'"kind":"event"' in entry for entry in await _entries(log)) < count:  # noqa: ASYNC110 - as in `living`
            await asyncio.sleep(0.01)
