"""The tables of a Markdown text: search them for statements that join cells, such as “Labour, Cost: 300”."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final

from poweron_projections.audit.verifier.quote_search import comparable, occurs
from poweron_services.text.calculations import Calculation, is_result, named_rows, parse_equation, parse_rows
from poweron_services.text.numbers import looks_numeric

MOST_NAMES: Final = 12  # parts between commas in the label of a cell
_CELL: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"[|:\s-]+")
_AROUND: Final = " .:"
_COUNT: Final = re.compile(r"(?P<count>\d{1,7}) \((?P<which>.+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table in `comparable` words, with the columns above it: by the first row, or the first two."""

    headers: tuple[list[str], ...]
    cells: list[str]

    def names(self, column: int) -> frozenset[str]:
        """Return the words that a statement may use for a cell of this row."""
        others = (cell for at, cell in enumerate(self.cells) if at != column)
        return frozenset(filter(None, (*others, *(header[column] for header in self.headers))))

    def lines(self) -> Iterator[str]:
        """Yield the whole row as a statement writes it: “item: Hinge; price: 4.20”."""
        for headers in self.headers:
            pairs = [(name, cell) for name, cell in zip(headers, self.cells, strict=True) if cell]
            yield "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table, as the text writes it; a table that continues on the next page is one table."""

    header: str
    at: int
    rows: list[list[str]]

    def named(self, row: int) -> str:
        """Return a cell with the name of its row and its column, as in “Labour, Cost: 300”."""
        cells = self.rows[row - 1]
        others = [cell for at, cell in enumerate(cells) if at != self.at and cell and not looks_numeric(cell)]
        return f"{', '.join(filter(None, (*others[:1], self.header)))}: {cells[self.at]}"


@dataclass(frozen=True)
class TableText:
    """A text that is searched for the cells of its tables."""

    text: str

    def has_cell(self, statement: str) -> bool:
        """Return whether a cell has these words, as in “Labour, Cost: 300”.

        Before the colon are other cells of its row, its column, or both.
        """
        words = comparable(statement)
        for colon in re.finditer(": ", words):
            for row, column in self._cells.get(words[colon.end() :].strip(_AROUND), ()):
                if _consists_of(words[: colon.start()], row.names(column)):
                    return True
        return False

    def has_row(self, statement: str) -> bool:
        """Return whether a row has these words, as in “item: Hinge; price: 4.20”; cells of the row may be left out."""
        if comparable(statement).strip(_AROUND) in self._whole_rows:
            return True
        cells = [part.partition(": ") for part in statement.split("; ")]
        if len(cells) < 2 or not all(value for _, _, value in cells):
            return False
        return any(all(occurs(name, row) for name, _, _ in cells) for row in self._lines) and any(
            all(occurs(value, row) for _, _, value in cells) for row in self._lines
        )

    def calculated(self, label: str, value: str, equation: str) -> list[str]:
        """Return the cells of which an equation calculates a value, as in “Labour, Cost: 300”; [] if it does not.

        The cells must be in the column that the label names before its last comma, and in the rows that the equation
        names; the calculation is repeated.
        """
        calculation = parse_equation(equation, self._row_count)
        if calculation is None or not calculation.rows:
            return []
        header = comparable(label.rpartition(", ")[0])
        for column in self._columns:
            if comparable(column.header) == header and calculation.rows[-1] <= len(column.rows):
                cells = tuple(column.rows[row - 1][column.at] for row in calculation.rows)
                is_same = not calculation.cells or list(map(comparable, cells)) == [*map(comparable, calculation.cells)]
                if is_same and is_result(value, Calculation(calculation.operation, cells)):
                    return [column.named(row) for row in calculation.rows]
        return []

    def counted(self, value: str) -> list[str]:
        """Return the cells that a value counts, as in “2 (Labour; Parts)” and “40 (rows 1-40)”; [] if it is wrong."""
        match = _COUNT.fullmatch(value)
        if match is None:
            return []
        names = comparable(match["which"])
        for column in self._columns:
            cells = [row[column.at] for row in column.rows]
            rows = parse_rows(match["which"], len(cells)) or tuple(named_rows(names, [*map(comparable, cells)]))
            if rows and len(rows) == int(match["count"]):
                return [cells[row - 1] for row in rows]
        return []

    @cached_property
    def _columns(self) -> list[_Column]:
        """The columns of all tables, each below the first row or below two rows of headers."""
        tables = list[list[list[str]]]()
        for rows in map(_cells_of, _tables_of(self.text)):
            if tables and rows and rows[0] == tables[-1][0]:
                tables[-1] += rows[1:]
            elif rows:
                tables.append(rows)
        heads = [(rows[0], rows[1:]) for rows in tables] + [
            (_joined(*rows[:2]), rows[2:]) for rows in tables if rows[1:]
        ]
        return [_Column(name, at, rows) for names, rows in heads for at, name in enumerate(names)]

    @cached_property
    def _row_count(self) -> int:
        return max((len(column.rows) for column in self._columns), default=0)

    @cached_property
    def _lines(self) -> list[str]:
        return [comparable(line) for line in self.text.splitlines() if line.startswith("|")]

    @cached_property
    def _rows(self) -> list[_Row]:
        return [row for lines in _tables_of(self.text) for row in _rows_of(lines)]

    @cached_property
    def _cells(self) -> dict[str, list[tuple[_Row, int]]]:
        result = defaultdict[str, list[tuple[_Row, int]]](list)
        for row in self._rows:
            for column, cell in enumerate(row.cells):
                result[cell.strip(_AROUND)].append((row, column))
        return result

    @cached_property
    def _whole_rows(self) -> frozenset[str]:
        return frozenset(line.strip(_AROUND) for row in self._rows for line in row.lines())


def _tables_of(text: str) -> Iterator[list[str]]:
    """Yield the lines of each table."""
    for is_table, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            yield list(lines)


def _cells_of(lines: list[str]) -> list[list[str]]:
    """Return the rows of a table, each with all of its columns."""
    rows = [
        [
            " ".join(cell.replace("\\|", "|").split())
            for cell in _CELL.split(line.strip().removeprefix("|").removesuffix("|"))
        ]
        for line in lines
        if not _RULE.fullmatch(line)
    ]
    width = max(map(len, rows), default=0)
    return [row + [""] * (width - len(row)) for row in rows]


def _rows_of(lines: list[str]) -> Iterator[_Row]:
    """Yield the rows below the first one of a table."""
    rows = [[*map(comparable, row)] for row in _cells_of(lines)]
    for above, row in enumerate(rows[1:]):
        headers = (rows[0], _joined(rows[0], rows[1])) if above else (rows[0],)
        yield _Row(headers, row)


def _joined(first: list[str], second: list[str]) -> list[str]:
    """Return the columns of a table whose headers are in two rows."""
    return [
        lower if upper in ("", lower) else f"{upper} {lower}".strip()
        for upper, lower in zip(first, second, strict=True)
    ]


def _consists_of(label: str, names: frozenset[str]) -> bool:
    """Return whether a label consists of these names, separated by commas; a name may contain commas, too."""
    parts = label.split(", ")
    if len(parts) > MOST_NAMES:
        return False
    ends = {0}
    for end in range(1, len(parts) + 1):
        if any(start in ends and ", ".join(parts[start:end]) in names for start in range(end)):
            ends.add(end)
    return len(parts) in ends
