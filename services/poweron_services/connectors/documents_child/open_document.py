"""The reader of ODT and ODP: headings, paragraphs, lists and tables in order, or slides.

Headers and footers, notes, comments and tracked changes follow. The text reads as if all changes were accepted.
"""

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from poweron_services.connectors.documents_child.document import Section, Unreadable
from poweron_services.connectors.documents_child.headings import OutlineBlock, sections
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.office_parts import check, office_facts, parsed
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.readers import Fact, Link, OmittedPart, Part
from poweron_services.connectors.documents_child.sheet_tables import Cell, spread

_SPACE = "{{urn:oasis:names:tc:opendocument:xmlns:{}:1.0}}{}"
_DUBLIN = "{http://purl.org/dc/elements/1.1/}"
MOST_REPEATED = 100  # of a cell or a space that the file stores once, with a count


def _q(name: str) -> str:
    return _SPACE.format(*name.split(":"))


_PARAGRAPH, _HEADING, _LIST, _ITEM = _q("text:p"), _q("text:h"), _q("text:list"), _q("text:list-item")
_TABLE, _ROW, _CELL, _PAGE = _q("table:table"), _q("table:table-row"), _q("table:table-cell"), _q("drawing:page")
_NOTE, _COMMENT, _CHANGES = _q("text:note"), _q("office:annotation"), _q("text:tracked-changes")
_NOTES, _FRAME = _q("presentation:notes"), _q("drawing:frame")
_ASIDE = {_NOTE, _COMMENT, _CHANGES, _NOTES}
_UNREAD = {_q("drawing:image"): "pictures", _q("drawing:object"): "charts, formulas and embedded files"}
_LINK = "{http://www.w3.org/1999/xlink}href"


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    check(data, limits)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if b"encryption-data" in archive.read("META-INF/manifest.xml"):
            raise Unreadable(
                "is protected with a password, so nothing of it can be read; "
                "save it without a password and hand it over again.",
                "document_protected",
            )
        root = parsed(archive.read("content.xml"))
        styles = parsed(archive.read("styles.xml")) if "styles.xml" in archive.namelist() else None
    yield from office_facts(data)
    pages = list(root.iter(_PAGE))
    yield from _slides(pages, root) if pages else sections(list(_blocks(root.find(_q("office:body")))))
    yield from _margins(styles)
    yield from _asides(root)
    yield from (Link(link.get(_LINK, "")) for link in root.iter(_q("text:a")))
    yield from (OmittedPart(kind) for tag, kind in _UNREAD.items() if next(root.iter(tag), None) is not None)


def _slides(pages: list[Any], root: Any) -> Iterator[Part]:
    unseen = {style.get(_q("style:name")) for style in root.iter(_q("style:style")) if _is_unseen(style)}
    hidden = [number for number, page in enumerate(pages, start=1) if page.get(_q("drawing:style-name")) in unseen]
    yield Fact("slides", str(len(pages)))
    yield Fact("hidden slides", ", ".join(f"slide {number}" for number in hidden))
    for number, page in enumerate(pages, start=1):
        texts = [block.text for block in _blocks(page)]
        notes = " ".join(block.text for part in page.iter(_NOTES) for block in _blocks(part))
        parts = [*texts, f"Notes: {notes}"] if notes else texts
        yield Section(f"slide {number}{' (hidden)' if number in hidden else ''}", "\n\n".join(parts))


def _is_unseen(style: Any) -> bool:
    return any(part.get(_q("presentation:visibility")) == "hidden" for part in style)


def _blocks(parent: Any) -> Iterator[OutlineBlock]:
    for element in parent:
        if element.tag == _HEADING:
            level = element.get(_q("text:outline-level"), "1")
            yield from _block_with_text(OutlineBlock(_text(element), int(level) if level.isdecimal() else 1))
        elif element.tag == _PARAGRAPH:
            yield from _block_with_text(OutlineBlock(_text(element)))
            for frame in element.iter(_FRAME):
                yield from _blocks(frame)
        elif element.tag == _LIST:
            yield from _block_with_text(OutlineBlock("\n".join(_items(element))))
        elif element.tag == _TABLE:
            yield from _block_with_text(OutlineBlock(_table(element)))
        elif element.tag not in _ASIDE and isinstance(element.tag, str):
            yield from _blocks(element)


def _block_with_text(block: OutlineBlock) -> Iterator[OutlineBlock]:
    if block.text:
        yield block


def _items(items: Any, indent: str = "") -> Iterator[str]:
    for item in items.iterchildren(_ITEM):
        text = " ".join(_text(child) for child in item if child.tag in {_PARAGRAPH, _HEADING})
        if text:
            yield f"{indent}- {text}"
        for inner in item.iterchildren(_LIST):
            yield from _items(inner, indent + "  ")


def _table(table: Any) -> str:
    rows = [
        [copy for cell in row.iterchildren(_CELL) for copy in _cells(cell)]
        for row in table.iter(_ROW)
        if next(row.iterancestors(_TABLE), None) is table
    ]
    texts = spread(rows)
    return pipe_table(texts, header=first_row_is_header(texts))


def _cells(cell: Any) -> list[Cell]:
    """The cell, as many times as the file repeats it."""
    text = " ".join(" ".join(block.text.split()) for block in _blocks(cell))
    content = Cell(text, _count(cell, "table:number-columns-spanned"), _count(cell, "table:number-rows-spanned"))
    return [content] * _count(cell, "table:number-columns-repeated")


def _count(element: Any, name: str) -> int:
    value = element.get(_q(name), "1")
    return min(int(value), MOST_REPEATED) if value.isdecimal() else 1


def _text(element: Any) -> str:
    return "".join(_parts(element)).strip()


def _parts(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag == _q("text:s"):
            yield " " * _count(child, "text:c")
        elif child.tag == _q("text:tab"):
            yield "\t"
        elif child.tag == _q("text:line-break"):
            yield "\n"
        elif child.tag == _NOTE:
            yield f"[^{child.findtext(_q('text:note-citation'), '')}]"
        elif child.tag not in {*_ASIDE, _FRAME} and isinstance(child.tag, str):
            yield from _parts(child)
        yield child.tail or ""


def _margins(styles: Any) -> Iterator[Section]:
    if styles is None:
        return
    for name in ("header", "footer"):
        texts = [block.text for part in styles.iter(_q(f"style:{name}")) for block in _blocks(part)]
        yield Section(f"section page {name}", "\n".join(dict.fromkeys(texts)))


def _asides(root: Any) -> Iterator[Section]:
    lines_by_name = {
        "Footnotes": [_note(note) for note in root.iter(_NOTE) if note.get(_q("text:note-class")) != "endnote"],
        "Endnotes": [_note(note) for note in root.iter(_NOTE) if note.get(_q("text:note-class")) == "endnote"],
        "Comments": [f"- {_author(comment)}: {_inside(comment)}" for comment in root.iter(_COMMENT)],
        "Tracked changes": list(_changes(root)),
    }
    for name, lines in lines_by_name.items():
        yield Section(f"section {name}", "\n".join(lines))


def _note(element: Any) -> str:
    body = element.find(_q("text:note-body"))
    return f"[^{element.findtext(_q('text:note-citation'), '')}]: {_inside(body) if body is not None else ''}"


def _changes(root: Any) -> Iterator[str]:
    """Yield the tracked changes; deleted text is stored with the change, inserted text in the document."""
    for region in root.iter(_q("text:changed-region")):
        number = region.get(_q("text:id")) or region.get("{http://www.w3.org/XML/1998/namespace}id")
        for change in region:
            if change.tag == _q("text:deletion"):
                yield f"- {_author(change)} deleted “{_inside(change)}”"
            elif change.tag == _q("text:insertion"):
                yield f"- {_author(change)} inserted “{_insertion(root, number)}”"


def _insertion(root: Any, number: str | None) -> str:
    """The text from the start mark of the change to its end mark, or to the end of the element with the start mark."""
    start = next(
        (mark for mark in root.iter(_q("text:change-start")) if mark.get(_q("text:change-id")) == number), None
    )
    if start is None:
        return ""
    texts = [start.tail or ""]
    for element in start.itersiblings():
        if element.tag == _q("text:change-end"):
            break
        texts += [*_parts(element), element.tail or ""]
    return " ".join("".join(texts).split())


def _author(element: Any) -> str:
    author = element.findtext(f".//{_DUBLIN}creator") or "somebody"
    day = (element.findtext(f".//{_DUBLIN}date") or "").partition("T")[0]
    return f"{author} ({day})" if day else author


def _inside(element: Any) -> str:
    return " ".join(" ".join(block.text for block in _blocks(element)).split())
