"""The views of rows as Parquet: a folder for each view, and a file for each day on which workflows were opened.

A day is written again only if one of its workflows has a new record, so a second export writes only what is new.
Postgres writes the rows as CSV and DuckDB reads them, both without creating a Python object for each cell.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from poweron_events.errors import Refused
from poweron_projections import bi
from poweron_projections.connection import Connection, Pool, schema_of, snapshot

STATE: Final = "poweron-export.json"
OF_WORKFLOWS: Final = ("workflows", "rounds", "tasks", "steps", "model_calls", "action_tries", "documents", "approvals")
INTERRUPTED_EVERY: Final = 0.1  # seconds
EPOCH: Final = date(1970, 1, 1).toordinal()

_TYPES: Final = {
    "uuid": "UUID",
    "text": "VARCHAR",
    "boolean": "BOOLEAN",
    "integer": "BIGINT",
    "bigint": "BIGINT",
    "numeric": "DECIMAL(20, 9)",
    "timestamp with time zone": "TIMESTAMPTZ",
}
_MARKS: Final = """
SELECT to_timestamp(opened_ms / 86400000 * 86400)::date AS day, COUNT(*) || '/' || SUM(seq) AS mark
  FROM workflows
 WHERE status <> 'no_workflow'
 GROUP BY 1
UNION ALL
SELECT to_timestamp(time_ms / 86400000 * 86400)::date, 'dead ' || COUNT(*) FROM dead_letters GROUP BY 1
 ORDER BY 1, 2
"""
_COLUMNS: Final = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
 WHERE attrelid = to_regclass($1) AND attnum > 0 ORDER BY attnum
"""
_OF_WORKFLOWS: Final = """
SELECT to_timestamp(w.opened_ms / 86400000 * 86400)::date AS day, view.*
  FROM {view} AS view JOIN workflows AS w USING (workflow_id)
 WHERE w.opened_ms / 86400000 = ANY(ARRAY{days})
"""
_OF_DEAD_LETTERS: Final = """
SELECT told_at::date AS day, view.* FROM {view} AS view WHERE told_at::date - DATE '1970-01-01' = ANY(ARRAY{days})
"""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file: the rows of a view for one day."""

    view: str
    day: str
    rows: int
    path: Path


async def export(pool: Pool, folder: Path, since: date | None = None) -> AsyncIterator[WrittenFile]:
    """Write every day that has changed since it was last written; days before `since` are left alone.

    Raises:
        Refused: DuckDB is not installed, or the folder holds an export that cannot be read.
        Unavailable: Postgres cannot be reached.
    """
    database, state = _duckdb(), folder / STATE
    known = _known_days(state)
    async with snapshot(pool) as connection:
        await connection.execute("SET LOCAL TIME ZONE 'UTC'")
        marks = await _marks(connection)
        changes = {day: mark for day, mark in marks.items() if known.get(day) != mark}
        selection = {day: mark for day, mark in changes.items() if since is None or day >= since.isoformat()}
        for view in (*OF_WORKFLOWS, "dead_letters") if selection else ():
            for files in await _write(connection, database, view, list(selection), folder):
                yield files
    if selection:
        _replace(state, json.dumps({"biVersion": bi.VERSION, "days": known | selection}, indent=1).encode())


async def _marks(connection: Connection) -> Mapping[str, str]:
    """Return a mark for each day that every change alters, since records are only ever appended."""
    marks = dict[str, str]()
    for day, mark in await connection.fetch(_MARKS):
        marks[day.isoformat()] = " ".join(filter(None, (marks.get(day.isoformat()), mark)))
    return marks


async def _write(
    connection: Connection, database: Any, view: str, days: Sequence[str], folder: Path
) -> Sequence[WrittenFile]:
    """Write the files of one view, each moved into place once it is complete."""
    name = f"{bi.schema_beside(await schema_of(connection))}.{view}"
    numbers = [date.fromisoformat(day).toordinal() - EPOCH for day in days]
    query = (_OF_DEAD_LETTERS if view == "dead_letters" else _OF_WORKFLOWS).format(view=name, days=numbers)
    columns = {"day": "DATE"} | {column: _TYPES[kind] for column, kind in await connection.fetch(_COLUMNS, name)}
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        rows, target = Path(beside, "rows.csv"), Path(beside, "made")
        await connection.copy_from_query(query, output=rows, format="csv")
        counts = await _in_thread(database, rows, columns, target)
        return [_move(target, folder, view, day.isoformat(), count) for day, count in counts]


async def _in_thread(database: Any, rows: Path, columns: Mapping[str, str], target: Path) -> Sequence[tuple[date, int]]:
    """Write the files in a thread; if cancelled, wait until the thread has stopped writing."""
    writing = asyncio.ensure_future(asyncio.to_thread(_to_parquet, database, rows, columns, target))
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        while not writing.done():  # an interrupt between two statements has no effect
            database.interrupt()
            await asyncio.wait([writing], timeout=INTERRUPTED_EVERY)
        raise


def _move(source: Path, folder: Path, view: str, day: str, count: int) -> WrittenFile:
    target = folder / view / f"day={day}" / f"{view}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    next((source / f"day={day}").iterdir()).replace(target)
    return WrittenFile(view, day, count, target)


def _to_parquet(database: Any, rows: Path, columns: Mapping[str, str], target: Path) -> Sequence[tuple[date, int]]:
    """Write Parquet files by day, and return the number of rows of each."""
    options = (
        "header = false, auto_detect = false, delim = ',', quote = '\"', escape = '\"', allow_quoted_nulls = false"
    )
    source = f"read_csv({_quote(rows)}, {options}, columns = {dict(columns)})"
    database.execute(f"CREATE OR REPLACE TEMP TABLE rows AS FROM {source}")
    database.execute(f"COPY rows TO {_quote(target)} (FORMAT parquet, PARTITION_BY (day))")
    counts: Sequence[tuple[date, int]] = database.execute(
        "SELECT day, count(*) FROM rows GROUP BY day ORDER BY day"
    ).fetchall()
    return counts


def _quote(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _known_days(state: Path) -> dict[str, str]:
    state.parent.mkdir(parents=True, exist_ok=True)
    try:
        content = json.loads(state.read_bytes())
        return dict(content["days"]) if content["biVersion"] == bi.VERSION else {}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{state} cannot be read: delete it, and every day is written again") from error


def _replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def _duckdb() -> Any:
    try:
        import duckdb  # noqa: PLC0415 - an extra that most do without
    except ImportError as error:
        raise Refused(
            "an export needs DuckDB, which is not installed; `pip install 'poweron-services[bi]'` installs it"
        ) from error
    return duckdb.connect(config={"autoinstall_known_extensions": False, "threads": 1})
