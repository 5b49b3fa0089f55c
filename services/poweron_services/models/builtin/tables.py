"""Tables as people read them: what heads a column, what names a row, and which cells are a label and its value."""

import re
from dataclasses import dataclass

from poweron_services.models.builtin.sources import Row

LABEL_WORDS = 6
SPARSE_LABELS = 0.85  # of the cells of a column that must look like labels


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a table: its cells by header. `inherited` are cells that stand in a row above."""

    headers: Row
    cells: Row
    inherited: Row
    group: int

    @property
    def filled(self) -> list[tuple[str, str]]:
        """Header and value of every cell that holds something."""
        return [(header, cell) for header, cell in zip(self.headers, self.cells, strict=True) if cell]


@dataclass(frozen=True, slots=True)
class Pair:
    """A label and its value."""

    label: str
    value: str


def headers_of(rows: tuple[Row, ...]) -> tuple[Row, tuple[Row, ...]]:
    """The names of the columns (empty ones where there are none) and the rows below them."""
    named = bool(rows) and any(rows[0])
    rows = tuple(row for row in rows if any(row))
    if len(rows) > 1 and (_ends_no_label(rows[0]) if named else _names_columns(rows[0])):
        return rows[0], rows[1:]
    return ("",) * max(map(len, rows), default=0), rows


def pairs(rows: tuple[Row, ...]) -> list[Pair]:
    """The labels and values of a table without names of columns."""
    labels = _label_columns(rows)
    return [pair for row in rows for pair in _row_pairs(row, labels)]


def records(headers: Row, rows: tuple[Row, ...]) -> list[Record]:
    """The rows; one that leaves its first cells empty takes them from the row above."""
    found: list[Record] = []
    above: Row = ("",) * len(headers)
    group = 0
    for row in (_fitted(row, len(headers)) for row in rows):
        first = next((index for index, cell in enumerate(row) if cell), len(row))
        inherited = above[:first] + ("",) * (len(row) - first)
        if first == 0:
            group += 1
        above = tuple(mine or theirs for mine, theirs in zip(row, inherited, strict=True))
        found.append(Record(headers, row, inherited, group))
    return found


def number(cell: str) -> float | None:
    """The number that a cell holds, if it holds nothing else."""
    digits = re.sub(r"\b(?:USD|EUR|CHF|GBP|US)\b|[\s%€$£¥]|,(?=\d{3}\b)", "", cell)
    try:
        return float(digits) if re.fullmatch(r"[+-]?\d+(?:\.\d+)?", digits) else None
    except ValueError:
        return None


def _ends_no_label(first: Row) -> bool:
    return not any(cell.endswith(":") for cell in first)


def _names_columns(first: Row) -> bool:
    """Whether the first row of a table without a header is one all the same: nothing above the names of the rows."""
    named = [cell for cell in first if cell]
    return not first[0] and len(named) > 1 and not any(re.search(r"\d", cell) for cell in named)


def _fitted(row: Row, width: int) -> Row:
    return (row + ("",) * width)[:width]


def _label_columns(rows: tuple[Row, ...]) -> set[int]:
    width = max(map(len, rows), default=0)
    return {0} | {index for index in range(2, width) if _holds_labels(index, rows)}


def _holds_labels(index: int, rows: tuple[Row, ...]) -> bool:
    filled = [row[index] for row in rows if len(row) > index and row[index]]
    followed = sum(1 for row in rows if len(row) > index and row[index] and any(row[index + 1 :]))
    labels = sum(1 for cell in filled if _is_label(cell))
    colons = all(cell.endswith(":") for cell in filled)
    return bool(filled) and (len(filled) > 1 or colons) and min(labels, followed) >= len(filled) * SPARSE_LABELS


def _is_label(cell: str) -> bool:
    return len(cell.split()) <= LABEL_WORDS and not re.search(r"\d|@", cell)


def _row_pairs(row: Row, labels: set[int]) -> list[Pair]:
    found: list[Pair] = []
    label, values = "", list[str]()
    for index, cell in enumerate((*row, "")):
        if (index in labels or index == len(row)) and (label or values):
            found += _pair(label, values)
            label, values = "", []
        if cell and not label and not values and (index in labels or _is_label(cell)):
            label = cell.rstrip(": ")
        elif cell:
            values.append(cell)
    return found


def _pair(label: str, values: list[str]) -> list[Pair]:
    return [Pair(label, " · ".join(values))] if values or label else []
