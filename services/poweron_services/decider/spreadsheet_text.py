"""Cells of strangers in tables that a spreadsheet opens: what would be a formula there is made plain text (S21).

A number stays one, with its sign too. What is text already stays as it is, so that doing it twice changes nothing.
"""

import csv
import io
import re
from typing import Final

MARK: Final = "'"
"""What a spreadsheet takes for the sign of a text."""

BYTE_ORDER: Final = "\ufeff"

_FORMULA: Final = re.compile(r"[\s\u00a0\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER: Final = re.compile(
    r"\s*[-+]?\s?(?:[$€£¥]|[A-Z]{3})?\s?\d+(?:[.,'\u2019\u00a0\u202f]\d+)*\s?(?:%|[$€£¥]|[A-Z]{3})?\s*"
)
_DELIMITERS: Final = (",", ";", "\t", "|")


def begins_formula(cell: str) -> bool:
    """Whether a spreadsheet might take the cell for a formula; signs alone are none."""
    return _FORMULA.match(cell) is not None and _NUMBER.fullmatch(cell) is None and any(map(str.isalnum, cell))


def as_text(cell: str) -> str:
    """The cell, behind a sign that it is text where it would be a formula."""
    return MARK + cell if begins_formula(cell) else cell


def csv_as_text(text: str) -> str:
    """CSV whose cells are no formulas; as it stands where none is, or where it is no CSV."""
    start = BYTE_ORDER if text.startswith(BYTE_ORDER) else ""  # a spreadsheet takes it for no part of the first cell
    body = text.removeprefix(start)
    delimiter = _delimiter(body)
    csv.field_size_limit(max(csv.field_size_limit(), len(body) + 1))  # else one long cell would let all others through
    try:
        rows = list(csv.reader(io.StringIO(body, newline=""), delimiter=delimiter))
    except csv.Error:
        return text
    if not any(begins_formula(cell) for row in rows for cell in row):
        return text
    written = io.StringIO(newline="")
    written.write(start)
    ending = "\r\n" if "\r\n" in text else "\n"
    writer = csv.writer(written, delimiter=delimiter, lineterminator=ending)
    writer.writerows([as_text(cell) for cell in row] for row in rows)
    return written.getvalue()


def _delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=first.count)
