"""Verify: check cell by cell that the rows are what the log adds up to.

First, the rows catch up with the log. Then `verify` folds the log from scratch, with the functions that the projector
uses, into temporary tables, and Postgres compares these with the live ones. All of this is one repeatable-read
transaction that is always rolled back: a running projector continues, and a killed process leaves nothing behind. If
a rebuild exchanges the tables meanwhile, `verify` compares the new ones.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from poweron_events.errors import Conflict
from poweron_events.log import EventLog
from poweron_projections.connection import Connection, Pool, acquire, schema_of
from poweron_projections.migrations import create_tables
from poweron_projections.rebuild import rebuild
from poweron_projections.records import DamagedRecord
from poweron_projections.rows import RowWriter
from poweron_projections.shadow import (
    BESIDE_EVENTS,
    EVENTS,
    Difference,
    Ends,
    OnRead,
    ReadCount,
    Shadow,
    damaged_records,
    differences,
    ends_of,
    ignore_progress,
    live_ends,
)


async def catch_up(log: EventLog, pool: Pool, ends: Mapping[int, int] | None = None) -> None:
    """Bring the rows to the ends of all topics; of `poweron.events` to these ends, by default the current ones.

    Waits for a running projector for as long as it makes progress; if none is running, does the projection itself.
    Tables of an older release are rebuilt first.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
        Conflict: there is no progress: the offsets do not account for some rows; a rebuild fixes that.
    """
    renew = partial(rebuild, log, pool)
    await RowWriter(log, pool, EVENTS, renew=renew).catch_up(await log.ends(EVENTS) if ends is None else ends)
    for topic in BESIDE_EVENTS:
        await RowWriter(log, pool, topic, renew=renew).catch_up(await log.ends(topic))


_TABLES: Final = "SELECT oid FROM pg_namespace WHERE nspname = $1"


_INDEXES: Final = """
SELECT indexrelid::regclass::text AS name
  FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
 WHERE relnamespace = pg_my_temp_schema() AND relkind = 'r' AND NOT indisunique
"""


@dataclass(frozen=True, slots=True)
class Verified:
    """How many records were folded, and where the rows differ from them."""

    events: int
    differences: Sequence[Difference]


async def verify(log: EventLog, pool: Pool, on_read: OnRead = ignore_progress) -> Verified:
    """Compare every row with the log, at its current ends or later; `on_read` receives the progress.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
    """
    seen = await ends_of(log)
    with suppress(Conflict, DamagedRecord):  # no writer can continue from the rows: the differences say why
        await catch_up(log, pool, seen[EVENTS])
    async with acquire(pool) as connection:
        schema = await schema_of(connection)
        while True:
            tables = await connection.fetchval(_TABLES, schema)
            verified = await _compare(log, connection, schema, seen, on_read)
            if await connection.fetchval(_TABLES, schema) == tables:
                return verified


async def first_difference(log: EventLog, pool: Pool) -> str:
    """Return which row differs from the log; nothing if none does.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
    """
    for difference in (await verify(log, pool)).differences:
        return f"{difference.table} {difference.key} differs from the log"
    return ""


async def _compare(log: EventLog, connection: Connection, schema: str, seen: Ends, on_read: OnRead) -> Verified:
    transaction = connection.transaction(isolation="repeatable_read")
    await transaction.start()
    try:
        ends = await live_ends(log, connection, schema, seen)
        await connection.execute("SET LOCAL search_path TO pg_temp")
        await create_tables(connection)
        for index in await connection.fetch(_INDEXES):  # what is compared once needs none of them
            await connection.execute(f"DROP INDEX {index['name']}")
        await Shadow(log, connection, tells=False, count=ReadCount(on_read)).fill(ends)
        found = [
            *await differences(connection, expected="pg_temp", found=schema),
            *await damaged_records(connection, expected="pg_temp", found=schema),
        ]
    finally:
        await transaction.rollback()
    return Verified(sum(ends[EVENTS].values()), found)
