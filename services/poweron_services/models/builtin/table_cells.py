"""The structure of tables: the headers of columns, the names of rows, and cells that are a label and its value."""

import re
from dataclasses import dataclass

from poweron_services.models.builtin.sources import Row, SourcePlace
from poweron_services.text.numbers import is_numeric

_DIGIT = re.compile(r"\d")
_NO_LABEL = re.compile(r"\d|@")


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A row of a table, with its headers; rows of one group are about the same thing."""

    headers: Row
    cells: Row
    group: int

    @property
    def filled(self) -> list[tuple[str, str]]:
        """The header and value of every cell that is not empty."""
        return [(header, cell) for header, cell in zip(self.headers, self.cells, strict=True) if cell]


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table with named columns, and the words of its heading and titles."""

    place: SourcePlace
    records: tuple[TableRecord, ...]
    near: frozenset[str]

    @property
    def headers(self) -> Row:
        return self.records[0].headers

    def name_of(self, record: TableRecord) -> str:
        """Return what tells a row from others: its first cell that is not a number, and another one of words."""
        columns = sorted(at for at in self.name_columns if record.cells[at])
        words = [at for at in columns[1:] if not _DIGIT.match(record.cells[at])]
        return ", ".join(record.cells[at] for at in (*columns[:1], *words[:1]))

    @property
    def name_columns(self) -> list[int]:
        """The columns that may name the rows, best first: of distinct words, not of measures or codes."""
        columns = {at: [record.cells[at] for record in self.records] for at in range(len(self.headers))}
        of_words = [at for at, cells in columns.items() if not is_numeric(cells)]
        return sorted(of_words, key=lambda at: _unlike_names(columns[at]))


def _unlike_names(cells: list[str]) -> tuple[bool, bool, bool]:
    texts = list(filter(None, cells))
    is_measure = any(map(_DIGIT.match, texts))
    is_code = all(" " not in cell and _DIGIT.search(cell) for cell in texts)
    return is_measure, len(set(texts)) < len(texts), is_code


def headers_of(rows: tuple[Row, ...]) -> tuple[Row, tuple[Row, ...]]:
    """Return the names of the columns (empty if there are none) and the rows below them."""
    has_names = bool(rows) and any(rows[0])
    rows = tuple(row for row in rows if any(row))
    if len(rows) > 1 and (has_names or _names_columns(rows[0])):
        return (
            (_join_headers(*rows[:2]), rows[2:]) if len(rows) > 2 and _goes_on_below(*rows[:2]) else (rows[0], rows[1:])
        )
    return ("",) * max(map(len, rows), default=0), rows


def records(headers: Row, rows: tuple[Row, ...]) -> list[TableRecord]:
    """Return the rows as records; a row with an empty first cell belongs to the row above."""
    result: list[TableRecord] = []
    group = 0
    for row in rows:
        group += bool(row[0])
        result.append(TableRecord(headers, (row + ("",) * len(headers))[: len(headers)], group))
    return result


def pairs(rows: tuple[Row, ...]) -> list[tuple[str, str]]:
    """Return the labels and values of a table without column names; a row may hold two or more of them."""
    return [pair for row in rows for pair in _row_pairs([cell for cell in row if cell], is_named=bool(row[0]))]


def _names_columns(first: Row) -> bool:
    """Return whether an unmarked row is a header: its first cell is empty and no cell has digits."""
    return not first[0] and sum(map(bool, first)) > 1 and not any(map(_NO_LABEL.search, first))


def _goes_on_below(first: Row, second: Row) -> bool:
    """Return whether the second row is a header too: it distinguishes columns that share a name in the first."""
    if len(first) != len(second) or not all(second) or any(map(_NO_LABEL.search, second)):
        return False
    over_several = [column for column, name in enumerate(first) if name and first.count(name) > 1]
    below = [second[column] for column in over_several]
    return bool(below) and len(set(below)) > 1 and (first[0] == second[0] or not first[0])


def _join_headers(first: Row, second: Row) -> Row:
    return tuple(
        lower if upper in ("", lower) else f"{upper} {lower}" for upper, lower in zip(first, second, strict=True)
    )


def _row_pairs(cells: list[str], *, is_named: bool) -> list[tuple[str, str]]:
    labels, values = [cell.rstrip(": ") for cell in cells[::2]], cells[1::2]
    if len(labels) == len(values) > 1 and not any(map(_NO_LABEL.search, labels)):
        return list(zip(labels, values, strict=True))
    if is_named and len(cells) > 1:
        return [(labels[0], " · ".join(cells[1:]))]
    return [("", " · ".join(cells))] if cells else []
