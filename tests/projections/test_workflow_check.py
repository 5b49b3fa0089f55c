"""The check of one workflow finds whatever was changed in its rows, also where digests were changed along."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from histories import histories
from hypothesis import given, settings
from tables import on_one_database, wipe

from builders import Told, completed, follow_up, planned, requested, reviewed, step, typical
from poweron_events import topics
from poweron_events.errors import LogLost
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_projections.connection import Pool, acquire
from poweron_projections.reader import StoredRecord, stored_records
from poweron_projections.records import compress
from poweron_projections.table_spec import Table
from poweron_projections.verify import catch_up
from poweron_projections.workflow_check import TABLES, RowsDiffer, RowsMissing, checked_records

EVENTS = topics.EVENTS.name

OTHER = {
    "uuid": "gen_random_uuid()",
    "integer": "coalesce({0}, 0) + 1000",
    "bigint": "coalesce({0}, 0) + 1000",
    "text": "coalesce({0}, '') || 'x'",
    "boolean": "NOT coalesce({0}, FALSE)",
    "bytea": "coalesce({0}, '') || '\\x00'",
    "jsonb": "'[{{\"try\": true}}]'",
}
"""Another value of a column, by its type."""


OF_WORKFLOWS = [table for table in TABLES if table.name not in ("policies", "instances")]


def told() -> Told:
    """An open workflow with a row in every table."""
    story = Told("2").tell(
        requested("2"), planned(), *step(1), reviewed(), completed(), follow_up(2, "3"), planned(1, 2)
    )
    return story.tell(*step(1, round_number=2)[:-1])


ID = told().id


@pytest.fixture
async def filled(log: MemoryLog, pool: Pool) -> None:
    """Two workflows whose records alternate, and records that are no events."""
    for pair in zip(told().messages, typical("1").messages, strict=False):
        await log.append(EVENTS, pair)
    await log.append(EVENTS, told().messages[16:])
    log.write(EVENTS, ID.encode(), b"no event")
    await catch_up(log, pool)


async def run(pool: Pool, statement: str, *arguments: Any) -> None:
    async with acquire(pool) as connection:
        await connection.execute(statement, *arguments)


async def difference(log: MemoryLog, pool: Pool) -> RowsDiffer:
    with pytest.raises(RowsDiffer) as raised:
        await checked_records(log, pool, ID)
    return raised.value


@pytest.mark.req("H-04")
@pytest.mark.usefixtures("filled")
async def test_rows_that_the_projector_made_are_what_the_log_says(log: MemoryLog, pool: Pool) -> None:
    for id_ in (ID, typical("1").id):
        assert await checked_records(log, pool, id_) == await stored_records(pool, id_)


@pytest.mark.usefixtures("filled")
async def test_any_other_cell_and_a_missing_row_are_found(log: MemoryLog, pool: Pool) -> None:
    """Of the last row of each table, one cell at a time."""
    for table in OF_WORKFLOWS:
        types = await column_types(pool, table)
        await run(pool, f"CREATE TABLE kept AS TABLE {table.name}")
        last = f"ctid = (SELECT max(ctid) FROM {table.name} WHERE workflow_id = '{ID}')"
        for column in table.columns:
            await run(pool, f"UPDATE {table.name} SET {column} = {OTHER[types[column]].format(column)} WHERE {last}")
            found = await difference(log, pool)
            if column != "workflow_id":
                assert table.name in {each.table for each in found.differences}, (table.name, column)
            if column not in table.key and column != "workflow_id":
                assert {each.column for each in found.differences} == {column}
                assert column in str(found)
            await run(pool, f"DELETE FROM {table.name}; INSERT INTO {table.name} TABLE kept")
        await run(pool, f"DELETE FROM {table.name} WHERE {last}")
        missing = await difference(log, pool)
        assert [(each.table, each.column, each.found) for each in missing.differences] == [(table.name, None, None)]
        await run(pool, f"DELETE FROM {table.name}; INSERT INTO {table.name} TABLE kept; DROP TABLE kept")


async def column_types(pool: Pool, table: Table) -> dict[str, str]:
    query = "SELECT attname, format_type(atttypid, NULL) AS type FROM pg_attribute WHERE attrelid = to_regclass($1)"
    async with acquire(pool) as connection:
        return {row["attname"]: row["type"] for row in await connection.fetch(query, table.name)}


EXTRA = {"requests": "id = id || '2'", "records": "log_offset = log_offset + 1000, seq = 99"}
"""What makes a copy of a row another one; for other tables, the last column of the key is counted on."""


@pytest.mark.usefixtures("filled")
async def test_an_extra_row_is_found(log: MemoryLog, pool: Pool) -> None:
    for table in OF_WORKFLOWS:
        if table.name == "workflows":
            continue  # has one row for each workflow
        changed = EXTRA.get(table.name, f"{table.key[-1]} = {table.key[-1]} + 1000")
        await run(
            pool,
            f"CREATE TABLE extra AS SELECT * FROM {table.name} WHERE workflow_id = '{ID}' LIMIT 1;"
            f"UPDATE extra SET {changed}; INSERT INTO {table.name} TABLE extra",
        )
        found = await difference(log, pool)
        assert [(each.table, each.column, each.expected) for each in found.differences] == [(table.name, None, None)]
        key = ", ".join(table.key)
        await run(pool, f"DELETE FROM {table.name} WHERE ({key}) IN (SELECT {key} FROM extra); DROP TABLE extra")


def forged(value: bytes) -> bytes:
    return value.replace(b"tenant", b"landlord").replace(b"42", b"43")


@pytest.mark.usefixtures("filled")
async def test_bytes_that_were_changed_with_their_digest_are_found_in_the_log(log: MemoryLog, pool: Pool) -> None:
    record = next(each for each in await stored_records(pool, ID) if forged(each.value) != each.value)
    value = forged(record.value)
    await run(
        pool,
        "UPDATE records SET compressed = $3, sha256 = $4 WHERE workflow_id = $1::uuid AND seq = $2",
        *(ID, record.seq, compress(value), hashlib.sha256(value).digest()),
    )
    found = await difference(log, pool)
    assert {each.column for each in found.differences} == {"compressed", "sha256"}
    place = f"records (partition {record.partition}, log_offset {record.offset})"
    assert f"The rows of workflow {ID} are not what the log says: {place}, column sha256: expected" in str(found)


async def all_rows_of(pool: Pool, statement: Callable[[str], str]) -> None:
    for table in TABLES:
        await run(pool, statement(table.name))


@pytest.mark.usefixtures("filled")
async def test_a_workflow_whose_rows_were_deleted_is_missing_and_an_unknown_one_is_not(
    log: MemoryLog, pool: Pool
) -> None:
    await all_rows_of(pool, lambda table: f"DELETE FROM {table} WHERE workflow_id = '{ID}'")
    with pytest.raises(RowsMissing, match=f"The log holds 17 records of workflow {ID}, but its rows are missing"):
        await checked_records(log, pool, ID)
    assert await checked_records(log, pool, Told("unknown").id) == []


@pytest.mark.usefixtures("filled")
async def test_a_workflow_that_was_cut_at_its_end_is_found(log: MemoryLog, pool: Pool) -> None:
    """Its rows are those that a shorter log would have made, and the offsets those of the whole log."""
    shorter = MemoryLog()
    await shorter.append(EVENTS, told().messages[:10])
    await all_rows_of(pool, lambda table: f"TRUNCATE {table}")
    await run(pool, "CREATE TABLE kept AS TABLE offsets; TRUNCATE offsets")
    await catch_up(shorter, pool)
    await run(pool, "TRUNCATE offsets; INSERT INTO offsets TABLE kept")
    found = await difference(log, pool)
    assert {each.table for each in found.differences} >= {"records", "workflows"}


@pytest.mark.usefixtures("filled")
async def test_an_offset_behind_the_end_of_the_log_is_found(log: MemoryLog, pool: Pool) -> None:
    await run(pool, "UPDATE offsets SET next_offset = next_offset + 1000 WHERE topic = $1", EVENTS)
    assert [each.column for each in (await difference(log, pool)).differences] == ["next_offset"]


class LostLog(MemoryLog):
    async def ends(self, topic: str) -> Any:
        raise LogLost("The log is shorter than it was")


@pytest.mark.usefixtures("filled")
async def test_while_the_log_is_lost_rows_are_compared_with_their_own_records(pool: Pool) -> None:
    records: list[StoredRecord] = await checked_records(LostLog(), pool, ID)
    assert len(records) == 17
    await run(pool, f"UPDATE messages SET summary = 'x' WHERE workflow_id = '{ID}'")
    assert (await difference(LostLog(), pool)).differences[0].column == "summary"
    await run(pool, f"UPDATE records SET compressed = 'x' WHERE workflow_id = '{ID}' AND seq = 3")
    assert (await difference(LostLog(), pool)).differences[0].column == "compressed"


@settings(on_one_database, max_examples=4)
@given(messages=histories())
async def test_rows_of_any_history_are_what_the_log_says(pool: Pool, messages: list[Message]) -> None:
    await wipe(pool)
    log = MemoryLog()
    await log.append(EVENTS, messages)
    await catch_up(log, pool)
    for key in {message.key.decode() for message in messages}:
        assert await checked_records(log, pool, key) == await stored_records(pool, key)
