"""The views of rows as Parquet, a folder for each view and a file for each day on which workflows were opened.

A day is written again only where one of its workflows has a record more, so a second export writes what is new. Postgres
writes the rows as CSV and DuckDB reads them, both without a Python object for each cell.
"""

import json
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from poweron_events.errors import Refused
from poweron_projections import bi
from poweron_projections.connection import Connection, Pool, schema_of, snapshot

STATE: Final = "poweron-export.json"
OF_WORKFLOWS: Final = ("workflows", "rounds", "tasks", "steps", "model_calls", "action_tries", "documents", "approvals")
DAY_MS: Final = 86_400_000

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
 GROUP BY 1
UNION ALL
SELECT to_timestamp(time_ms / 86400000 * 86400)::date, 'dead ' || COUNT(*) FROM dead_letters GROUP BY 1
 ORDER BY 1, 2
"""
_COLUMNS: Final = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
 WHERE attrelid = to_regclass($1) AND attnum > 0 ORDER BY attnum
"""
_OF_WORKFLOWS: Final = "SELECT view.* FROM {view} AS view JOIN workflows AS w USING (workflow_id) WHERE w.opened_ms >= {start} AND w.opened_ms < {end}"
_OF_DEAD_LETTERS: Final = "SELECT * FROM {view} WHERE told_at >= to_timestamp({start} / 1000) AND told_at < to_timestamp({end} / 1000)"


@dataclass(frozen=True, slots=True)
class Written:
    """One file: the rows of a view of one day."""

    view: str
    day: str
    rows: int
    path: Path


async def export(pool: Pool, folder: Path, since: date | None = None) -> AsyncIterator[Written]:
    """Write every day that has changed since it was written last; those before `since` are left alone.

    Raises:
        Refused: DuckDB is not installed, or the folder holds an export that cannot be read.
        Unavailable: Postgres cannot be reached.
    """
    database = _duckdb()
    folder.mkdir(parents=True, exist_ok=True)
    known = _known(folder / STATE)
    for day in [day for day, mark in (await _marks(pool)).items() if known.get(day) != mark]:
        if since is not None and day < since.isoformat():
            continue
        async with snapshot(pool) as connection:
            mark = (await _read_marks(connection))[day]
            for view in (*OF_WORKFLOWS, "dead_letters"):
                yield await _write(connection, database, view, day, folder)
        known[day] = mark
        _replace(folder / STATE, json.dumps({"biVersion": bi.VERSION, "days": known}, indent=1).encode())


async def _marks(pool: Pool) -> Mapping[str, str]:
    async with snapshot(pool) as connection:
        return await _read_marks(connection)


async def _read_marks(connection: Connection) -> Mapping[str, str]:
    """For each day something that no change leaves as it was: records are only ever added."""
    marks = dict[str, str]()
    for day, mark in await connection.fetch(_MARKS):
        marks[day.isoformat()] = " ".join(filter(None, (marks.get(day.isoformat()), mark)))
    return marks


async def _write(connection: Connection, database: Any, view: str, day: str, folder: Path) -> Written:
    name = f"{bi.schema_beside(await schema_of(connection))}.{view}"
    start = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1_000)
    query = _OF_DEAD_LETTERS if view == "dead_letters" else _OF_WORKFLOWS
    columns = {column: _TYPES[kind] for column, kind in await connection.fetch(_COLUMNS, name)}
    target = folder / view / f"day={day}" / f"{view}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        rows, made = Path(beside, "rows.csv"), Path(beside, "rows.parquet")
        filled = query.format(view=name, start=start, end=start + DAY_MS)
        await connection.copy_from_query(filled, output=rows, format="csv")
        count = _to_parquet(database, rows, columns, made)
        made.replace(target)
    return Written(view, day, count, target)


def _to_parquet(database: Any, rows: Path, columns: Mapping[str, str], made: Path) -> int:
    given = "header = false, auto_detect = false, delim = ',', quote = '\"', escape = '\"', allow_quoted_nulls = false"
    read = f"read_csv({_quoted(rows)}, {given}, columns = {dict(columns)})"
    count: int = database.execute(f"COPY (SELECT * FROM {read}) TO {_quoted(made)} (FORMAT parquet)").fetchone()[0]
    return count


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _known(state: Path) -> dict[str, str]:
    try:
        read = json.loads(state.read_bytes())
        return dict(read["days"]) if read["biVersion"] == bi.VERSION else {}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{state} cannot be read: delete it, and every day is written again") from error


def _replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def _duckdb() -> Any:
    try:
        import duckdb  # noqa: PLC0415 - an extra that most do without
    except ImportError as error:
        raise Refused(
            "an export needs DuckDB, which is not installed; `pip install 'poweron-services[bi]'` installs it"
        ) from error
    return duckdb.connect(config={"threads": 2, "TimeZone": "UTC"})

