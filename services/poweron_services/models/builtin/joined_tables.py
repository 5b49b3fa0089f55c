"""Joins of tables from several documents on a column of names: differing cells, and rows that only one table has."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from poweron_services.decider.written_numbers import column_numbers, decimal_mark, written
from poweron_services.models.builtin.sources import Row
from poweron_services.models.builtin.table_cells import Record, Table

NOTHING: Final = "\u2013"


@dataclass(frozen=True, slots=True)
class Joined:
    """The result of a join."""

    name: str
    """The column that names the rows."""
    columns: Row
    """The other columns that all tables have."""
    differing: tuple[Row, ...]
    """One entry per differing cell: the row, the column, the cell in each table and, for two numbers, the
    difference."""
    shared: int
    """The number of rows that all tables have."""
    alone: tuple[tuple[str, ...], ...]
    """For each table, the names of the rows that no other table has."""


class _Keyed(NamedTuple):
    """A table, its columns by normalised name, and its rows by the normalised name of each."""

    table: Table
    columns: dict[str, int]
    rows: dict[str, Record]


def joined(tables: Sequence[Table], key: Callable[[str], str]) -> Joined | None:
    """Join tables, one of each document, on a column that names the rows in all of them; None if there is none.

    Args:
        tables: at least two.
        key: normalises a name; equal names have equal keys.
    """
    columns = [{key(header): at for at, header in enumerate(one.headers) if key(header)} for one in tables]
    common = [name for name in columns[0] if all(name in one for one in columns[1:])]
    named = [
        name
        for name in common
        if all(one[name] in table.name_columns for one, table in zip(columns, tables, strict=True))
    ]
    best = max(named, key=lambda name: _matches(tables, columns, name, key), default=None)
    if best is None or len(common) < 2 or not _matches(tables, columns, best, key):
        return None
    keyed = [_keyed(table, named_at, best, key) for table, named_at in zip(tables, columns, strict=True)]
    if any(one is None for one in keyed):
        return None
    sides = [one for one in keyed if one is not None]
    shared = [name for name in sides[0].rows if all(name in one.rows for one in sides[1:])]
    others = [name for name in common if name != best]
    return Joined(
        name=tables[0].headers[columns[0][best]],
        columns=tuple(tables[0].headers[columns[0][name]] for name in others),
        differing=tuple(row for name in others for row in _differing(sides, best, name, shared)),
        shared=len(shared),
        alone=tuple(_alone(one, sides, best) for one in sides),
    )


def _matches(tables: Sequence[Table], columns: Sequence[dict[str, int]], name: str, key: Callable[[str], str]) -> int:
    """Count the rows that all tables share by this column."""
    held = [
        {key(row.cells[at[name]]) for row in table.records} - {""} for table, at in zip(tables, columns, strict=True)
    ]
    return len(held[0].intersection(*held[1:]))


def _keyed(table: Table, columns: dict[str, int], name: str, key: Callable[[str], str]) -> _Keyed | None:
    """Index the rows of a table by name; None if two rows share a name."""
    rows = [(key(row.cells[columns[name]]), row) for row in table.records if key(row.cells[columns[name]])]
    return _Keyed(table, columns, dict(rows)) if len(dict(rows)) == len(rows) else None


def _differing(sides: Sequence[_Keyed], named: str, column: str, shared: Sequence[str]) -> Iterator[Row]:
    """Yield the cells of a column that differ between tables; numbers are compared by value, not by spelling."""
    cells = [[one.rows[name].cells[one.columns[column]] for name in shared] for one in sides]
    numbers = [column_numbers(column_cells) for column_cells in cells]
    marks = [mark for column_cells in cells if (mark := decimal_mark(column_cells))]
    for at, name in enumerate(shared):
        told, values = [one[at] for one in cells], [one[at] for one in numbers]
        known = [one for one in values if one is not None]
        same = len({one.value for one in known}) == 1 if len(known) == len(told) else len(set(told)) == 1
        if same:
            continue
        first = sides[0]
        row = [first.rows[name].cells[first.columns[named]], first.table.headers[first.columns[column]], *told]
        if len(sides) == 2 and len(known) == 2 and len({one.unit for one in known}) == 1:
            change = known[1].value - known[0].value
            said = written(change, known[0], max(one.decimals for one in known), marks[0] if marks else ".")
            row.append(f"{'+' if change > 0 else ''}{said}")
        elif len(sides) == 2:
            row.append(NOTHING)
        yield tuple(row)


def _alone(one: _Keyed, sides: Sequence[_Keyed], named: str) -> tuple[str, ...]:
    others = [each for each in sides if each is not one]
    names = (name for name in one.rows if not any(name in each.rows for each in others))
    return tuple(one.rows[name].cells[one.columns[named]] for name in names)
