"""Page layout: turns the words on a page into paragraphs and tables in reading order.

This module is independent of PDF: its input is pieces of text with their position on the page. Words on one line with
a wide gap between them are cells; lines of cells below one another are a table; two blocks of prose side by side are
columns, read one after the other. A hyphen at the end of a line is marked, and `line_ends.mended` decides on it later.

Words of right-to-left scripts are put into reading order, line by line.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

from poweron_services.connectors.documents_child.line_ends import with_break
from poweron_services.connectors.documents_child.pipe_tables import looks_like_header, pipe_table

_FROM_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]")  # letters of right-to-left scripts
_AT_THE_LEFT = re.compile(r"^([.,:;!?]+)((?:[^\W_]|[+%-]).*)")  # punctuation that ends a right-to-left sentence
CELL_GAP = 0.75  # of the height of the text; wider than a space, even in justified text
ROW_GAP = 2.2  # heights; rows of one table are closer
LINE_GAP = 0.75  # heights; a wider gap between lines begins a paragraph
COLUMN_LINES = 6  # fewer lines side by side are a table, not columns of prose
MOST_GUTTERS = 40  # positions on a page where a column of prose may begin
BOOK_GAP = 3  # heights; the gap between two pages is wider
SAME_LINES = 0.7  # of the lines of two pages may be level; with more, they are rows of a table
LABEL_WORDS = 4  # a text with more words is a sentence
WRAPPED = 0.6  # of the usual gap between rows; closer lines belong to one row
FULL = 0.85  # of the width of a paragraph; a line this long was broken by the margin
INDENT = 2.5  # heights; lines that begin further apart are centred, not broken
PROSE_WORDS = 4  # in the median line of a column of prose
COLUMN_WORDS = 3  # in the median line, if the lines continue the sentence above them

_ITEM = re.compile(r"(?:[-*•▪◦\u2013]|\(?\d{1,3}[.)]|\(?[a-z][.)])\s")


class Piece(NamedTuple):
    """Text and its position, in points from the left and from the top."""

    x0: float
    x1: float
    top: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        return self.bottom - self.top


@dataclass(slots=True)
class Column:
    x0: float
    x1: float

    def overlap(self, cell: Piece) -> float:
        return min(self.x1, cell.x1) - max(self.x0, cell.x0)


@dataclass(frozen=True, slots=True)
class Line:
    cells: tuple[Piece, ...]

    @property
    def top(self) -> float:
        return min(cell.top for cell in self.cells)

    @property
    def bottom(self) -> float:
        return max(cell.bottom for cell in self.cells)

    @property
    def height(self) -> float:
        return max(cell.height for cell in self.cells)

    @property
    def text(self) -> str:
        return " ".join(in_reading_order([cell.text for cell in self.cells]))


@dataclass(slots=True)
class _Grid:
    """Columns that grow with each row; a cell that spans several of them widens none."""

    columns: list[Column] = field(default_factory=list)
    spanning: int = 0

    def take(self, line: Line) -> None:
        for cell in line.cells:
            overlaps = [column for column in self.columns if column.overlap(cell) > 0]
            if not overlaps:
                self.columns.append(Column(cell.x0, cell.x1))
            elif len(overlaps) == 1:
                overlaps[0].x0 = min(overlaps[0].x0, cell.x0)
                overlaps[0].x1 = max(overlaps[0].x1, cell.x1)
            elif len(line.cells) > 1:
                self.spanning += 1

    def spanned_by(self, line: Line) -> int:
        """Return how many cells of the line span several columns."""
        return sum(sum(column.overlap(cell) > 0 for column in self.columns) > 1 for cell in line.cells)

    def fits(self, line: Line) -> bool:
        """Return whether each cell has a column of its own; up to half of the cells may span several columns."""
        overlaps = [
            [index for index, column in enumerate(self.columns) if column.overlap(cell) > 0] for cell in line.cells
        ]
        alone = [columns[0] for columns in overlaps if len(columns) == 1]
        return len(set(alone)) == len(alone) and sum(len(columns) > 1 for columns in overlaps) * 2 <= len(overlaps)

    def starts_a_later_column(self, cell: Piece) -> bool:
        first = min(column.x0 for column in self.columns)
        overlaps = [column for column in self.columns if column.overlap(cell) > 0]
        return bool(overlaps) and overlaps[0].x0 > first and (len(overlaps) == 1 or abs(overlaps[0].x0 - cell.x0) < 2)

    def row(self, line: Line) -> list[str]:
        columns = sorted(self.columns, key=lambda column: column.x0)
        cells = [""] * len(columns)
        for cell in line.cells:
            place = next(index for index, column in enumerate(columns) if column.overlap(cell) > 0)
            cells[place] = f"{cells[place]} {cell.text}".strip()
        return cells


def blocks(words: Sequence[Piece]) -> Iterator[str]:
    """Yield paragraphs and tables in reading order."""
    yield from _column_blocks([cell for line in lines_of(words) for cell in line.cells])


def lines_of(words: Sequence[Piece]) -> list[Line]:
    """Return the lines from top to bottom; words of a line that are close together are joined into cells."""
    return [Line(tuple(_join_cells(line))) for line in _lines(words)]


def _column_blocks(cells: Sequence[Piece]) -> Iterator[str]:
    split = _prose_columns(cells)
    if split is None:
        yield from _line_blocks([Line(tuple(line)) for line in _lines(cells)])
        return
    for part in split:
        if part:
            yield from _column_blocks(part)


def _lines(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Group pieces whose middle lies within the height of the first one into a line, from left to right."""
    lines: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: (piece.top + piece.bottom, piece.x0)):
        first = lines[-1][0] if lines else None
        if first is not None and first.top + first.height / 4 < (piece.top + piece.bottom) / 2 < first.bottom:
            lines[-1].append(piece)
        else:
            lines.append([piece])
    return [sorted(line, key=lambda piece: piece.x0) for line in lines]


def _join_cells(line: Sequence[Piece]) -> list[Piece]:
    cells: list[list[Piece]] = []
    right, height = -math.inf, 0.0
    for word in line:
        if word.x0 - right > CELL_GAP * max(min(height, word.height), 1):
            cells.append([])
            right, top, bottom = word.x1, word.top, word.bottom
        cells[-1].append(word)
        right, top, bottom = max(right, word.x1), min(top, word.top), max(bottom, word.bottom)
        height = bottom - top
    return [_cell(words) for words in cells]


def _cell(words: Sequence[Piece]) -> Piece:
    return Piece(
        words[0].x0,
        max(word.x1 for word in words),
        min(word.top for word in words),
        max(word.bottom for word in words),
        " ".join(in_reading_order([word.text for word in words])),
    )


def _prose_columns(cells: Sequence[Piece]) -> tuple[list[Piece], ...] | None:
    """Split the cells at the topmost two blocks of prose side by side: above, left, right and below."""
    for gutter in _open_book(cells):
        left = [cell for cell in cells if cell.x1 <= gutter]
        right = [cell for cell in cells if cell.x1 > gutter]
        if _are_pages(left, right):
            return left, right
    starts = Counter(round(cell.x0) for cell in cells).most_common(MOST_GUTTERS)
    for gutter in sorted(start for start, lines in starts if lines >= COLUMN_LINES):
        for first, last in _bands(cells, gutter):
            band = [cell for cell in cells if first <= cell.top <= last]
            left = [cell for cell in band if cell.x1 <= gutter]
            right = [cell for cell in band if cell.x1 > gutter]
            if _is_prose(left) and _is_prose(right):
                above = [cell for cell in cells if cell.top < first]
                return above, left, right, [cell for cell in cells if cell.top > last]
    return None


def _open_book(cells: Sequence[Piece]) -> Iterator[float]:
    """Yield the right edges of strips that are empty from top to bottom, as between two pages of an open book."""
    right = math.inf
    for cell in sorted(cells, key=lambda cell: cell.x0):
        if cell.x0 - right > BOOK_GAP * cell.height:
            yield cell.x0
        right = cell.x1 if right == math.inf else max(right, cell.x1)


def _are_pages(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    """Return whether both sides are prose and their lines are not level with each other, as rows of a table are."""
    sides = [_lines(left), _lines(right)]
    if not all(_is_prose([_cell(line) for line in lines]) for lines in sides):
        return False
    shorter, longer = sorted(sides, key=len)
    heights = {round(line[0].top) for line in longer}
    return sum(round(line[0].top) in heights for line in shorter) < SAME_LINES * len(shorter)


def _bands(cells: Sequence[Piece], gutter: float) -> Iterator[tuple[float, float]]:
    """Yield the top and bottom of bands where no cell crosses the gutter, with enough lines for two columns."""
    band: list[Piece] = []
    for cell in sorted(cells, key=lambda cell: cell.top):
        if not (cell.x0 < gutter - 2 and cell.x1 > gutter - 2):
            band.append(cell)
            continue
        if len(band) >= 2 * COLUMN_LINES:
            yield band[0].top, band[-1].top
        band = []
    if len(band) >= 2 * COLUMN_LINES:
        yield band[0].top, band[-1].top


def _is_prose(cells: Sequence[Piece]) -> bool:
    return len(cells) >= COLUMN_LINES and median(len(cell.text.split()) for cell in cells) >= PROSE_WORDS


def _line_blocks(lines: Sequence[Line]) -> Iterator[str]:
    paragraph: list[Line] = []
    index = 0
    while index < len(lines):
        table = _table_at(lines, index)
        if table:
            yield from _paragraphs(paragraph)
            paragraph = []
            yield from _columns_or_table(table)
            index += len(table)
        else:
            paragraph.append(lines[index])
            index += 1
    yield from _paragraphs(paragraph)


def _columns_or_table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines as a table, or as columns of prose if most cells continue the sentence above them."""
    grid = _grid(lines)
    columns = [
        [cell for line in lines for cell in line.cells if column.overlap(cell) > 0]
        for column in sorted(grid.columns, key=lambda column: column.x0)
    ]
    if grid.spanning or not all(map(_goes_on, columns)):
        yield _table_text(lines)
        return
    for column in columns:
        yield from _paragraphs([Line((cell,)) for cell in column])


def _goes_on(column: Sequence[Piece]) -> bool:
    following = sum(cell.text[:1].islower() for cell in column[1:])
    words = median(len(cell.text.split()) for cell in column)
    return 1 < len(column) <= 1 + following * 2 and words >= COLUMN_WORDS


def _grid(lines: Sequence[Line]) -> _Grid:
    grid = _Grid()
    for line in sorted(lines, key=lambda line: -len(line.cells)):
        grid.take(line)
    return grid


def _paragraphs(lines: Sequence[Line]) -> Iterator[str]:
    paragraph: list[Line] = []
    for line in lines:
        above = paragraph[-1] if paragraph else None
        if above and _gap(above, line) > LINE_GAP * min(above.height, line.height):
            yield _prose(paragraph)
            paragraph = []
        paragraph.append(line)
    if paragraph:
        yield _prose(paragraph)


def _prose(lines: Sequence[Line]) -> str:
    """Join the lines of one paragraph; line breaks that only the margin caused are removed."""
    left = min(line.cells[0].x0 for line in lines)
    width = max(line.cells[-1].x1 for line in lines) - left
    text = lines[0].text
    for above, line in pairwise(lines):
        is_full = above.cells[-1].x1 - left > width * FULL and len(above.text.split()) >= PROSE_WORDS + 2
        below = abs(line.cells[0].x0 - above.cells[0].x0) < INDENT * line.height
        if not (is_full and below) or _ITEM.match(line.text):
            text += "\n" + line.text
        else:
            text = with_break(text, line.text)
    return text


def _table_at(lines: Sequence[Line], index: int) -> Sequence[Line]:
    """Return the lines of the table that begins at this line; empty if none begins here."""
    grid = _Grid()
    end = index
    while end < len(lines) and _belongs(grid, lines[index:end], lines[end : end + 2]):
        grid.take(lines[end])
        end += 1
    rows = lines[index:end]
    many = sum(len(line.cells) > 1 for line in rows)
    return rows if many >= 2 and grid.spanning <= many / 2 else ()


def _belongs(grid: _Grid, rows: Sequence[Line], ahead: Sequence[Line]) -> bool:
    line = ahead[0]
    if not rows:
        return len(line.cells) > 1
    if _gap(rows[-1], line) > ROW_GAP * max(rows[-1].height, line.height):
        return False
    if len(line.cells) > 1:
        return grid.fits(line)
    if line.height > rows[-1].height * 1.1 or _gap(rows[-1], line) > _pitch(rows) * 1.5:
        return False  # a heading
    return grid.starts_a_later_column(line.cells[0]) or _is_label(grid, ahead)


def _is_label(grid: _Grid, ahead: Sequence[Line]) -> bool:
    """Return whether the line is a short label in the first column, with more of the table below."""
    label, *after = ahead
    first = min(grid.columns, key=lambda column: column.x0)
    short = len(label.text.split()) <= LABEL_WORDS and first.overlap(label.cells[0]) > 0
    return short and bool(after) and len(after[0].cells) > 1 and grid.spanned_by(after[0]) == 0


def _gap(above: Line, line: Line) -> float:
    return line.top - above.bottom


def _pitch(rows: Sequence[Line]) -> float:
    """The median gap between these rows; at least three points, because rows may touch."""
    gaps = [_gap(above, line) for above, line in pairwise(rows)]
    return max(median(gaps) if gaps else rows[-1].height, 3)


def _table_text(lines: Sequence[Line]) -> str:
    grid = _grid(lines)
    rows = _unwrap(lines, [grid.row(line) for line in lines])
    pairs = _side_by_side(rows)
    if pairs:
        return "\n\n".join(pipe_table(half, header=False) for half in pairs)
    return pipe_table(rows, header=looks_like_header(rows))


def _unwrap(lines: Sequence[Line], rows: list[list[str]]) -> list[list[str]]:
    """Join rows that continue in the next line, which is closer than the next row would be."""
    gaps = [_gap(above, line) for above, line in pairwise(lines)]
    between = [gap for gap, row in zip(gaps, rows[1:], strict=True) if row[0]]
    closer = median(between) * WRAPPED if between else 0
    result = [rows[0]]
    for gap, row in zip(gaps, rows[1:], strict=True):
        if not row[0] and gap < closer and all(result[-1][place] for place, cell in enumerate(row) if cell):
            result[-1] = [with_break(above, cell).strip() for above, cell in zip(result[-1], row, strict=True)]
        else:
            result.append(row)
    return result


def _side_by_side(rows: list[list[str]]) -> list[list[list[str]]]:
    """Split two lists of labels and values that are merely side by side; empty if the rows are something else."""
    if len(rows) < 3 or len(rows[0]) != 4 or looks_like_header(rows):
        return []
    halves = [[row[:2] for row in rows if any(row[:2])], [row[2:] for row in rows if any(row[2:])]]
    return halves if all(_is_list_of_labels(half) for half in halves) else []


def _is_list_of_labels(half: list[list[str]]) -> bool:
    labels = [label for label, _ in half if label]
    plain = [
        label
        for label in labels
        if len(label.split()) <= LABEL_WORDS and not any(character.isdigit() for character in label)
    ]
    return len(labels) >= 2 and len(plain) == len(labels) and len(set(labels)) == len(labels)


def in_reading_order(texts: Sequence[str]) -> list[str]:
    """Put the words or cells of one line, which are given from left to right, into reading order.

    Texts of a right-to-left script are reversed; left-to-right texts among them, such as a name in Latin letters,
    are not.
    """
    line_text = " ".join(texts)
    if line_text.isascii() or not _FROM_RIGHT.search(line_text):
        return list(texts)
    sides = _sides(texts)
    ends = [side for side in sides if side is not None]
    is_from_right = ends.count(True) > ends.count(False) or (ends[0] and ends[-1])
    line = list(zip(texts, sides, strict=True))
    runs = groupby(
        line[::-1] if is_from_right else line, key=lambda entry: entry[1] is not None and entry[1] != is_from_right
    )
    ordered = [text for is_turned, run in runs for text, _ in (list(run)[::-1] if is_turned else run)]
    return [_AT_THE_LEFT.sub(r"\2\1", text) for text in ordered] if is_from_right else ordered


def _sides(texts: Sequence[str]) -> list[bool | None]:
    """Return for each text whether it is right-to-left; None for numbers and signs, which occur in both directions.

    A number to the right of a left-to-right word belongs to it ("iPhone 15"); one between two right-to-left words
    belongs to those.
    """
    sides = [_is_from_right(text) for text in texts]
    for place, text in enumerate(texts):
        if sides[place] is None and any(map(str.isdigit, text)) and place > 0:
            after = sides[place + 1] if place + 1 < len(sides) else None
            if sides[place - 1] is False or (sides[place - 1] and after):
                sides[place] = sides[place - 1]
    return sides


def _is_from_right(text: str) -> bool | None:
    if _FROM_RIGHT.search(text):
        return True
    return False if any(map(str.isalpha, text)) else None
