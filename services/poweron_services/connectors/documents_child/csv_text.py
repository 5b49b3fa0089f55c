"""CSV and its relatives: whichever character parts the cells the same way in every row.

A long table is many sections of some hundred rows, each below the header again, so that it stands on its own. Rows are
counted as a spreadsheet program counts them. The text is decoded piece by piece: it is never there as a whole.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from poweron_services.connectors.documents_child import text_encodings
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.readers import Note, Part

DELIMITERS = ",;\t|^~"
SAMPLE = 1 << 14  # characters that the delimiter is judged by
LONGEST_CELL = 1_000_000  # characters
ROWS = 200  # of a section

_TOLD = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # what Excel writes above

Row = list[str]


def read(data: bytes, _: Limits) -> Iterator[Part]:
    csv.field_size_limit(LONGEST_CELL)
    encoding = text_encodings.found(data)
    sample = _text(data, encoding).read(SAMPLE)
    told = _TOLD.match(sample)
    faults: list[Note] = []
    rows = _rows(_text(data, encoding), told[1] if told else _delimiter(sample), faults)
    yield from _sections(rows, skipped=1 if told else 0)
    yield from faults


def _rows(text: io.TextIOWrapper, delimiter: str, faults: list[Note]) -> Iterator[Row]:
    """As far as there are any."""
    rows = csv.reader(text, delimiter=delimiter)
    try:
        yield from rows
    except csv.Error:
        sentence = f"The table was read up to line {rows.line_num:,}, where a cell is too long: a quote may be missing."
        faults.append(Note(sentence, truncated=True))


def _sections(rows: Iterator[Row], skipped: int) -> Iterator[Section]:
    """One for a short table, many for a long one."""
    row = sum(1 for _ in islice(rows, skipped)) + 1
    some, following = _some(rows), _some(rows)
    header = _header(some)
    while some:
        locator = f"rows {row}-{row + len(some) - 1}" if following or row > ROWS else ""
        yield Section(locator, pipe_table(some if row <= ROWS else [*header, *some], header=bool(header)))
        row += len(some)
        some, following = following, _some(rows)


def _some(rows: Iterator[Row]) -> list[Row]:
    return list(islice(rows, ROWS))


def _header(rows: Iterable[Row]) -> list[Row]:
    """The first row, if it names the columns."""
    filled = [row for row in rows if any(row)]
    return filled[:1] if first_row_is_header(filled) else []


def _text(data: bytes, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding, errors="replace", newline="")


def _delimiter(sample: str) -> str:
    return max(DELIMITERS, key=lambda delimiter: _agreement(sample, delimiter))


def _agreement(sample: str, delimiter: str) -> tuple[int, int]:
    """How many rows have the usual number of cells, and how many cells that is; the last row may be cut."""
    rows = list(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter))
    widths = Counter(len(row) for row in rows[:-1] or rows if row)
    width, count = max(widths.items(), key=lambda found: (found[0] > 1, found[1]), default=(1, 0))
    return (count, width) if width > 1 else (0, 0)
