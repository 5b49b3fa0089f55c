"""Calculations from the cells of tables: written after their value as an equation, and repeated from that equation.

An equation names the cells and their rows, counted from 1 below the header: `= ($349.00 + $429.00) / 2 (rows 1-2)`.
Of many cells it names the rows alone: `= Σ (rows 1-40)`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Final, Literal

from poweron_services.text.numbers import Number, column_numbers

Operation = Literal["sum", "mean", "difference"]

MOST_CELLS: Final = 12  # cells that an equation shows

_ROWS: Final = {"en": ("row", "rows"), "de": ("Zeile", "Zeilen")}
_SIGNS: Final[dict[Operation, str]] = {"sum": "Σ", "mean": "Ø"}
_SPAN: Final = r"\d{1,7}(?:-\d{1,7})?"
_ROW_LIST: Final = re.compile(
    rf"(?:{'|'.join(name for names in _ROWS.values() for name in names)}) (?P<spans>{_SPAN}(?:, {_SPAN})*)"
)
_EQUATION: Final = re.compile(rf"(?P<terms>.*?)(?: ?\((?P<rows>{_ROW_LIST.pattern})\))?")
_MEAN: Final = re.compile(r"\((?P<terms>.+)\) / \d{1,7}")


@dataclass(frozen=True, slots=True)
class Calculation:
    """An operation on cells, and the rows of these cells in their table."""

    operation: Operation
    cells: tuple[str, ...]
    """Empty if only the rows are known."""
    rows: tuple[int, ...] = ()
    """Counted from 1 below the header; empty if the values are not those of one column."""

    def equation(self, language: str) -> str:
        """Return the right side of the equation, in the given language if it is supported."""
        rows = f" ({row_list(self.rows, language)})" if self.rows else ""
        return self._terms() + rows

    def _terms(self) -> str:
        if self.operation == "difference":
            return " - ".join(self.cells)
        if len(self.cells) > MOST_CELLS:
            return _SIGNS[self.operation]
        terms = " + ".join(self.cells)
        return f"({terms}) / {len(self.cells)}" if self.operation == "mean" else terms


def row_list(rows: Sequence[int], language: str) -> str:
    """Return rows in words, such as “rows 1-3, 7”."""
    groups = groupby(enumerate(sorted(rows)), key=lambda pair: pair[1] - pair[0])
    spans = [[row for _, row in group] for _, group in groups]
    texts = (f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans)
    return f"{_ROWS.get(language[:2], _ROWS['en'])[len(rows) > 1]} {', '.join(texts)}"


def parse_rows(text: str, most: int) -> tuple[int, ...]:
    """Parse what `row_list` returns, in any language; () for any other text, or if there is no such row.

    Args:
        text: the text.
        most: the number of rows that there can be.
    """
    match = _ROW_LIST.fullmatch(text)
    spans = [_span(span) for span in match["spans"].split(", ")] if match else []
    is_ordered = all(first <= last for first, last in spans) and all(a[1] < b[0] for a, b in pairwise(spans))
    if not spans or not is_ordered or spans[0][0] < 1 or spans[-1][1] > most:
        return ()
    return tuple(row for first, last in spans for row in range(first, last + 1))


def parse_equation(text: str, most: int) -> Calculation | None:
    """Parse what `equation` returns, in any language; None for any other text. `most` limits the rows."""
    match = _EQUATION.fullmatch(text)
    if match is None:
        return None
    rows, terms = parse_rows(match["rows"] or "", most), match["terms"]
    if match["rows"] and not rows:
        return None
    if mean := _MEAN.fullmatch(terms):
        return Calculation("mean", tuple(mean["terms"].split(" + ")), rows)
    if rows:
        operation = next((operation for operation, sign in _SIGNS.items() if sign == terms), None)
        return Calculation(operation or "sum", () if operation else tuple(terms.split(" + ")), rows)
    parts = tuple(terms.split(" - "))
    return Calculation("difference", parts) if len(parts) == 2 else None


def is_result(value: str, calculation: Calculation) -> bool:
    """Return whether the calculation, repeated from its cells, gives the value; a mean may be rounded."""
    return any(_is_result(value, calculation, mark) for mark in (".", ","))


def _is_result(value: str, calculation: Calculation, mark: str) -> bool:
    """Return whether the value is right if `mark` is the decimal mark of numbers that show no other."""
    numbers = column_numbers([*calculation.cells, value], mark)
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers) or len(known) < 2 or len({number.unit for number in known}) != 1:
        return False
    *cells, result = known
    error = abs(_repeated(calculation.operation, cells) - result.value)
    return error <= (Decimal(5).scaleb(-result.decimals - 1) if calculation.operation == "mean" else 0)


def _repeated(operation: Operation, cells: Sequence[Number]) -> Decimal:
    values = [cell.value for cell in cells]
    total = sum(values, Decimal(0))
    match operation:
        case "sum":
            return total
        case "mean":
            return total / len(values)
        case "difference":
            return 2 * values[0] - total


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def named_rows(names: str, column: Sequence[str]) -> Iterator[int]:
    """Yield the rows whose cells, joined by `; `, are the names; nothing if the names are not cells of the column."""
    rows, rest = list[int](), f"{names}; "
    for row, cell in enumerate(column, start=1):
        if cell and rest.startswith(f"{cell}; "):
            rows, rest = [*rows, row], rest[len(cell) + 2 :]
    yield from rows if not rest else ()
