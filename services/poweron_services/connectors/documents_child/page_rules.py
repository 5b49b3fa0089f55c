"""The content of a PDF page besides text: the rules drawn on it, and how many images it has and how large they are."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pypdfium2 import raw

from poweron_services.connectors.documents_child.page_words import placed

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
