"""The reader of CSV and similar formats; the delimiter is the one that gives most rows the same number of cells.

A long table is split into sections of `ROWS` rows, each with the header repeated, so that it can be read on its own.
Rows are numbered as in a spreadsheet program. The text is decoded in pieces and never held as a whole.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from poweron_services.connectors.documents_child import text_encodings
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.readers import Note, Part

DELIMITERS = ",;\t|^~"
SAMPLE = 1 << 14  # characters used to detect the delimiter
LONGEST_CELL = 1_000_000  # characters
ROWS = 200  # per section
QUOTE = '"'

_SEPARATOR = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # a line that Excel writes above the table

Row = list[str]


def read(data: bytes, _: ReadLimits) -> Iterator[Part]:
    csv.field_size_limit(LONGEST_CELL)
    encoding = text_encodings.found(data)
    sample = _text(data, encoding).read(SAMPLE)
    separator = _SEPARATOR.match(sample)
    faults: list[Note] = []
    rows = _rows(_text(data, encoding), separator[1] if separator else _delimiter(sample), faults)
    yield from _sections(rows, skipped=1 if separator else 0)
    yield from faults


def _rows(text: io.TextIOWrapper, delimiter: str, faults: list[Note]) -> Iterator[Row]:
    """Yield the rows; if a missing quote has joined lines, each line becomes a row again."""
    lines = _Remembered(text)
    rows = csv.reader(lines, delimiter=delimiter)
    width = 0
    while True:
        try:
            row = next(rows, None)
        except csv.Error:  # a cell is too long
            row = []
        if row is None:
            return
        width = width or len(row)
        apart = _apart(lines.read, delimiter, width) if len(lines.read) > 1 else []
        if apart:
            first = lines.number - len(apart) + 1
            faults.append(Note(f"In the table a quote is missing in line {first:,}; it was read without quotes."))
        elif not row and lines.read:
            sentence = (
                f"The table was read up to line {lines.number:,}, where a cell is too long: a quote may be missing."
            )
            faults.append(Note(sentence, truncated=True))
            return
        yield from apart or [row]
        lines.read.clear()


class _Remembered:
    """Iterates over lines and keeps the lines read since `read` was last cleared."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.read: list[str] = []
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._text:
            self.read.append(line)
            self.number += 1
            yield line


def _apart(lines: Sequence[str], delimiter: str, width: int) -> list[Row]:
    """Parse each line as a row; return no rows unless every one has the expected width."""
    rows = [_row(line, delimiter, width) for line in lines]
    return rows if width > 1 and all(len(row) == width for row in rows) else []


def _row(line: str, delimiter: str, width: int) -> Row:
    """Parse a line as a row; if a closing quote is missing, the cell with the opening one absorbs the surplus cells."""
    if line.count(QUOTE) % 2 == 0:
        return next(csv.reader([line], delimiter=delimiter), [])
    cells = next(csv.reader([line], delimiter=delimiter, quoting=csv.QUOTE_NONE), [])
    opening = next((at for at, cell in enumerate(cells) if cell.startswith(QUOTE)), 0)
    end = opening + max(0, len(cells) - width) + 1
    return [*cells[:opening], delimiter.join(cells[opening:end]).removeprefix(QUOTE), *cells[end:]]


def _sections(rows: Iterator[Row], skipped: int) -> Iterator[Section]:
    """Yield one section for a short table, several for a long one."""
    row = sum(1 for _ in islice(rows, skipped)) + 1
    block, next_block = _block(rows), _block(rows)
    header = _header(block)
    while block:
        locator = f"rows {row}-{row + len(block) - 1}" if next_block or row > ROWS else ""
        yield Section(locator, pipe_table(block if row <= ROWS else [*header, *block], header=bool(header)))
        row += len(block)
        block, next_block = next_block, _block(rows)


def _block(rows: Iterator[Row]) -> list[Row]:
    return list(islice(rows, ROWS))


def _header(rows: Iterable[Row]) -> list[Row]:
    """The first row, if it names the columns."""
    full_rows = [row for row in rows if any(row)]
    return full_rows[:1] if first_row_is_header(full_rows) else []


def _text(data: bytes, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding, errors="replace", newline="")


def _delimiter(sample: str) -> str:
    return max(DELIMITERS, key=lambda delimiter: _agreement(sample, delimiter))


def _agreement(sample: str, delimiter: str) -> tuple[int, int]:
    """Return how many rows have the most common number of cells, and that number; the last row may be cut off."""
    rows = list(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter))
    widths = Counter(len(row) for row in rows[:-1] or rows if row)
    width, count = max(widths.items(), key=lambda entry: (entry[0] > 1, entry[1]), default=(1, 0))
    return (count, width) if width > 1 else (0, 0)
