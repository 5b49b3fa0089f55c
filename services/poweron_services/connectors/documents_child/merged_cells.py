"""Tables with cells that span several rows or columns."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    columns: int = 1
    rows: int = 1


MOST_SPAN = 1_000  # rows or columns


def spread(rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """Repeat the text of a cell in every place that the cell covers, because each row is read on its own.

    A cell as wide as the table is a line of text across it, so it appears only once in a row.
    """
    places: dict[tuple[int, int], str] = {}
    width = max((sum(min(cell.columns, MOST_SPAN) for cell in row) for row in rows), default=0)
    for line, row in enumerate(rows):
        column = 0
        for cell in row:
            while (line, column) in places:
                column += 1
            columns = min(cell.columns, MOST_SPAN)
            covered = min(max(cell.rows, 1), MOST_SPAN, len(rows) - line)
            _fill(places, cell.text, range(line, line + covered), column, 1 if columns >= width > 1 else columns)
            column += columns
    widest = max((column for _, column in places), default=-1) + 1
    return [[places.get((line, column), "") for column in range(widest)] for line in range(len(rows))]


def _fill(places: dict[tuple[int, int], str], text: str, lines: range, column: int, columns: int) -> None:
    for line in lines:
        for right in range(columns):
            places.setdefault((line, column + right), text)
