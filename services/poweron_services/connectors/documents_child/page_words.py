"""The words of a PDF page with their boxes, from the positions of its letters; and the rules and images on the page.

PDFium decides on the order of letters and on the ends of lines. Only the gaps decide where a word ends, because a PDF
often omits spaces, and often has spaces between the letters of a word.
"""

import ctypes
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pypdfium2 import raw

from poweron_services.connectors.documents_child.page_layout import Piece
from poweron_services.connectors.documents_child.symbol_fonts import is_symbol_font, symbol

WORD_GAP = 0.2  # of the height of the letters


OVERPRINT = 0.4  # of the width of a letter; the same one, printed again this close, makes it bold


LEANING = 0.1  # radians


STEEP = 0.9  # the sine of the angle of text that runs upwards or downwards


MOST_LETTERS = 200_000  # of a page; with more, it is not readable text


SPACE, HARD_SPACE = 0x20, 0xA0


ON_THE_SPOT = tuple((right, down) for right in (-1, 0, 1) for down in (-1, 0, 1))  # offsets in points


LAM, ALEFS = "ل", "اأإآ"  # at one position they are a ligature, which the library reverses


FONT_SIGNS = {*range(0x80, 0xA0), *range(0xF020, 0xF100)}  # codes of symbol fonts, at which no other font has letters


MOST_FONT_NAME = 128  # bytes


HYPHEN = 0x02  # the library's code for a hyphen at the end of a line whose word continues in the next


Box = tuple[float, float, float, float]
"""Left, right, bottom and top, in the coordinates of a page before rotation: the origin is at the bottom."""


class _Letters:
    """A run of adjacent letters."""

    __slots__ = ("bottom", "last_left", "left", "quarter", "right", "text", "top")

    def __init__(self, letter: str, box: Box, quarter: int) -> None:
        self.text = letter
        self.quarter = quarter
        self.left, self.right, self.bottom, self.top = box
        self.last_left = self.left

    def takes_next(self, letter: str, box: Box) -> bool:
        """Append a letter that follows on the same line and does not repeat the last; else return False."""
        left, right, bottom, top = box
        if (
            bottom != self.bottom
            or top != self.top
            or left - self.right > WORD_GAP * (top - bottom)
            or left < self.left
            or right < self.right
            or top <= bottom
            or letter == self.text[-1]
        ):
            return False
        self.text += letter
        self.last_left = left
        self.right = right
        return True

    def take(self, letter: str, box: Box) -> None:
        left, right, bottom, top = box
        if letter == LAM and left == self.last_left and self.text[-1] in ALEFS:
            self.text = f"{self.text[:-1]}{LAM}{self.text[-1]}"
        else:
            self.text += letter
        self.last_left = left
        self.left = min(self.left, left)
        self.right = max(self.right, right)
        self.bottom = min(self.bottom, bottom)
        self.top = max(self.top, top)

    def is_beside(self, box: Box) -> bool:
        """Return whether a letter is adjacent on either side: some scripts are written from right to left."""
        left, right, bottom, top = box
        height = min(top - bottom, self.top - self.bottom)
        overlap = min(top, self.top) - max(bottom, self.bottom)
        gap = max(left, self.left) - min(right, self.right)
        return overlap > height / 2 and gap <= WORD_GAP * height

    def is_below_or_above(self, box: Box) -> bool:
        """Return whether a letter is close below or above."""
        left, right, bottom, top = box
        width = min(self.right - self.left, right - left)
        overlap = min(self.right, right) - max(self.left, left)
        return overlap > width / 2 and max(self.bottom, bottom) - min(self.top, top) <= WORD_GAP * width


def words(page: Any) -> tuple[dict[int, list[Piece]], bool]:
    """Return the words, keyed by their quarter turns, in the order of the library; repeated prints are left out.

    Positions are those on the page turned until the words are upright. The second value is whether all were read.
    """
    text_page = page.get_textpage()
    seen: dict[int, dict[str, set[tuple[int, int]]]] = {}
    pieces: dict[int, list[Piece]] = {}
    for word in _join_letters(text_page.raw):
        piece = Piece(*placed((word.left, word.right, word.bottom, word.top), word.quarter), word.text)
        if not _is_again(piece, seen.setdefault(word.quarter, {})):
            pieces.setdefault(word.quarter, []).append(piece)
    is_complete = bool(raw.FPDFText_CountChars(text_page.raw) <= MOST_LETTERS)
    text_page.close()
    return pieces, is_complete


def placed(box: Box, quarters: int) -> Box:
    """Return left, right, top and bottom, measured from the top, on the page after `quarters` quarter turns."""
    left, right, bottom, top = box
    match quarters:
        case 1:
            return bottom, top, left, right
        case 2:
            return -right, -left, bottom, top
        case 3:
            return -top, -bottom, -right, -left
        case _:
            return left, right, -top, -bottom


def _join_letters(text_page: Any) -> Iterator[_Letters]:
    word: _Letters | None = None
    for index, letter, box in _letters(text_page):
        if word is not None and letter and word.takes_next(letter, box):
            continue
        if word is not None and letter and _goes_on(text_page, index, word, box):
            if not (letter == word.text[-1] and _is_doubled(text_page, index, word, box)):
                word.take(letter, box)
            continue
        if word is not None:
            yield word
        word = _Letters(letter, box, _quarter(text_page, index)) if letter else None
    if word is not None:
        yield word


def _letters(text_page: Any) -> Iterator[tuple[int, str, Box]]:
    """Yield the index, letter and box of each character; the letter is empty for white space between words."""
    code_of, box_of, is_generated = raw.FPDFText_GetUnicode, raw.FPDFText_GetLooseCharBox, raw.FPDFText_IsGenerated
    rectangle = raw.FS_RECTF()
    reference = ctypes.byref(rectangle)
    for index in range(min(raw.FPDFText_CountChars(text_page), MOST_LETTERS)):
        code = code_of(text_page, index)
        if code > SPACE and code != HARD_SPACE:
            box_of(text_page, index, reference)
            letter = _sign(text_page, index, code) if code in FONT_SIGNS else chr(code)
            yield index, letter, (rectangle.left, rectangle.right, rectangle.bottom, rectangle.top)
        elif code == HYPHEN:
            box_of(text_page, index, reference)
            yield index, "-", (rectangle.left, rectangle.right, rectangle.bottom, rectangle.top)
        elif code != SPACE or is_generated(text_page, index) != 1:
            yield index, "", (0, 0, 0, 0)


def _sign(text_page: Any, index: int, code: int) -> str:
    """The sign of a symbol font, such as ☐; the character of the code itself if the font is unknown."""
    name, flags = ctypes.create_string_buffer(MOST_FONT_NAME), ctypes.c_int()
    raw.FPDFText_GetFontInfo(text_page, index, name, MOST_FONT_NAME, ctypes.byref(flags))
    full_name = name.value.decode(errors="replace").rpartition("+")[2]  # without the prefix of a subset
    font = re.sub(r"(?<=\D)(?=\d)", " ", full_name.removesuffix("-Regular").removesuffix("MT"))  # Wingdings2
    return symbol(font, code) if is_symbol_font(font) else chr(code)


def _quarter(text_page: Any, index: int) -> int:
    """The number of quarter turns of a page on which the letter is upright; a slanted letter counts as upright."""
    angle = raw.FPDFText_GetCharAngle(text_page, index)  # clockwise
    quarters = round(angle / (math.pi / 2))
    return -quarters % 4 if abs(angle - quarters * math.pi / 2) < LEANING else 0


def _goes_on(text_page: Any, index: int, word: _Letters, box: Box) -> bool:
    if word.is_beside(box):
        return True
    return word.is_below_or_above(box) and abs(math.sin(raw.FPDFText_GetCharAngle(text_page, index))) > STEEP


def _is_doubled(text_page: Any, index: int, word: _Letters, box: Box) -> bool:
    """Return whether the previous letter is printed again; letters of a ligature share a place, but are one object."""
    if abs(box[0] - word.last_left) >= OVERPRINT * (box[1] - box[0]):
        return False
    first, again = (raw.FPDFText_GetTextObject(text_page, place) for place in (index - 1, index))
    return ctypes.addressof(first.contents) != ctypes.addressof(again.contents) if first and again else False


def _is_again(piece: Piece, seen: dict[str, set[tuple[int, int]]]) -> bool:
    """Return whether the word was already printed at almost the same position."""
    x, y = int(piece.x0), int(piece.top)
    places = seen.get(piece.text)
    if places is None:
        seen[piece.text] = {(x, y)}
        return False
    again = not places.isdisjoint([(x + right, y + down) for right, down in ON_THE_SPOT])
    places.add((x, y))
    return again


MOST_RULES = 4_000  # of a page; with more, they are a drawing


MOST_CORNERS = 200  # of one path; with more, it is a drawing


DEEPEST = 8  # levels of nested forms


STRAIGHT = 0.5  # points that a rule may deviate from a straight line


Edge = dict[str, Any]


Matrix = tuple[float, float, float, float, float, float]


AS_IT_IS: Matrix = (1, 0, 0, 1, 0, 0)


@dataclass(slots=True)
class Drawn:
    """The rules and images of a page."""

    edges: list[Edge] = field(default_factory=list)
    """Rules as pdfplumber describes them; empty if there are too many."""
    images: int = 0
    pictured: float = 0
    """The area that its images cover, in square points."""


def drawn(page: Any, quarters: int) -> Drawn:
    """Return the rules and images of a page, in the coordinates of the page after `quarters` quarter turns."""
    result = Drawn()
    for item, matrix in _page_objects(page.raw, raw.FPDFPage_CountObjects, raw.FPDFPage_GetObject, AS_IT_IS, DEEPEST):
        kind = raw.FPDFPageObj_GetType(item)
        if kind == raw.FPDF_PAGEOBJ_IMAGE:
            a, b, c, d, _, _ = _times(_matrix(item), matrix)
            result.images += 1
            result.pictured += abs(a * d - b * c)
        elif kind == raw.FPDF_PAGEOBJ_PATH and len(result.edges) <= MOST_RULES:
            result.edges += _edges(item, matrix, quarters)
    if len(result.edges) > MOST_RULES:
        result.edges = []
    return result


def _page_objects(holder: Any, count: Any, get: Any, matrix: Matrix, depth: int) -> Iterator[tuple[Any, Matrix]]:
    for index in range(count(holder)):
        item = get(holder, index)
        if raw.FPDFPageObj_GetType(item) != raw.FPDF_PAGEOBJ_FORM:
            yield item, matrix
        elif depth:
            inner = _times(_matrix(item), matrix)
            yield from _page_objects(item, raw.FPDFFormObj_CountObjects, raw.FPDFFormObj_GetObject, inner, depth - 1)


def _edges(path: Any, matrix: Matrix, quarters: int) -> Iterator[Edge]:
    """Yield the straight lines of a path; the two long sides of a thin box are so close that they count as one."""
    corners = raw.FPDFPath_CountSegments(path)
    if not 1 < corners <= MOST_CORNERS or not _is_painted(path):
        return
    matrix = _times(_matrix(path), matrix)
    first = last = (0.0, 0.0)
    for index in range(corners):
        segment = raw.FPDFPath_GetPathSegment(path, index)
        kind, point = raw.FPDFPathSegment_GetType(segment), _point(segment, matrix)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            first = point
        elif kind == raw.FPDF_SEGMENT_LINETO:
            yield from _edge(last, point, quarters)
        if raw.FPDFPathSegment_GetClose(segment):
            yield from _edge(point, first, quarters)
        last = point


def _edge(start: tuple[float, float], end: tuple[float, float], quarters: int) -> Iterator[Edge]:
    (left, right), (bottom, above) = sorted((start[0], end[0])), sorted((start[1], end[1]))
    x0, x1, top, bottom = placed((left, right, bottom, above), quarters)
    width, height = x1 - x0, bottom - top
    if min(width, height) <= STRAIGHT < max(width, height):
        if width > height:
            bottom = top = (top + bottom) / 2
        else:
            x0 = x1 = (x0 + x1) / 2
        yield {
            "x0": x0,
            "x1": x1,
            "top": top,
            "bottom": bottom,
            "width": x1 - x0,
            "height": bottom - top,
            "orientation": "h" if width > height else "v",
        }


def _is_painted(path: Any) -> bool:
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    raw.FPDFPath_GetDrawMode(path, fill, stroke)
    return bool(fill.value or stroke.value)


def _point(segment: Any, matrix: Matrix) -> tuple[float, float]:
    x, y = ctypes.c_float(), ctypes.c_float()
    raw.FPDFPathSegment_GetPoint(segment, x, y)
    a, b, c, d, e, f = matrix
    return a * x.value + c * y.value + e, b * x.value + d * y.value + f


def _matrix(item: Any) -> Matrix:
    values = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(item, values)
    return values.a, values.b, values.c, values.d, values.e, values.f


def _times(inner: Matrix, outer: Matrix) -> Matrix:
    """Combine two transformations: first the inner one, then the outer one."""
    a, b, c, d, e, f = inner
    p, q, r, s, t, u = outer
    return a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u
