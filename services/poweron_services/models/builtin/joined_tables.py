"""Tables of several documents joined on what names their rows: what differs in each column, and who alone has a row."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from poweron_services.decider.written_numbers import column_numbers, decimal_mark, written
from poweron_services.models.builtin.sources import Row
from poweron_services.models.builtin.table_cells import Record, Table

NOTHING: Final = "\u2013"


@dataclass(frozen=True, slots=True)
class Joined:
    """What became of the rows of the tables."""

    name: str
    """The column that names the rows."""
    columns: Row
    """The other columns that all tables have."""
    differing: tuple[Row, ...]
    """Of each cell that differs: the row, the column, the cell of each table and, of two numbers, the difference."""
    shared: int
    """How many rows all tables have."""
    alone: tuple[tuple[str, ...], ...]
    """Of each table the names of the rows that no other one has."""


class _Keyed(NamedTuple):
    """A table with its columns and its rows by the keys of their names."""

    table: Table
    columns: dict[str, int]
    rows: dict[str, Record]


def joined(tables: Sequence[Table], key: Callable[[str], str]) -> Joined | None:
    """The tables, one of each document, joined on a column that names the rows of all; None where none does.

    Args:
        tables: at least two.
        key: what is the same of two names.
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
    """How many rows all tables have by this column."""
    held = [
        {key(row.cells[at[name]]) for row in table.records} - {""} for table, at in zip(tables, columns, strict=True)
    ]
    return len(held[0].intersection(*held[1:]))


def _keyed(table: Table, columns: dict[str, int], name: str, key: Callable[[str], str]) -> _Keyed | None:
    """None where two rows have one name."""
    rows = [(key(row.cells[columns[name]]), row) for row in table.records if key(row.cells[columns[name]])]
    return _Keyed(table, columns, dict(rows)) if len(dict(rows)) == len(rows) else None


def _differing(sides: Sequence[_Keyed], named: str, column: str, shared: Sequence[str]) -> Iterator[Row]:
    """The cells of a column that are not the same in all tables, be they written otherwise."""
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
