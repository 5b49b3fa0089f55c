"""The reader of PPTX: one section per slide, with title, texts from top to bottom, tables, charts, notes, comments."""

import io
from collections.abc import Iterator
from typing import Any

import pptx
from pptx.enum.shapes import MSO_SHAPE_TYPE
from pptx.oxml.ns import qn

from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.office_parts import (
    ALTERNATIVES,
    CHOICE,
    DIAGRAM,
    EQUATION,
    chart_texts,
    check,
    diagram_list,
    linear,
    office_facts,
    parsed,
)
from poweron_services.connectors.documents_child.pipe_tables import pipe_table
from poweron_services.connectors.documents_child.readers import Fact, OmittedPart, Part
from poweron_services.connectors.documents_child.sheet_tables import Cell, spread
from poweron_services.connectors.documents_child.symbol_fonts import symbol


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    check(data, limits)
    show = pptx.Presentation(io.BytesIO(data))
    yield from office_facts(data)
    hidden = [number for number, slide in enumerate(show.slides, start=1) if _is_hidden(slide)]
    yield Fact("slides", str(len(show.slides)))
    yield Fact("hidden slides", ", ".join(f"slide {number}" for number in hidden))
    authors = _authors(show.part)
    for number, slide in enumerate(show.slides, start=1):
        _unfold(slide._element)  # noqa: SLF001 - no public way to it
        texts = [*_texts(slide), *_comments(slide.part, authors)]
        locator = f"slide {number}{' (hidden)' if number in hidden else ''}"
        yield Section(locator, "\n\n".join(texts))
        yield from (OmittedPart(kind, locator) for shape in _flat(slide.shapes) if (kind := _omission(shape)))


def _is_hidden(slide: Any) -> bool:
    return slide._element.get("show") in {"0", "false"}  # noqa: SLF001 - no public way to it


def _unfold(slide: Any) -> None:
    """Move shapes that older programs do not know, such as those with equations, to where the library looks."""
    for alternatives in list(slide.iter(ALTERNATIVES)):
        choice = alternatives.find(CHOICE)
        for shape in list(choice) if choice is not None else []:
            alternatives.addprevious(shape)
        alternatives.getparent().remove(alternatives)


def _authors(presentation: Any) -> dict[str, str]:
    """The names of the authors of comments, keyed by id."""
    parts = [
        relation.target_part
        for relation in presentation.rels.values()
        if relation.reltype.endswith(("/commentAuthors", "/authors"))
    ]
    return {author.get("id", ""): author.get("name", "") for part in parts for author in parsed(part.blob)}


def _comments(slide: Any, authors: dict[str, str]) -> Iterator[str]:
    """Yield the comments and their replies, in the format of older or newer files."""
    for part in (relation.target_part for relation in slide.rels.values() if relation.reltype.endswith("/comments")):
        for comment in parsed(part.blob).iter("{*}cm", "{*}reply"):
            children = [child for child in comment if child.tag.rpartition("}")[2] in {"text", "txBody"}]
            text = " ".join("".join(piece for child in children for piece in child.itertext()).split())
            author = authors.get(comment.get("authorId", ""), "")
            yield f"- Comment{author and f' by {author}'}: {text}"


def _texts(slide: Any) -> Iterator[str]:
    title = slide.shapes.title
    heading = "" if title is None else " ".join(_full_text(title.text_frame).split())
    if heading:
        yield f"### {heading}"
    for shape in _flat(slide.shapes):
        if title is None or shape.shape_id != title.shape_id:
            yield from _shape(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield f"Notes: {notes}"


def _flat(shapes: Any) -> Iterator[Any]:
    """Yield the shapes from top to bottom, with groups expanded."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _flat(shape.shapes)
        else:
            yield shape


def _shape(shape: Any) -> Iterator[str]:
    if getattr(shape, "has_table", False):
        yield _table(shape.table)
    elif getattr(shape, "has_chart", False):
        yield from chart_texts(shape.chart._chartSpace)  # noqa: SLF001 - no public way to it
    elif (diagram := _diagram(shape)) is not None:
        yield diagram_list(diagram)
    elif shape.has_text_frame:
        yield "\n".join(_lines(shape.text_frame))


def _omission(shape: Any) -> str:
    """The kind of the shape if nothing of it is read, else empty."""
    match shape.shape_type:
        case MSO_SHAPE_TYPE.PICTURE | MSO_SHAPE_TYPE.LINKED_PICTURE:
            return "pictures"
        case MSO_SHAPE_TYPE.EMBEDDED_OLE_OBJECT | MSO_SHAPE_TYPE.LINKED_OLE_OBJECT:
            return "embedded files"
        case MSO_SHAPE_TYPE.MEDIA:
            return "films and sounds"
        case _:
            return ""


def _diagram(shape: Any) -> Any:
    """The data of the diagram that the shape shows, or None."""
    element = next(shape._element.iter(f"{DIAGRAM}relIds"), None)  # noqa: SLF001 - no public way to it
    name = element.get(qn("r:dm")) if element is not None else None
    return parsed(shape.part.related_part(name).blob) if name in shape.part.rels else None


def _table(table: Any) -> str:
    rows = [
        [
            Cell(_full_text(cell.text_frame), cell.span_width, cell.span_height)
            for cell in row.cells
            if not cell.is_spanned
        ]
        for row in table.rows
    ]
    return pipe_table(spread(rows))


def _lines(frame: Any) -> Iterator[str]:
    paragraphs = [(paragraph.level, _text(paragraph).strip()) for paragraph in frame.paragraphs]
    lines = [(level, text) for level, text in paragraphs if text]
    for level, text in lines:
        yield f"{'  ' * level}- {text}" if len(lines) > 1 else text


def _full_text(frame: Any) -> str:
    return "\n".join(map(_text, frame.paragraphs))


def _text(paragraph: Any) -> str:
    """The text of the paragraph, with its equations, which the library skips."""
    return "".join(_runs(paragraph._p))  # noqa: SLF001 - no public way to it


def _runs(element: Any) -> Iterator[str]:
    for child in element:
        if child.tag == EQUATION:
            yield linear(child)
        elif child.tag in (qn("a:r"), qn("a:fld")):
            yield _in_its_font(child, child.findtext(qn("a:t")) or "")
        elif child.tag == qn("a:br"):
            yield "\v"
        elif child.tag != qn("a:pPr"):
            yield from _runs(child)


def _in_its_font(run: Any, text: str) -> str:
    font = run.find(f"{qn('a:rPr')}/{qn('a:sym')}")
    name = font.get("typeface", "") if font is not None else ""
    return "".join(symbol(name, ord(letter)) if "\uf000" <= letter <= "\uf0ff" else letter for letter in text)
