"""CSV and its relatives: whichever character parts the cells the same way in every row."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator

from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.plain_text import decoded
from poweron_services.connectors.documents_child.readers import Part

DELIMITERS = ",;\t|^~"
SAMPLE = 1 << 14  # characters that the delimiter is judged by

_TOLD = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # what Excel writes above


def read(data: bytes, limits: Limits) -> Iterator[Part]:
    csv.field_size_limit(limits.characters)
    text, notes = decoded(data, limits)
    told = _TOLD.match(text)
    delimiter = told[1] if told else _delimiter(text[:SAMPLE])
    rows = [row for row in _rows(text[told.end() if told else 0 :], delimiter) if any(row)]
    yield Section("", pipe_table(rows, header=first_row_is_header(rows)))
    yield from notes


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def _delimiter(sample: str) -> str:
    return max(DELIMITERS, key=lambda delimiter: _agreement(sample, delimiter))


def _agreement(sample: str, delimiter: str) -> tuple[int, int]:
    """How many rows have the usual number of cells, and how many cells that is; the last row may be cut."""
    widths = Counter(len(row) for row in list(_rows(sample, delimiter))[:-1] or _rows(sample, delimiter) if row)
    width, rows = max(widths.items(), key=lambda found: (found[0] > 1, found[1]), default=(1, 0))
    return (rows, width) if width > 1 else (0, 0)
