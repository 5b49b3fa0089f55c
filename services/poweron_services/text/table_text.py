"""The tables of a Markdown text: search them for statements that join cells, such as “Labour, Cost: 300”."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final

from poweron_services.text.quotes import comparable, occurs

MOST_NAMES: Final = 12  # parts between commas in the label of a cell
_CELL: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"[|:\s-]+")
_AROUND: Final = " .:"


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

    @cached_property
    def _lines(self) -> list[str]:
        return [comparable(line) for line in self.text.splitlines() if line.startswith("|")]

    @cached_property
    def _rows(self) -> list[_Row]:
        groups = groupby(self.text.splitlines(), key=lambda line: line.startswith("|"))
        return [row for is_table, lines in groups if is_table for row in _rows_of(list(lines))]

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


def _rows_of(lines: list[str]) -> Iterator[_Row]:
    """Yield the rows below the first one of a table."""
    rows = [
        [comparable(cell.replace("\\|", "|")) for cell in _CELL.split(line.strip().removeprefix("|").removesuffix("|"))]
        for line in lines
        if not _RULE.fullmatch(line)
    ]
    width = max(map(len, rows), default=0)
    rows = [row + [""] * (width - len(row)) for row in rows]
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
