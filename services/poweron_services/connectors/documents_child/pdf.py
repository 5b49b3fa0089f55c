"""The reader of PDF: metadata, and one section per page from the positions of its words and the rules between them."""

import codecs
import ctypes
import math
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import reduce
from types import SimpleNamespace
from typing import Any

import pypdfium2
from pdfplumber.table import TableFinder
from pypdfium2 import raw

from poweron_services.connectors.documents_child.document import Section, Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.line_ends import mended, with_break, words_of
from poweron_services.connectors.documents_child.page_layout import Piece, blocks, lines_of
from poweron_services.connectors.documents_child.page_words import MOST_LETTERS, Edge, drawn, words
from poweron_services.connectors.documents_child.pipe_tables import looks_like_header, pipe_table
from poweron_services.connectors.documents_child.readers import (
    Fact,
    Link,
    Note,
    OmittedPart,
    PageCount,
    PageRead,
    Part,
    Picture,
)

MOSTLY = 0.5  # of a page that pictures cover; with no more than one line of text, the page is a picture


FEW_WORDS = 15


SHOWN = 0.02  # of a page that pictures cover; less is a logo


CELL_WORDS = 60  # a framed box with more words is layout, not a cell


FEWEST_RULES = 4  # of a table


PAGES_SHARE = 0.3  # of the time limit in which a process begins pages; the last one may take the rest


MOST_ADDRESS = 2_000  # bytes


Box = tuple[float, float, float, float]


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    """Yield the pages that the limits name, as many as time allows; the caller asks again for the remaining ones."""
    until = time.monotonic() + min(limits.wall_seconds, limits.cpu_seconds) * PAGES_SHARE
    document = _open(data)
    yield PageCount(len(document))
    if limits.first_page == 1:
        yield from pdf_facts(document.get_metadata_dict(), len(document))
    known: set[str] = set()
    for number in range(limits.first_page, min(len(document), limits.first_page + limits.pages - 1) + 1):
        yield from _page(document, number, known)
        yield PageRead(number)
        if time.monotonic() > until:
            break


def _open(data: bytes) -> Any:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise Unreadable(
                "is protected with a password, so nothing of it can be read; "
                "save it without a password and hand it over again.",
                "document_protected",
            ) from error
        raise


def _page(document: Any, number: int, known: set[str]) -> Iterator[Part]:
    """Yield the parts of a page, or a note if it is damaged, and add its words to `known`."""
    try:
        page = document[number - 1]
    except pypdfium2.PdfiumError:
        yield Note(f"Page {number} is damaged; its text could not be read.", truncated=True)
        return
    yield from _links(document, page)
    page = _flatten(document, page, number)
    quarters = page.get_rotation() // 90
    drawings = drawn(page, quarters)
    pieces, is_complete = words(page)
    texts = [_page_text(pieces.pop(quarters, []), drawings.edges)]
    texts += [_page_text(others, drawn(page, quarter).edges) for quarter, others in sorted(pieces.items())]
    text = "\n\n".join(filter(None, texts))
    known.update(words_of(text))
    text = mended(text, known)
    paper = math.prod(page.get_size())
    is_picture = drawings.pictured > MOSTLY * paper
    page.close()
    if not is_complete:
        yield Note(f"Of page {number} only the first {MOST_LETTERS:,} characters were read.", truncated=True)
    if text:
        yield Section(f"page {number}", text)
    if drawings.images and (not text or (is_picture and "\n" not in text and len(text.split()) <= FEW_WORDS)):
        yield Picture(f"page {number}")
    elif drawings.pictured > SHOWN * paper and not (is_picture and len(text.split()) > FEW_WORDS):
        yield OmittedPart("pictures", f"page {number}")


def _flatten(document: Any, page: Any, number: int) -> Any:
    """Return the page with its form entries and annotations made part of its content."""
    if not raw.FPDFPage_GetAnnotCount(page.raw):
        return page
    if raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return page
    page.close()
    return document[number - 1]


def _links(document: Any, page: Any) -> Iterator[Link]:
    """Yield the addresses that the page's annotations link to."""
    place, link = ctypes.c_int(), raw.FPDF_LINK()
    while raw.FPDFLink_Enumerate(page.raw, place, link):
        action = raw.FPDFLink_GetAction(link)
        size = raw.FPDFAction_GetURIPath(document.raw, action, None, 0) if action else 0
        if 1 < size <= MOST_ADDRESS:
            address = ctypes.create_string_buffer(size)
            raw.FPDFAction_GetURIPath(document.raw, action, address, size)
            yield Link(address.value.decode("utf-8", "replace"))


def _page_text(pieces: list[Piece], edges: list[Edge]) -> str:
    tables = [(table.bbox, text) for table in _find_tables(edges) if (text := _ruled_table(table, pieces))]
    free = [piece for piece in pieces if not any(_inside(piece, box) for box, _ in tables)]
    return "\n\n".join(_interleave(free, tables))


def _find_tables(edges: list[Edge]) -> list[Any]:
    """Find the tables that rules form; pdfplumber needs nothing of a page but its edges."""
    page: Any = SimpleNamespace(edges=edges)
    return TableFinder(page).tables if len(edges) >= FEWEST_RULES else []


def _interleave(words: list[Piece], tables: list[tuple[Box, str]]) -> list[str]:
    """Insert each ruled table where it begins; the words between two tables are laid out on their own."""
    texts: list[str] = []
    for box, table in sorted(tables, key=lambda entry: entry[0][1]):
        texts += blocks([word for word in words if word.bottom <= box[1] + 2])
        words = [word for word in words if word.bottom > box[1] + 2]
        texts.append(table)
    return texts + list(blocks(words))


def _ruled_table(table: Any, words: list[Piece]) -> str:
    """The text of a ruled table; empty if the rules only frame a part of the page."""
    frame = table.bbox
    inside = sorted((word for word in words if _inside(word, frame)), key=_middle)
    rows = [_row(row, inside) for row in table.rows]
    counts = [sum(bool(cell) for cell in row) for row in rows]
    if len(rows) < 2 or sum(count > 1 for count in counts) * 2 < len(rows) or any(None in row for row in rows):
        return ""
    texts = [[cell or "" for cell in row] for row in rows]
    return pipe_table(texts, header=looks_like_header(texts))


def _row(row: Any, words: list[Piece]) -> list[str | None]:
    """The texts of the boxes of a row; `words` are sorted from the top of the page downwards."""
    _, top, _, bottom = row.bbox
    beside = words[bisect_left(words, top, key=_middle) : bisect_right(words, bottom, key=_middle)]
    return [_cell(box, beside) for box in row.cells]


def _cell(box: Box | None, words: list[Piece]) -> str | None:
    """The text of one box; None if it holds a table or a page of text."""
    if box is None:
        return ""
    lines = lines_of([word for word in words if _inside(word, box)])
    if sum(len(line.cells) > 1 for line in lines) > 1 or sum(len(line.text.split()) for line in lines) > CELL_WORDS:
        return None
    return reduce(with_break, (line.text for line in lines), "").strip()


def _inside(word: Piece, box: Box) -> bool:
    return box[0] <= (word.x0 + word.x1) / 2 <= box[2] and box[1] <= _middle(word) <= box[3]


def _middle(word: Piece) -> float:
    """The distance of the middle of the word from the top of the page."""
    return (word.top + word.bottom) / 2


NAMES = {"Title": "title", "Author": "author", "Subject": "subject", "Keywords": "keywords"}


DATES = {"CreationDate": "created", "ModDate": "modified"}
codecs.lookup("utf-16-le")  # of the values; no codec can be loaded once a document is being read


_DATE = re.compile(r"D?:?(\d{4})(\d\d)(\d\d)")


def pdf_facts(about: Mapping[str, Any], pages: int) -> Iterator[Fact]:
    """Yield the facts of the information dictionary, which may hold anything; placeholders of programs are skipped."""
    for key, name in NAMES.items():
        value = about.get(key)
        if isinstance(value, str) and value.strip("() ").lower() not in {"", "anonymous", "untitled", "unspecified"}:
            yield Fact(name, value)
    for key, name in DATES.items():
        match = _DATE.match(str(about.get(key) or ""))
        if match:
            yield Fact(name, "-".join(match.groups()))
    yield Fact("pages", str(pages))
