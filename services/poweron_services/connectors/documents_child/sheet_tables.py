"""Division of a sheet into titles and tables, so that every cell can be read with the names of its row and column.

A block of rows without a gap is a table, or several side by side. The names of its columns come from its first row or
first two rows, or from the table above. A row that only names the rows below it becomes their `section` column.
`spread` repeats the text of a cell that covers several rows or columns.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, is_number, pipe_table


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    columns: int = 1
    rows: int = 1


MOST_SPAN = 1_000  # rows or columns
FEWEST: Final = 2  # columns of a table, rows with a header
MOST_GAPS: Final = 20  # empty columns of a block that may divide it; a block with more is a form
SECTION: Final = "section"
"""The name of the column that holds the name from a row above."""


class SheetRow(NamedTuple):
    """A row with each cell in its column."""

    cells: list[str]
    is_marked: bool = False
    """Whether the row is bold, or a single cell across several columns."""

    @property
    def filled(self) -> list[int]:
        return [column for column, cell in enumerate(self.cells) if cell]

    @property
    def is_single(self) -> bool:
        return len(self.filled) == 1

    @property
    def only(self) -> str:
        return next(cell for cell in self.cells if cell)


Rows = Sequence[SheetRow]


def sheet_blocks(rows: Iterable[SheetRow]) -> Iterator[str]:
    """Yield the titles and tables of the sheet, from top to bottom, as markdown."""
    above: list[str] = []
    for block in _blocks(rows):
        for part in _side_by_side(block):
            texts, above = _table(part, above)
            yield from texts


def _blocks(rows: Iterable[SheetRow]) -> Iterator[Rows]:
    """Yield blocks of rows without a gap; a row of column names belongs to the rows below, even across a gap."""
    names: list[SheetRow] = []
    for has_text, group in groupby(rows, key=lambda row: any(row.cells)):
        if not has_text:
            continue
        block = list(group)
        if names and block[0].is_single:
            yield names
            names = []
        block = [*names, *block]
        names = (
            block if len(block) == 1 and not block[0].is_single and first_row_is_header([block[0].cells] * 2) else []
        )
        if not names:
            yield block
    if names:
        yield names


def _side_by_side(block: Rows) -> list[Rows]:
    """Split a block at empty columns into tables that each have their own column and row names."""
    columns = sorted({column for row in block for column in row.filled})
    gaps = [(left, right) for left, right in pairwise(columns) if right - left > 1]
    for left, right in gaps[:MOST_GAPS]:
        first, second = (_within(block, range(left + 1)), _within(block, range(right, columns[-1] + 1)))
        if _is_table(first) and _is_table(second):
            return [first, *_side_by_side(second)]
    return [block]


def _within(block: Rows, columns: range) -> Rows:
    parts = [row._replace(cells=[cell if at in columns else "" for at, cell in enumerate(row.cells)]) for row in block]
    return [row for row in parts if any(row.cells)]


def _is_table(rows: Rows) -> bool:
    body = _without_titles(rows)
    columns = {column for row in body for column in row.filled}
    if len(columns) < FEWEST or not first_row_is_header([row.cells for row in body]):
        return False
    labels = [row.cells[min(columns)] for row in body[1:]]
    return sum(bool(label) and not is_number(label) for label in labels) * 2 > len(labels)


def _without_titles(rows: Rows) -> Rows:
    titles = next((at for at, row in enumerate(rows) if not row.is_single), len(rows))
    return rows[titles:]


def _table(rows: Rows, above: list[str]) -> tuple[list[str], list[str]]:
    """Return the texts of the block, and its column names for a block below that has none."""
    body = _without_titles(rows)
    texts = [row.only for row in rows[: len(rows) - len(body)]]
    if not body:
        return texts, above
    names, body = _column_names(body, above, is_new=bool(texts))
    sections = _sections(body)
    width = max(len(names), *(len(row.cells) for row in body)) if body else len(names)
    full_rows = [
        [*row.cells, *[""] * (width - len(row.cells)), section]
        for row, section in zip(body, sections, strict=True)
        if section is not None
    ]
    head = [[*names, *[""] * (width - len(names)), SECTION if any(sections) else ""]] if names else []
    return [*texts, pipe_table([*head, *full_rows], header=bool(head and full_rows))], names


def _column_names(rows: Rows, above: list[str], *, is_new: bool) -> tuple[list[str], Rows]:
    """Return the column names, from the first rows or from above, and the other rows; `is_new` if there is a title."""
    first = rows[0]
    columns = {column for row in rows for column in row.filled}
    named_columns = {column for column, name in enumerate(above) if name}
    is_below = (
        columns == named_columns and not is_new if first_row_is_header([first.cells] * 2) else columns <= named_columns
    )
    if is_below and not _is_header(rows, strict=True):
        return (above, rows[1:] if first.cells == above else rows)
    is_double = len(rows) > FEWEST and _is_group_row(first, rows[1])
    if is_double and _is_header(rows[1:], strict=first.filled != rows[1].filled):
        return _join_names(first, rows[1]), rows[2:]
    if _is_header(rows, strict=False):
        return first.cells, rows[1:]
    return [], rows


def _is_header(rows: Rows, *, strict: bool) -> bool:
    """Return whether the first row names the columns; if `strict`, it must differ from the rows below."""
    first, below = rows[0], rows[1:]
    is_marked = first.is_marked and not any(row.is_marked for row in below[:1])
    if not strict:
        return len(first.filled) > 1 and (not below or is_marked or first_row_is_header([row.cells for row in rows]))
    numbers = [column for column in first.filled if sum(is_number(_at(row, column)) for row in below) * 2 > len(below)]
    return is_marked or any(not is_number(first.cells[column]) for column in numbers)


def _is_group_row(first: SheetRow, second: SheetRow) -> bool:
    """Return whether the first row names groups of the columns in the second one: one name for several columns."""
    names = [cell for _, cell in sorted((column, first.cells[column]) for column in first.filled)]
    repeats = any(cell == following for cell, following in pairwise(names))
    gaps = any(not first.cells[column] for column in second.filled if column > min(first.filled))
    has_all = len(second.filled) >= len(first.filled) > 1
    is_again = all(first.cells[column] == second.cells[column] for column in first.filled if column in second.filled)
    return has_all and (repeats or gaps) and not is_again


def _join_names(first: SheetRow, second: SheetRow) -> list[str]:
    """Join the names of two rows; a group extends to the next group."""
    names: list[str] = []
    group = ""
    for column in range(max(len(first.cells), len(second.cells))):
        group = _at(first, column) or group
        name = _at(second, column)
        names.append(" ".join(dict.fromkeys(filter(None, (group if name else _at(first, column), name)))))
    return names


def _sections(body: Rows) -> list[str | None]:
    """Return for each row the name of its section, from a row above with only that name; None for such a row."""
    alone = [
        row.is_single and not is_number(row.only) and not following.is_single for row, following in pairwise(body)
    ] + [False] * bool(body)
    is_title = [
        is_alone and (row.is_marked or row.only.endswith(":")) for is_alone, row in zip(alone, body, strict=True)
    ]
    names = is_title if any(is_title) else alone if alone[:1] == [True] else [False] * len(body)
    sections: list[str | None] = []
    section = ""
    for is_name, row in zip(names, body, strict=True):
        section = row.only.rstrip(":") if is_name else section
        sections.append(None if is_name else section)
    return sections


def _at(row: SheetRow, column: int) -> str:
    return row.cells[column] if column < len(row.cells) else ""


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
            height = min(max(cell.rows, 1), MOST_SPAN, len(rows) - line)
            _fill(places, cell.text, range(line, line + height), column, 1 if columns >= width > 1 else columns)
            column += columns
    widest = max((column for _, column in places), default=-1) + 1
    return [[places.get((line, column), "") for column in range(widest)] for line in range(len(rows))]


def _fill(places: dict[tuple[int, int], str], text: str, lines: range, column: int, columns: int) -> None:
    for line in lines:
        for right in range(columns):
            places.setdefault((line, column + right), text)
