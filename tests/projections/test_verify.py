"""Verify names every difference between the rows and the log."""

import asyncio
import hashlib
from functools import partial
from importlib import resources
from typing import Any

import pytest
from process_records import Process, instance_ended, instance_started
from tables import contents
from zstandard import ZstdCompressor

from builders import Told, completed, follow_up, planned, requested, reviewed, step, two_policies, typical
from poweron_events import codec, topics
from poweron_events.log.memory import MemoryLog
from poweron_projections import migrations, shadow
from poweron_projections.connection import Pool, acquire
from poweron_projections.rebuild import Rebuilt, rebuild
from poweron_projections.records import DICTIONARY_FILE, RECORDS, compress, decompress
from poweron_projections.shadow import Difference, differences
from poweron_projections.tables import ALL, PROJECTED
from poweron_projections.verify import catch_up, verify
from poweron_services.experiments.sandbox.servers import until

EVENTS, LEDGER = topics.EVENTS.name, topics.LEDGER.name
SUBTREE = 256  # entries under a hash that the rows keep

CELLS = {
    "offsets": ("next_offset", "1000000"),
    "records": ("verdict", "'superseded'"),
    "workflows": ("status", "'failed'"),
    "rounds": ("message", "'43'"),
    "tasks": ("criteria_progress", "'[1]'"),
    "steps": ("parameters", "'{\"a\": 1}'"),
    "messages": ("summary", "'Read no document.'"),
    "documents": ("content", "'00'"),
    "usage": ("input_tokens", "1"),
    "requests": ("answer", "'refused'"),
    "dead_letters": ("reason", "'no reason'"),
    "policies": ("name", "'another'"),
    "instances": ("ended_ms", "1"),
    "ledger_entries": ("kind", "'key'"),
    "ledger_subtrees": ("hash", "'\\x00'"),
    "ledger_positions": ("next_offset", "1000000"),
    "ledger_checkpoints": ("note", "'none'"),
}
"""A column of each table and what is planted in it."""

HUGE = bytes.fromhex("28b52ffde0") + (2**40).to_bytes(8, "little")
"""The header of a Zstandard frame that says that it holds a terabyte (RFC 8878, 3.1.1)."""


@pytest.fixture
async def filled(log: MemoryLog, pool: Pool) -> None:
    """At least two rows in every table, of an open and an ended workflow."""
    open_ = Told("2").tell(
        requested("2"), planned(), *step(1), reviewed(), completed(), follow_up(2, "3"), planned(1, 2)
    )
    open_.tell(*step(1, round_number=2)[:-1])
    ended = Process("host-1-a").tell(instance_started("host-1-a"), instance_ended("host-1-a"))
    killed = Process("host-2-b").tell(instance_started("host-2-b"))
    for told in (typical("1"), open_, two_policies(), ended, killed):
        await log.append(EVENTS, told.messages)
        log.write(EVENTS, told.id.encode(), b"no event")
    for partition in range(2):
        log.write(LEDGER, b"ledger", codec.dumps({"kind": "reject", "part": partition, "off": 0}))
        log.write(topics.CHECKPOINTS.name, b"ledger", b"no checkpoint")
    for _ in range(2 * SUBTREE):
        log.write(LEDGER, b"ledger", b"no entry")
    await catch_up(log, pool)


async def run(pool: Pool, statement: str) -> None:
    async with acquire(pool) as connection:
        await connection.execute(statement)


async def only_difference(log: MemoryLog, pool: Pool) -> Difference:
    found = await verify(log, pool)
    assert len(found.differences) == 1, found.differences
    return found.differences[0]


def test_a_cell_is_planted_in_every_table() -> None:
    assert CELLS.keys() == {table.name for table in ALL}


@pytest.mark.req("H-04")
@pytest.mark.usefixtures("filled")
async def test_rows_that_the_projector_made_have_no_difference(log: MemoryLog, pool: Pool) -> None:
    found = await verify(log, pool)
    assert (found.events, found.differences) == (16 + 17 + 2 + 2 + 1 + 5, [])


@pytest.mark.req("E-01")
@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
@pytest.mark.usefixtures("filled")
async def test_a_changed_cell_is_named(log: MemoryLog, pool: Pool, table) -> None:
    column, value = CELLS[table.name]
    place = await one_row(pool, table)
    await run(pool, f"UPDATE {table.name} SET {column} = {value} WHERE {place}")
    found = await only_difference(log, pool)
    assert (found.table, found.column) == (table.name, column)
    assert found.expected != found.found
    assert set(found.key) == set(table.key)


@pytest.mark.req("E-01")
@pytest.mark.parametrize("table", PROJECTED, ids=lambda table: table.name)
@pytest.mark.usefixtures("filled")
async def test_a_missing_row_is_named(log: MemoryLog, pool: Pool, table) -> None:
    await run(pool, f"DELETE FROM {table.name} WHERE {await one_row(pool, table)}")
    found = await only_difference(log, pool)
    assert (found.table, found.column, found.found) == (table.name, None, None)
    assert set(found.key) == set(table.key)
    assert found.expected is not None


@pytest.mark.req("E-01")
@pytest.mark.parametrize("table", PROJECTED, ids=lambda table: table.name)
@pytest.mark.usefixtures("filled")
async def test_an_extra_row_is_named(log: MemoryLog, pool: Pool, table) -> None:
    """A copy of a row under another key."""
    new = {
        "records": "log_offset + 1000000 AS log_offset, gen_random_uuid() AS workflow_id",
        "dead_letters": "log_offset + 9 AS log_offset",
        "ledger_entries": "place + 1000000 AS place",
        "ledger_subtrees": "place + 1000 AS place",
        "ledger_positions": "partition + 9 AS partition",
        "ledger_checkpoints": "log_offset + 9 AS log_offset",
    }
    new |= {"workflows": "gen_random_uuid() AS workflow_id", "requests": "source || '2' AS source"}
    changed = new.get(table.name, "gen_random_uuid() AS workflow_id")
    names = [part.rpartition(" ")[2] for part in changed.split(", ")]
    columns = ", ".join(f"changed.{name}" if name in names else f"{table.name}.{name}" for name in table.columns)
    await run(
        pool,
        f"INSERT INTO {table.name} SELECT {columns} FROM {table.name}, LATERAL (SELECT {changed}) changed "
        f"WHERE {await one_row(pool, table)}",
    )
    found = await only_difference(log, pool)
    assert (found.table, found.column, found.expected) == (table.name, None, None)
    assert found.found is not None


async def one_row(pool: Pool, table) -> str:
    """A condition that exactly one row of the table fulfils, not the first one; of `offsets`, one of the events."""
    after = 2 if table.name == "offsets" else 1
    async with acquire(pool) as connection:
        row = await connection.fetchrow(
            f"SELECT {', '.join(f'{column}::text' for column in table.key)} FROM {table.name} "
            f"ORDER BY {', '.join(table.key)} LIMIT 1 OFFSET {after}"
        )
    assert row is not None, f"{table.name} needs two rows"
    return " AND ".join(f"{table.name}.{column}::text = '{value}'" for column, value in row.items())


@pytest.mark.req("E-01")
@pytest.mark.parametrize(
    "damaged",
    [
        f"'\\x{compress(b'{}').hex()}'",
        "'no bytes of Zstandard'",
        f"'\\x{HUGE.hex()}'",
        "compressed || '\\x00'",
        "substr(compressed, 1, length(compressed) - 1)",
        "NULL",
    ],
    ids=["other bytes", "no frame", "a frame of a terabyte", "one byte more", "one byte less", "nothing"],
)
@pytest.mark.usefixtures("filled")
async def test_damaged_bytes_of_a_record_are_named(log: MemoryLog, pool: Pool, damaged: str) -> None:
    await run(pool, f"UPDATE records SET compressed = {damaged} WHERE {await one_row(pool, RECORDS)}")
    found = await only_difference(log, pool)
    assert (found.table, found.column) == ("records", "compressed")
    assert found.expected != found.found


@pytest.mark.req("E-01")
@pytest.mark.usefixtures("filled")
async def test_a_record_whose_bytes_and_digest_were_exchanged_is_named(log: MemoryLog, pool: Pool) -> None:
    exchanged = f"compressed = '\\x{compress(b'{}').hex()}', sha256 = sha256('{{}}')"
    await run(pool, f"UPDATE records SET {exchanged} WHERE {await one_row(pool, RECORDS)}")
    found = await only_difference(log, pool)
    assert (found.table, found.column) == ("records", "sha256")


@pytest.mark.usefixtures("filled")
async def test_more_damaged_records_than_anybody_reads_are_not_all_named(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "MAX_DIFFERENCES", 3)
    await run(pool, "UPDATE records SET compressed = 'no frame'")
    assert len((await verify(log, pool)).differences) == 3


@pytest.mark.usefixtures("filled")
async def test_damaged_records_are_named_and_mended_by_a_rebuild(log: MemoryLog, pool: Pool) -> None:
    await run(pool, f"UPDATE records SET compressed = 'no frame' WHERE {await one_row(pool, RECORDS)}")
    rebuilt = await rebuild(log, pool)
    assert [(each.table, each.column, each.found) for each in rebuilt.differences or ()] == [
        ("records", "compressed", None)
    ]
    assert (await verify(log, pool)).differences == []


@pytest.mark.usefixtures("filled")
async def test_rows_that_cannot_go_on_from_a_damaged_record_are_named_and_mended(log: MemoryLog, pool: Pool) -> None:
    """The projector folds an open round from its records when it begins anew."""
    open_ = Told("3").tell(requested("3"), planned())
    await log.append(EVENTS, open_.messages)
    await catch_up(log, pool)
    await run(pool, f"UPDATE records SET compressed = 'no frame' WHERE workflow_id = '{open_.id}' AND seq = 1")
    told = len(open_.messages)
    open_.tell(*step(1))
    await log.append(EVENTS, open_.messages[told:])
    assert ("records", "compressed") in [(each.table, each.column) for each in (await verify(log, pool)).differences]
    assert (await rebuild(log, pool)).differences
    assert (await verify(log, pool)).differences == []


def test_with_another_dictionary_the_tables_have_another_version() -> None:
    """A row is read by the dictionary that it was written by, so tables of another one have to be rebuilt."""
    dictionary = resources.files("poweron_projections").joinpath(DICTIONARY_FILE).read_bytes()
    assert (migrations.VERSION, hashlib.sha256(dictionary).hexdigest()) == (
        18,
        "c298371f00e5ad8eaab9e66527366393110c7b5e38f2f2b9ab7d40e567173c26",
    )


@pytest.mark.usefixtures("filled")
async def test_the_same_bytes_compressed_in_another_way_are_no_difference(log: MemoryLog, pool: Pool) -> None:
    """As another version of Zstandard may do it."""
    async with acquire(pool) as connection:
        for row in await connection.fetch("SELECT partition, log_offset, compressed FROM records"):
            otherwise = ZstdCompressor(level=19).compress(decompress(row["compressed"]))
            assert otherwise != row["compressed"]
            await connection.execute(
                "UPDATE records SET compressed = $3 WHERE partition = $1 AND log_offset = $2", *row[:2], otherwise
            )
    assert (await verify(log, pool)).differences == []


@pytest.mark.req("E-01")
@pytest.mark.usefixtures("filled")
async def test_an_offset_set_back_is_named(log: MemoryLog, pool: Pool) -> None:
    partition = log.partition_of(EVENTS, Told("1").id.encode())
    await run(pool, f"UPDATE offsets SET next_offset = 3 WHERE topic = '{EVENTS}' AND partition = {partition}")
    found = await only_difference(log, pool)
    assert (found.table, found.column, found.found) == ("offsets", "next_offset", 3)


@pytest.mark.usefixtures("filled")
async def test_verifying_leaves_nothing_behind(log: MemoryLog, pool: Pool) -> None:
    before = await contents(pool)
    await verify(log, pool)
    await verify(log, pool)
    assert await contents(pool) == before
    async with acquire(pool) as connection:
        assert (
            await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname = 'steps' AND relpersistence = 't'")
            == 0
        )


@pytest.mark.req("H-04")
@pytest.mark.usefixtures("filled")
async def test_tables_that_a_rebuild_exchanges_meanwhile_are_compared_as_they_are_then(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilding: list[asyncio.Task[Rebuilt]] = []

    async def late(*arguments: Any, **options: Any) -> list[Difference]:
        if not rebuilding:
            before = await tables_of(pool)
            rebuilding.append(asyncio.create_task(rebuild(log, pool)))
            await until(partial(are_others_than, before, pool), 0.01)
        return await differences(*arguments, **options)

    monkeypatch.setattr("poweron_projections.verify.differences", late)
    assert (await verify(log, pool)).differences == []
    assert (await rebuilding[0]).differences == []


async def tables_of(pool: Pool) -> int:
    async with acquire(pool) as connection:
        oid: int = await connection.fetchval("SELECT to_regclass('offsets')::oid")
        return oid


async def are_others_than(before: int, pool: Pool) -> bool:
    return await tables_of(pool) != before


async def test_verifying_first_brings_the_rows_to_the_ends(log: MemoryLog, pool: Pool) -> None:
    await log.append(EVENTS, typical().messages)
    found = await verify(log, pool)
    assert (found.events, found.differences) == (16, [])
