"""Escape untrusted cells in tables that a spreadsheet opens: a would-be formula becomes plain text (S21).

A number remains a number, even with a sign. A cell that is already text is unchanged, so escaping twice is harmless.
"""

import csv
import io
import re
from typing import Final

MARK: Final = "'"
"""The prefix by which a spreadsheet recognises text."""

BYTE_ORDER: Final = "\ufeff"

_FORMULA: Final = re.compile(r"[\s\u00a0\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER: Final = re.compile(
    r"\s*[-+]?\s?(?:[$€£¥]|[A-Z]{3})?\s?\d+(?:[.,'\u2019\u00a0\u202f]\d+)*\s?(?:%|[$€£¥]|[A-Z]{3})?\s*"
)
_DELIMITERS: Final = (",", ";", "\t", "|")


def begins_formula(cell: str) -> bool:
    """Return whether a spreadsheet might treat the cell as a formula; punctuation alone is not one."""
    return _FORMULA.match(cell) is not None and _NUMBER.fullmatch(cell) is None and any(map(str.isalnum, cell))


def as_text(cell: str) -> str:
    """Return the cell, prefixed with the mark if it would be a formula."""
    return MARK + cell if begins_formula(cell) else cell


def csv_as_text(text: str) -> str:
    """Turn the formulas in a CSV file into text; return the file unchanged if it has none or is not CSV."""
    start = BYTE_ORDER if text.startswith(BYTE_ORDER) else ""  # for a spreadsheet, it is not part of the first cell
    body = text.removeprefix(start)
    delimiter = _delimiter(body)
    csv.field_size_limit(max(csv.field_size_limit(), len(body) + 1))  # else one long cell would end the parse
    try:
        rows = list(csv.reader(io.StringIO(body, newline=""), delimiter=delimiter))
    except csv.Error:
        return text
    if not any(begins_formula(cell) for row in rows for cell in row):
        return text
    buffer = io.StringIO(newline="")
    buffer.write(start)
    ending = "\r\n" if "\r\n" in text else "\n"
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=ending)
    writer.writerows([as_text(cell) for cell in row] for row in rows)
    return buffer.getvalue()


def _delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=first.count)
