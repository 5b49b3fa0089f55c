"""The reader of DOCX: headings, paragraphs, lists and tables in order.

Headers and footers, notes, comments and tracked changes follow. The text reads as if all changes were accepted. The XML
is walked directly, because python-docx skips content controls, tracked insertions and text boxes.
"""

import io
import re
from collections.abc import Iterator
from typing import Any

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml.ns import qn

from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.headings import OutlineBlock, sections
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.office_parts import (
    CHART,
    DIAGRAM,
    chart_texts,
    check,
    diagram_list,
    office_facts,
    parsed,
)
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.readers import Link, OmittedPart, Part
from poweron_services.connectors.documents_child.sheet_tables import Cell, spread
from poweron_services.connectors.documents_child.word_numbers import BULLET, Numbers
from poweron_services.connectors.documents_child.word_text import (
    REMOVED,
    changes,
    comments,
    has_shown_breaks,
    notes,
    page_breaks,
    runs_text,
)

LABELLED = 2  # columns of a table of labels and values
TITLE, HEADING = 1, 2  # levels; a title ranks above "heading 1"

WITHOUT_STYLES = {"Title": TITLE} | {f"Heading{level}": HEADING + level - 1 for level in range(1, 10)}

UNREAD = {
    "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic": "pictures",
    "{urn:schemas-microsoft-com:vml}imagedata": "pictures",
    "{urn:schemas-microsoft-com:office:office}OLEObject": "embedded files",
}
_HEADING_NAME = re.compile(r"heading (\d)", re.IGNORECASE)
_PARAGRAPH, _TABLE, _ROW, _CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    check(data, limits)
    document = docx.Document(io.BytesIO(data))
    yield from office_facts(data)
    body = _body(document)
    yield from sections(list(body.of(document.element.body)))
    yield from body.omitted
    yield from _margins(document)
    yield from _asides(document)
    yield from (
        Link(relation.target_ref)
        for relation in document.part.rels.values()
        if relation.reltype == RELATIONSHIP_TYPE.HYPERLINK
    )


def _body(document: Any) -> "_Blocks":
    shown_breaks = has_shown_breaks(document.element.body)
    return _Blocks(document.part, _levels(document), Numbers(document), shown_breaks=shown_breaks)


def _levels(document: Any) -> dict[str, int]:
    """The heading levels, keyed by style id. For a document without styles, python-docx would open its own file."""
    if all(relation.reltype != RELATIONSHIP_TYPE.STYLES for relation in document.part.rels.values()):
        return WITHOUT_STYLES
    return {style.style_id: _level(style) for style in document.styles}


def _level(style: Any) -> int:
    """The level of headings in this style; 0 if it is not a heading style."""
    if style.name is None:
        return 0
    match = _HEADING_NAME.match(style.name)
    if match:
        return int(match[1]) + HEADING - 1
    return TITLE if style.name.lower() == "title" else 0


class _Blocks:
    """The headings, texts and tables below an element, and where pages begin, as far as the file records it."""

    def __init__(
        self, part: Any, levels: dict[str, int], numbers: Numbers | None = None, *, shown_breaks: bool = False
    ) -> None:
        self._part = part
        self._levels = levels
        self._numbers = numbers
        self._shown_breaks = shown_breaks
        self._page = 1
        self._section = ""
        self.omitted: dict[OmittedPart, None] = {}

    def of(self, parent: Any) -> Iterator[OutlineBlock]:
        for element in parent:
            if element.tag == _PARAGRAPH:
                yield from self._paragraph(element)
            elif element.tag == _TABLE:
                yield OutlineBlock(self._table(element))
                yield from self._breaks(element)
                yield from self._drawings(element)
            elif element.tag not in REMOVED and isinstance(element.tag, str):
                yield from self.of(element)

    def _paragraph(self, element: Any) -> Iterator[OutlineBlock]:
        text = self._text(element)
        style = element.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
        level = self._levels.get(style.get(qn("w:val")), 0) if style is not None and text else 0
        if level:
            heading = text.removeprefix(f"{BULLET} ")
            self._section = f"section {heading}"
            yield OutlineBlock(heading, level)
        yield from self._breaks(element)
        if text and not level:
            yield OutlineBlock(text)
        yield from self._drawings(element)
        for box in element.iter(qn("w:txbxContent")):
            if not _is_removed(box):
                yield from self.of(box)

    def _text(self, paragraph: Any) -> str:
        """The text of the paragraph with its number; empty if it has no text."""
        text = runs_text(paragraph).strip()
        number = self._numbers.of(paragraph) if text and self._numbers is not None else ""
        return f"{number} {text}".strip()

    def _breaks(self, element: Any) -> Iterator[OutlineBlock]:
        """Yield a page mark if a page ends in the element, before a paragraph's text: most of it is on the new page."""
        breaks = page_breaks(element, shown=self._shown_breaks)
        self._page += breaks
        if breaks:
            yield OutlineBlock(f"[page {self._page}]")

    def _drawings(self, element: Any) -> Iterator[OutlineBlock]:
        """Yield the charts and diagrams; other drawings are not read, only recorded as omitted."""
        kinds = {kind for tag, kind in UNREAD.items() for drawing in element.iter(tag) if not _is_removed(drawing)}
        self.omitted |= dict.fromkeys(OmittedPart(kind, self._section) for kind in sorted(kinds))
        for drawing in element.iter(f"{CHART}chart", f"{DIAGRAM}relIds"):
            name = drawing.get(qn("r:id" if drawing.tag.startswith(CHART) else "r:dm"))
            if name not in self._part.rels or _is_removed(drawing):
                continue
            part = parsed(self._part.related_parts[name].blob)
            if drawing.tag.startswith(CHART):
                yield from map(OutlineBlock, chart_texts(part))
            elif text := diagram_list(part):
                yield OutlineBlock(text)

    def _table(self, table: Any) -> str:
        rows = self._rows(table)
        return pipe_table(rows, header=first_row_is_header(rows))

    def _rows(self, table: Any) -> list[list[str]]:
        cells = [[self._cell(cell) for cell in _own(row, _CELL, table)] for row in _own(table, _ROW, table)]
        return spread(_spanning(cells))

    def _cell(self, cell: Any) -> tuple[str, int, bool]:
        """Return the text of the cell, how many columns it spans, and whether it is part of the cell above."""
        span = cell.find(f"{qn('w:tcPr')}/{qn('w:gridSpan')}")
        merge = cell.find(f"{qn('w:tcPr')}/{qn('w:vMerge')}")
        columns = span.get(qn("w:val"), "1") if span is not None else "1"
        goes_on = merge is not None and merge.get(qn("w:val"), "continue") == "continue"
        return " ".join(self._cell_texts(cell)), int(columns) if columns.isdecimal() else 1, goes_on

    def _cell_texts(self, parent: Any) -> Iterator[str]:
        for element in parent:
            if element.tag == _PARAGRAPH:
                yield self._text(element)
                boxes = (box for box in element.iter(qn("w:txbxContent")) if not _is_removed(box))
                yield from (text for box in boxes for text in self._cell_texts(box))
            elif element.tag == _TABLE:
                yield _in_one_line(self._rows(element))
            elif element.tag not in REMOVED and isinstance(element.tag, str):
                yield from self._cell_texts(element)


def _in_one_line(rows: list[list[str]]) -> str:
    """Write a table within a cell on one line, each value with its label."""
    if all(map(all, rows)) and first_row_is_header(rows) and len(rows[0]) > LABELLED:
        labelled = [[f"{name}: {cell}" for name, cell in zip(rows[0], row, strict=True)] for row in rows[1:]]
        return "; ".join(", ".join(cells) for cells in labelled)
    return "; ".join(
        ": ".join(filter(None, row)) if len(row) == LABELLED else ", ".join(filter(None, row)) for row in rows
    )


def _is_removed(element: Any) -> bool:
    return any(above.tag in REMOVED for above in element.iterancestors())


def _own(parent: Any, tag: str, table: Any) -> list[Any]:
    """The rows or cells below the parent, without those of tables within a cell."""
    return [element for element in parent.iter(tag) if next(element.iterancestors(_TABLE), None) is table]


def _spanning(rows: list[list[tuple[str, int, bool]]]) -> list[list[Cell]]:
    """Repeat the text of a cell in its parts in the rows below, because Word stores it only once."""
    result: list[list[Cell]] = []
    above: dict[int, str] = {}
    for row in rows:
        column, cells, texts = 0, [], {}
        for text, columns, goes_on in row:
            content = above.get(column, "") if goes_on else text
            cells.append(Cell(content, columns))
            texts[column] = content
            column += columns
        above = texts
        result.append(cells)
    return result


def _margins(document: Any) -> Iterator[Section]:
    for name in ("header", "footer"):
        margins = [getattr(section, name) for section in document.sections]
        margins += [
            getattr(section, f"first_page_{name}")
            for section in document.sections
            if section.different_first_page_header_footer
        ]
        if _has_even_pages(document):
            margins += [getattr(section, f"even_page_{name}") for section in document.sections]
        texts = dict.fromkeys(text for margin in margins for text in _margin_texts(margin))
        if texts:
            yield Section(f"section page {name}", "\n".join(texts))


def _margin_texts(margin: Any) -> list[str]:
    if margin.is_linked_to_previous:
        return []
    return [block.text for block in _Blocks(margin.part, {}).of(margin._element)]  # noqa: SLF001 - no public way to its XML


def _has_even_pages(document: Any) -> bool:
    """Return whether even pages have their own headers and footers. Without settings, the library would open a file."""
    settings = any(relation.reltype == RELATIONSHIP_TYPE.SETTINGS for relation in document.part.rels.values())
    return settings and bool(document.settings.odd_and_even_pages_header_footer)


def _asides(document: Any) -> Iterator[Section]:
    body = document.element.body
    parts = {
        relation.reltype.rsplit("/", 1)[-1]: parsed(relation.target_part.blob)
        for relation in document.part.rels.values()
        if not relation.is_external and relation.reltype.endswith(("/footnotes", "/endnotes", "/comments"))
    }
    lines_by_name = {
        "Footnotes": notes(parts["footnotes"], "") if "footnotes" in parts else [],
        "Endnotes": notes(parts["endnotes"], "e") if "endnotes" in parts else [],
        "Comments": comments(parts["comments"], body) if "comments" in parts else [],
        "Tracked changes": changes([body, *parts.values()]),
    }
    for name, lines in lines_by_name.items():
        yield Section(f"section {name}", "\n".join(lines))
