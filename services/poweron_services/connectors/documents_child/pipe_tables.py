"""Rows of cells as markdown pipe tables."""

import re
from collections.abc import Iterable, Sequence

Row = Sequence[str]

_YEAR = re.compile(r"(?:19|20)\d\d$")
_PERIOD = re.compile(r"(?:(?:Q|H|FY|Year|Month|Week|Day) ?\d{1,4}(?: \d{4})?|[A-Z][a-z]{2,8} \d{4})$")
_NUMBER = re.compile(r"[-+(\s$€£¥]*\d[\d.,\s]*[%)]?$|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}$")


def pipe_table(rows: Iterable[Row], *, header: bool = True) -> str:
    """Format the rows, one line each; without a header row, the head of the table has empty cells."""
    tidy = _rectangular([[_cell(cell) for cell in row] for row in rows])
    tidy = [row for row in tidy if any(row)]
    if not tidy:
        return ""
    width = len(tidy[0])
    head, body = (tidy[0], tidy[1:]) if header else ([""] * width, tidy)
    return "\n".join(_line(row) for row in (head, ["---"] * width, *body))


def first_row_is_header(rows: Sequence[Row]) -> bool:
    """Return whether the first row names the columns, in rows that are known to be a table."""
    if len(rows) < 2 or not any(rows[0]):
        return False
    years = sum(bool(_YEAR.match(cell.strip())) for cell in rows[0])
    return years > 1 or not any(map(is_number, rows[0]))


def is_number(cell: str) -> bool:
    """Return whether the cell looks like a number or a date."""
    return bool(_NUMBER.match(cell.strip()))


def looks_like_header(rows: Sequence[Row]) -> bool:
    """Return whether the first row names the columns, in a table that was only inferred from its layout."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    first = [cell.strip() for cell in rows[0]]
    names = [cell for cell in first if cell]
    if len(names) < len(first) - 1 or not first[-1] or not all(map(_is_name, names)):
        return False
    return len(first) > 2 or sum(_has_digit(row[-1]) for row in rows[1:]) * 2 > len(rows) - 1


def _is_name(cell: str) -> bool:
    return not cell.endswith(":") and (not _has_digit(cell) or bool(_PERIOD.match(cell)))


def _has_digit(cell: str) -> bool:
    return any(character.isdigit() for character in cell)


def _cell(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")


def _rectangular(rows: list[list[str]]) -> list[list[str]]:
    width = max((len(row) for row in rows), default=0)
    full = [row + [""] * (width - len(row)) for row in rows]
    columns = [index for index in range(width) if any(row[index] for row in full)]
    return [[row[index] for index in columns] for row in full]


def _line(row: Row) -> str:
    return "| " + " | ".join(row) + " |"
