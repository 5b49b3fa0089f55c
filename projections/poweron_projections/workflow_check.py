"""Check the rows of one workflow: its records against the log, and its other rows against the fold of those records.

Digests in Postgres prove nothing against someone who can write there, so the bytes are read from the log. The rows say
at which offsets; offsets of the partition without a row are read too, and show records whose rows were deleted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import orjson

from poweron_events import topics
from poweron_events.errors import Conflict, LogLost, Refused
from poweron_events.log import EventLog, Record
from poweron_projections.audit.ledger_rows import ENTRIES
from poweron_projections.connection import Connection, Pool, acquire, cells, schema_of
from poweron_projections.folder import LocalFolder
from poweron_projections.offsets import OFFSETS
from poweron_projections.projection import View
from poweron_projections.reader import StoredRecord, stored_record
from poweron_projections.records import RECORDS, DamagedRecord, decompress, digest
from poweron_projections.shadow import Difference
from poweron_projections.table_spec import Row, Table
from poweron_projections.tables import PROJECTED

EVENTS: Final = topics.EVENTS.name
TABLES: Final = tuple(table for table in PROJECTED if "workflow_id" in table.columns and table != ENTRIES)
"""The tables whose rows follow from the events of a workflow; entries of the ledger follow from its topic."""
NEAR: Final = 1_000  # up to this many other records between two of a workflow are read, not skipped
ATTEMPTS: Final = 3  # to read the rows while rebuilds exchange the tables
SHOWN: Final = 120  # characters of a value

_SCHEMA: Final = "SELECT oid FROM pg_namespace WHERE nspname = $1"
_POSITION: Final = "SELECT next_offset FROM offsets WHERE topic = $1 AND partition = $2"
_COUNT: Final = "SELECT count(*) FROM records WHERE partition = $1 AND log_offset >= $2 AND log_offset < $3"
_GAPS: Final = """
SELECT log_offset + 1 AS first, next
  FROM (SELECT log_offset, lead(log_offset, 1, $3::bigint) OVER (ORDER BY log_offset) AS next
          FROM (SELECT $2::bigint - 1 AS log_offset
                 UNION ALL
                SELECT log_offset FROM records WHERE partition = $1 AND log_offset >= $2 AND log_offset < $3) known
       ) following
 WHERE next > log_offset + 1
"""

Cells = dict[str, Any]


class RowsDiffer(Refused):
    """Rows in Postgres are not what the log says."""

    code = "rows_differ"

    def __init__(self, differences: Sequence[Difference], workflow_id: str | None = None) -> None:
        """`workflow_id` is None if the rows of all workflows were compared."""
        which = f"The rows of workflow {workflow_id}" if workflow_id else "Rows in Postgres"
        more = f", and there are {len(differences) - 1:,} more differences" if len(differences) > 1 else ""
        super().__init__(f"{which} are not what the log says: {described(differences[0])}{more}")
        self.differences = differences


class RowsMissing(Refused):
    """The log holds records of a workflow, but Postgres has no rows for them."""

    code = "rows_missing"

    def __init__(self, workflow_id: str, records: int) -> None:
        super().__init__(f"The log holds {records:,} records of workflow {workflow_id}, but its rows are missing")


class _Rows(NamedTuple):
    """The rows of one workflow at one moment."""

    position: int
    """The offset in the partition before which records have rows."""
    tables: Mapping[str, Sequence[Cells]]
    gaps: Sequence[range]
    """Offsets of the partition without a row."""

    @property
    def is_empty(self) -> bool:
        return not any(self.tables.values())


def described(found: Difference) -> str:
    """Describe a difference in words: which row, which column, and both values."""
    place = f"{found.table} ({', '.join(f'{name} {value}' for name, value in found.key.items())})"
    if found.column is None:
        return f"{place}: the row {'is missing' if found.found is None else 'should not be there'}"
    return f"{place}, column {found.column}: expected {_shown(found.expected)}, found {_shown(found.found)}"


def _shown(value: object) -> str:
    said = repr(value)
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"


async def checked_records(log: EventLog, pool: Pool, workflow_id: str) -> list[StoredRecord]:
    """Compare all rows of a workflow with the log, and return its records, oldest first; none if it has none.

    While the log is lost, the rows are compared with the fold of the records that they hold themselves.

    Raises:
        RowsDiffer: a row, a column or a record is not what the log says.
        RowsMissing: the log holds the workflow, but the rows do not.
        Unavailable: the log or Postgres cannot be reached.
    """
    partition = log.partition_of(EVENTS, workflow_id.encode())
    rows = await _read_rows(pool, partition, workflow_id)
    try:
        end = (await log.ends(EVENTS))[partition]
    except LogLost:
        records = _held_records(workflow_id, rows)
    else:
        _expect_position(workflow_id, partition, rows.position, end)
        records = await _log_records(log, partition, workflow_id, rows)
    if records and rows.is_empty:
        raise RowsMissing(workflow_id, len(records))
    if differences := await _differences(workflow_id, rows, records):
        raise RowsDiffer(differences, workflow_id)
    return [stored_record(row) for row in rows.tables[RECORDS.name]]


def _expect_position(workflow_id: str, partition: int, position: int, end: int) -> None:
    if position > end:
        key = {"topic": EVENTS, "partition": partition}
        raise RowsDiffer([Difference(OFFSETS.name, key, "next_offset", end, position)], workflow_id)


# --- the rows -----------------------------------------------------------------------------------------


async def _read_rows(pool: Pool, partition: int, workflow_id: str) -> _Rows:
    """Read the rows at one moment, all of them from the same tables."""
    async with acquire(pool) as connection:
        schema = await schema_of(connection)
        for _ in range(ATTEMPTS):
            before = await connection.fetchval(_SCHEMA, schema)
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                rows = await _rows(connection, partition, workflow_id)
            if await connection.fetchval(_SCHEMA, schema) == before:
                return rows
    raise Conflict("The rows are being rebuilt again and again; try again once that is done")


async def _rows(connection: Connection, partition: int, workflow_id: str) -> _Rows:
    position = await connection.fetchval(_POSITION, EVENTS, partition) or 0
    tables = {}
    for table in TABLES:
        order = "seq" if table is RECORDS else ", ".join(table.key)
        query = f"SELECT * FROM {table.name} WHERE workflow_id = $1::uuid ORDER BY {order}"  # noqa: S608 - our own names
        found = await connection.fetch(query, workflow_id)
        tables[table.name] = [cells(row, table.columns) | {"workflow_id": workflow_id} for row in found]
    first = _first(tables[RECORDS.name], partition)
    gaps: list[range] = []
    if await connection.fetchval(_COUNT, partition, first, position) < position - first:
        gaps = [range(*row) for row in await connection.fetch(_GAPS, partition, first, position)]
    return _Rows(position, tables, gaps)


def _first(records: Sequence[Cells], partition: int) -> int:
    """Return the offset where the workflow's records can begin: that of the first one, if the rows hold it, else 0."""
    return next((row["log_offset"] for row in records if row["seq"] == 0 and row["partition"] == partition), 0)


# --- the records --------------------------------------------------------------------------------------


async def _log_records(log: EventLog, partition: int, workflow_id: str, rows: _Rows) -> list[Record]:
    """Return the workflow's records in the log, up to the position of the rows."""
    held = [row["log_offset"] for row in rows.tables[RECORDS.name] if row["partition"] == partition]
    places = [*(range(offset, offset + 1) for offset in held if 0 <= offset < rows.position), *rows.gaps]
    key, records = workflow_id.encode(), list[Record]()
    for part in _merged(places):
        async with aclosing(log.read(EVENTS, {partition: part.start}, {partition: part.stop})) as read:
            async for batch in read:
                records += [record for record in batch if record.key == key]
    return records


def _merged(places: Iterable[range]) -> Iterator[range]:
    """Yield the ranges in order, merging those that are close to one another."""
    merged: range | None = None
    for place in sorted(places, key=lambda each: each.start):
        if merged is not None and place.start - merged.stop <= NEAR:
            merged = range(merged.start, max(merged.stop, place.stop))
            continue
        if merged is not None:
            yield merged
        merged = place
    if merged is not None:
        yield merged


def _held_records(workflow_id: str, rows: _Rows) -> list[Record]:
    """Return the workflow's records as the rows hold them."""
    for row in map(_with_digests, rows.tables[RECORDS.name]):
        if row["compressed"] != row["sha256"]:
            key = {name: row[name] for name in RECORDS.key}
            damaged = Difference(RECORDS.name, key, "compressed", row["sha256"], row["compressed"])
            raise RowsDiffer([damaged], workflow_id)
    return [stored_record(row).log_record(workflow_id) for row in rows.tables[RECORDS.name]]


# --- the comparison -----------------------------------------------------------------------------------


async def _differences(workflow_id: str, rows: _Rows, records: Sequence[Record]) -> list[Difference]:
    changes = await LocalFolder().fold(records, _no_views)
    differences: list[Difference] = []
    for table in TABLES:
        made = (*changes.new.get(table.name, ()), *changes.replacing.get(table.name, ()))
        expected = [_expected(table, row) for row in made]
        found = [_found(table, row) for row in rows.tables[table.name]]
        differences += _compared(table, [row for row in expected if row["workflow_id"] == workflow_id], found)
    return differences


async def _no_views(_: Collection[str]) -> Mapping[str, View]:
    """Look up nothing: the fold begins with the first record, so no row is needed."""
    return {}


def _expected(table: Table, row: Row) -> Cells:
    """Return a folded row with its JSON as values."""
    made = dict(zip(table.columns, row, strict=True))
    made |= {column: orjson.loads(made[column]) for column in table.json_columns if made[column] is not None}
    return _with_digests(made) if table is RECORDS else made


def _found(table: Table, row: Cells) -> Cells:
    return _with_digests(row) if table is RECORDS else row


def _with_digests(row: Cells) -> Cells:
    """Return a record's row that can be compared and shown: with the digest of its bytes instead of them."""
    try:
        of_bytes = None if row["compressed"] is None else digest(decompress(row["compressed"])).hex()
    except DamagedRecord:
        of_bytes = None
    ids = {name: None if row[name] is None else str(row[name]) for name in ("event_id", "causation_id")}
    return row | ids | {"compressed": of_bytes, "sha256": row["sha256"].hex()}


def _compared(table: Table, expected: Iterable[Cells], found: Iterable[Cells]) -> Iterator[Difference]:
    made, held = ({tuple(row[name] for name in table.key): row for row in rows} for rows in (expected, found))
    for key in (*made, *(key for key in held if key not in made)):
        named = dict(zip(table.key, key, strict=True))
        if key not in made or key not in held:
            yield Difference(table.name, named, None, made.get(key), held.get(key))
            continue
        for column, value in made[key].items():
            if not _same(value, held[key][column]):
                yield Difference(table.name, named, column, value, held[key][column])


def _same(one: object, other: object) -> bool:
    """Return whether two values are equal as JSON, where 1 is not true."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case bool(), _:
            return one is other
        case _, bool():
            return False
        case _:
            return one == other
