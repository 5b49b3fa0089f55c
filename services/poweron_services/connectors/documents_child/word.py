"""DOCX: headings, paragraphs, lists and tables in their order, then headers, footers and footnotes.

The XML is walked here, because python-docx passes over content controls, tracked insertions and text boxes.
"""

import io
import re
from collections.abc import Iterator
from typing import Any

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml.ns import qn
from lxml import etree  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child.archive import check
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.outline import Block, sections
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.readers import Link, Part

TITLE, HEADING = 1, 2  # levels: a title stands above "heading 1"
ASIDES = {"footnotes": "Footnotes", "endnotes": "Endnotes", "comments": "Comments"}

WITHOUT_STYLES = {"Title": TITLE} | {f"Heading{level}": HEADING + level - 1 for level in range(1, 10)}

_HEADING_NAME = re.compile(r"heading (\d)", re.IGNORECASE)
_TEXT = {qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_SKIPPED = {qn("w:del"), qn("w:moveFrom"), "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"}
_PARAGRAPH, _TABLE, _ROW, _CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")


def read(data: bytes, limits: Limits) -> Iterator[Part]:
    check(data, limits)
    document = docx.Document(io.BytesIO(data))
    yield from sections(list(_blocks(document.element.body, _levels(document))))
    yield from _margins(document)
    yield from _asides(document)
    yield from (
        Link(one.target_ref) for one in document.part.rels.values() if one.reltype == RELATIONSHIP_TYPE.HYPERLINK
    )


def _levels(document: Any) -> dict[str, int]:
    """By the ids of styles. For a document without any, python-docx would open a file of its own."""
    if all(relation.reltype != RELATIONSHIP_TYPE.STYLES for relation in document.part.rels.values()):
        return WITHOUT_STYLES
    return {style.style_id: _level(style) for style in document.styles}


def _level(style: Any) -> int:
    """The level of the headings of this style; 0 if it is no heading."""
    if style.name is None:
        return 0
    named = _HEADING_NAME.match(style.name)
    if named:
        return int(named[1]) + HEADING - 1
    return TITLE if style.name.lower() == "title" else 0


def _blocks(parent: Any, levels: dict[str, int]) -> Iterator[Block]:
    for element in parent:
        if element.tag == _PARAGRAPH:
            yield from _paragraph(element, levels)
        elif element.tag == _TABLE:
            yield Block(_table(element))
        elif element.tag not in _SKIPPED and isinstance(element.tag, str):
            yield from _blocks(element, levels)


def _paragraph(element: Any, levels: dict[str, int]) -> Iterator[Block]:
    text = "".join(_runs(element)).strip()
    if text:
        style = element.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
        level = levels.get(style.get(qn("w:val")), 0) if style is not None else 0
        is_item = not level and element.find(f"{qn('w:pPr')}/{qn('w:numPr')}") is not None
        yield Block(f"- {text}" if is_item else text, level)
    for box in element.iter(qn("w:txbxContent")):
        if not any(above.tag in _SKIPPED for above in box.iterancestors()):
            yield from _blocks(box, levels)


def _runs(element: Any) -> Iterator[str]:
    for child in element:
        if child.tag == qn("w:t"):
            yield child.text or ""
        elif child.tag in _TEXT:
            yield _TEXT[child.tag]
        elif child.tag not in _SKIPPED and child.tag != qn("w:txbxContent"):
            yield from _runs(child)


def _table(table: Any) -> str:
    rows = [[_cell(cell) for cell in row.iter(_CELL) if _nearest(cell, _TABLE) is table] for row in _rows(table)]
    return pipe_table(rows, header=first_row_is_header(rows))


def _rows(table: Any) -> list[Any]:
    return [row for row in table.iter(_ROW) if _nearest(row, _TABLE) is table]


def _nearest(element: Any, tag: str) -> Any:
    return next(element.iterancestors(tag), None)


def _cell(cell: Any) -> str:
    return " ".join("".join(_runs(paragraph)) for paragraph in cell.iter(_PARAGRAPH))


def _margins(document: Any) -> Iterator[Section]:
    for name in ("header", "footer"):
        margins = [getattr(section, name) for section in document.sections]
        margins += [
            getattr(section, f"first_page_{name}")
            for section in document.sections
            if section.different_first_page_header_footer
        ]
        texts = dict.fromkeys(text for margin in margins for text in _margin_texts(margin))
        if texts:
            yield Section(f"section page {name}", "\n".join(texts))


def _margin_texts(margin: Any) -> list[str]:
    if margin.is_linked_to_previous:
        return []
    return [block.text for block in _blocks(margin._element, {})]  # noqa: SLF001 - no public way to its XML


def _asides(document: Any) -> Iterator[Section]:
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    for relation in document.part.rels.values():
        name = ASIDES.get(relation.reltype.rsplit("/", 1)[-1])
        if name and not relation.is_external:
            root = etree.fromstring(relation.target_part.blob, parser)
            yield Section(f"section {name}", "\n".join(block.text for block in _blocks(root, {})))
