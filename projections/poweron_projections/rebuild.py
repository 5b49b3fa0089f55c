"""Rebuild: make all rows from scratch from the log, compare them with the live ones, and put them in their place.

The rebuild fills the shadow beside the running projector. It locks the offsets only for the records that arrive in
the meantime, for the comparison and for the exchange; a writer then finds that its compare-and-set failed and
continues in the new tables.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from poweron_events.errors import Conflict
from poweron_events.log import EventLog
from poweron_projections import bi, migrations
from poweron_projections.connection import Connection, Pool, acquire, schema_of
from poweron_projections.records import DamagedRecord
from poweron_projections.rows import RowWriter
from poweron_projections.shadow import (
    BESIDE_EVENTS,
    DEAD_LETTERS,
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

_LOCK: Final = 5_796_104_318  # any number that no other lock uses

_HAS_ROWS: Final = "SELECT EXISTS (SELECT FROM offsets WHERE next_offset > 0)"
_HAS_OFFSETS: Final = "SELECT to_regclass($1) IS NOT NULL"
_HAS_SCHEMA: Final = "SELECT to_regnamespace($1) IS NOT NULL"
_COUNT: Final = "SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM dead_letters)"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild made, and where the rows that it replaced differed; None if they could not be compared."""

    events: int
    dead_letters: int
    differences: Sequence[Difference] | None


async def rebuild(log: EventLog, pool: Pool, on_read: OnRead = ignore_progress) -> Rebuilt:
    """Rebuild all rows and replace the live ones, regardless of their state; `on_read` receives the progress.

    Raises:
        Conflict: another process is rebuilding.
        Refused: the tables are of a newer release.
        Unavailable: the log or Postgres cannot be reached; the next rebuild discards what was begun.
    """
    async with acquire(pool) as connection, _alone(connection):
        seen = await ends_of(log)
        live = await schema_of(connection)
        comparable = await migrations.migrate(pool) and bool(await connection.fetchval(_HAS_ROWS))
        if comparable:
            with suppress(Conflict, DamagedRecord):  # no writer can continue from the live rows as they are
                await _catch_up(log, pool, seen)
        shadow = Shadow(log, connection, tells=True, count=ReadCount(on_read))
        made = f"{live}_shadow"
        await _begin(connection, made, f"{live}_replaced")
        await shadow.fill(seen)
        damaged = await damaged_records(connection, expected=made, found=live) if comparable else None
        return await _exchange(shadow, live, seen, damaged)


async def _catch_up(log: EventLog, pool: Pool, seen: Ends) -> None:
    """Bring the live rows to the position of the rows that they are compared with."""
    await RowWriter(log, pool, EVENTS, renew=_give_way).catch_up(seen[EVENTS])
    for topic in BESIDE_EVENTS:
        await RowWriter(log, pool, topic, renew=_give_way).catch_up(await log.ends(topic))


async def _give_way() -> None:
    raise Conflict("the tables are of an older release, though they were current when the rebuild began")


@asynccontextmanager
async def _alone(connection: Connection) -> AsyncGenerator[None, None]:
    try:
        if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
            raise Conflict("another process is rebuilding the rows; wait until it is done")
        yield
    finally:
        await connection.close()  # this also ends the lock and the search path


async def _begin(connection: Connection, shadow: str, replaced: str) -> None:
    """Create an empty shadow, and discard what a killed rebuild has left behind."""
    await connection.execute(f"DROP SCHEMA IF EXISTS {shadow}, {replaced} CASCADE")
    await connection.execute(f"CREATE SCHEMA {shadow}")
    await connection.execute(f"SET search_path TO {shadow}")
    async with connection.transaction():
        await migrations.create_tables(connection)


async def _exchange(shadow: Shadow, live: str, seen: Ends, damaged: Sequence[Difference] | None) -> Rebuilt:
    """Replace the live rows by the shadow; compare them first if `damaged` is not None."""
    connection = shadow.connection
    named: list[Difference] | None = None
    async with connection.transaction():
        await migrations.lock(connection)
        if await connection.fetchval(_HAS_OFFSETS, f"{live}.offsets"):
            await connection.execute(f"LOCK TABLE {live}.offsets IN EXCLUSIVE MODE")
            await shadow.fill(await live_ends(shadow.log, connection, live, seen))
        if damaged is not None:
            named = [*await differences(connection, expected=f"{live}_shadow", found=live), *damaged]
        await shadow.fill({DEAD_LETTERS: await shadow.log.ends(DEAD_LETTERS)})  # including those of this rebuild
        events, dead_letters = await connection.fetchrow(_COUNT) or (0, 0)
        if await connection.fetchval(_HAS_SCHEMA, live):
            await connection.execute(f"ALTER SCHEMA {live} RENAME TO {live}_replaced")
        await connection.execute(f"ALTER SCHEMA {live}_shadow RENAME TO {live}")
        await connection.execute(f"SET LOCAL search_path TO {live}")
        await bi.keep(connection, anew=True)
    await connection.execute(f"DROP SCHEMA IF EXISTS {live}_replaced CASCADE")
    return Rebuilt(events, dead_letters, named)
