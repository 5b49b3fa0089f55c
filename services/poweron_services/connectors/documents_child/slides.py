"""PPTX: one section per slide: title, texts from top to bottom, tables, the numbers of its charts, notes."""

import io
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pptx
from pptx.oxml.ns import qn

from poweron_services.connectors.documents_child.archive import check
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.merged_cells import Cell, spread
from poweron_services.connectors.documents_child.office_facts import office_facts
from poweron_services.connectors.documents_child.pipe_tables import pipe_table
from poweron_services.connectors.documents_child.readers import Fact, Part


def read(data: bytes, limits: Limits) -> Iterator[Part]:
    check(data, limits)
    show = pptx.Presentation(io.BytesIO(data))
    yield from office_facts(data)
    hidden = [number for number, slide in enumerate(show.slides, start=1) if _is_hidden(slide)]
    yield Fact("slides", str(len(show.slides)))
    yield Fact("hidden slides", ", ".join(f"slide {number}" for number in hidden))
    for number, slide in enumerate(show.slides, start=1):
        yield Section(f"slide {number}{' (hidden)' if number in hidden else ''}", "\n\n".join(_texts(slide)))


def _is_hidden(slide: Any) -> bool:
    return slide._element.get("show") in {"0", "false"}  # noqa: SLF001 - no public way to it


def _texts(slide: Any) -> Iterator[str]:
    title = slide.shapes.title
    if title is not None and title.text_frame.text.strip():
        yield f"### {' '.join(title.text_frame.text.split())}"
    for shape in _flat(slide.shapes):
        if title is None or shape.shape_id != title.shape_id:
            yield from _shape(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield f"Notes: {notes}"


def _flat(shapes: Any) -> Iterator[Any]:
    """Shapes from top to bottom, groups taken apart."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _flat(shape.shapes)
        else:
            yield shape


def _shape(shape: Any) -> Iterator[str]:
    if getattr(shape, "has_table", False):
        yield _table(shape.table)
    elif getattr(shape, "has_chart", False):
        yield from _chart(shape.chart)
    elif shape.has_text_frame:
        yield "\n".join(_lines(shape.text_frame))


def _table(table: Any) -> str:
    rows = [
        [Cell(cell.text, cell.span_width, cell.span_height) for cell in row.cells if not cell.is_spanned]
        for row in table.rows
    ]
    return pipe_table(spread(rows))


def _lines(frame: Any) -> Iterator[str]:
    paragraphs = [(paragraph.level, paragraph.text.strip()) for paragraph in frame.paragraphs]
    filled = [(level, text) for level, text in paragraphs if text]
    for level, text in filled:
        yield f"{'  ' * level}- {text}" if len(filled) > 1 else text


def _chart(chart: Any) -> Iterator[str]:
    """A table for the series that share their categories; the library does not know all kinds of charts."""
    series = chart._chartSpace.iter(qn("c:ser"))  # noqa: SLF001 - no public way to it
    for categories, some in groupby(series, key=lambda one: _points(one, "c:cat", "c:xVal")):
        told = [(one.findtext(f"{qn('c:tx')}//{qn('c:v')}", ""), _points(one, "c:val", "c:yVal")) for one in some]
        places = sorted(set(categories).union(*(values for _, values in told)))
        rows = [[categories.get(place, ""), *(values.get(place, "") for _, values in told)] for place in places]
        yield pipe_table([["", *(name for name, _ in told)], *rows])


def _points(series: Any, *kinds: str) -> dict[int, str]:
    """The texts or numbers by their places; of categories within categories the innermost."""
    found: dict[int, str] = {}
    for point in (point for kind in kinds for point in series.iterfind(f"{qn(kind)}//{qn('c:pt')}")):
        found.setdefault(int(point.get("idx")), _number(point.findtext(qn("c:v"), "")))
    return found


def _number(text: str) -> str:
    """With the digits that count, if it is one."""
    try:
        return format(float(text), ".15g")
    except ValueError:
        return text
