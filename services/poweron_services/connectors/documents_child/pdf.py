"""PDF: one section per page, from the places of its words and the rules between them."""

import codecs
import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pdfplumber
from cryptography.hazmat.backends import default_backend
from pdfminer.pdfdocument import PDFPasswordIncorrect
from pdfplumber.utils.exceptions import PdfminerException

from poweron_services.connectors.documents_child import character_maps
from poweron_services.connectors.documents_child.document import Section, Unreadable
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.page_layout import Piece, blocks, lines_of
from poweron_services.connectors.documents_child.pdf_facts import pdf_facts
from poweron_services.connectors.documents_child.pipe_tables import looks_like_header, pipe_table
from poweron_services.connectors.documents_child.readers import Link, Note, Part, Picture

WORD_GAP = 0.2  # of the size of the letters
OVERPRINT = 2.5  # points: narrower letters may stand this close because they are doubled in the word
CELL_WORDS = 60  # a framed box with more words is layout, not a cell

Box = tuple[float, float, float, float]

codecs.lookup("utf-16-be")  # of some texts; nothing can be loaded any more once a document is read
default_backend()  # of the encrypted
character_maps.keep()


def read(data: bytes, _: Limits) -> Iterator[Part]:
    logging.disable()  # pdfminer describes each flaw of each font
    with _opened(data) as document:
        yield from pdf_facts(document.metadata, len(document.pages))
        for number, page in enumerate(document.pages, start=1):
            yield from _page(page, number)
            page.close()


def _page(page: Any, number: int) -> Iterator[Part]:
    """One bad page is no reason to lose the others."""
    try:
        text = _page_text(page)
        is_image = not text and bool(page.images)
    except MemoryError:
        raise
    except Exception as error:  # the library documents no end of its errors
        if error.args and isinstance(error.args[0], MemoryError):  # the library wraps it
            raise error.args[0] from error
        yield Note(f"Page {number} is damaged; its text could not be read.", truncated=True)
        return
    yield from _links(page)
    if text:
        yield Section(f"page {number}", text)
    elif is_image:
        yield Picture(f"page {number}")


def _links(page: Any) -> list[Link]:
    """Where its annotations lead to; damaged ones are no reason to lose the text."""
    try:
        return [Link(str(link["uri"])) for link in page.hyperlinks]
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - likewise
        return []


def _opened(data: bytes) -> Any:
    try:
        return pdfplumber.open(io.BytesIO(data))
    except PdfminerException as error:
        if isinstance(error.args[0], PDFPasswordIncorrect):
            raise Unreadable(
                "is protected with a password, so nothing of it can be read; "
                "save it without a password and hand it over again.",
                "document_protected",
            ) from error
        raise


def _page_text(page: Any) -> str:
    words = [_piece(word) for word in page.filter(_first_print()).extract_words(x_tolerance_ratio=WORD_GAP)]
    tables = [(table.bbox, text) for table in page.find_tables() if (text := _ruled_table(table, words))]
    free = [word for word in words if not any(_inside(word, box) for box, _ in tables)]
    return "\n\n".join(_interleaved(free, tables))


def _first_print() -> Callable[[dict[str, Any]], bool]:
    """Letters printed twice, almost on the same spot, are a way to make them bold."""
    seen: set[tuple[str, int, int]] = set()

    def is_first(thing: dict[str, Any]) -> bool:
        if thing["object_type"] != "char":
            return True
        text, x, y = thing["text"], int(thing["x0"]), int(thing["top"])
        near = {(text, x + right, y + down) for right in (-1, 0, 1) for down in (-1, 0, 1)}
        again = (text, x, y) in seen or (thing["x1"] - thing["x0"] > OVERPRINT and bool(near & seen))
        seen.add((text, x, y))
        return not again

    return is_first


def _interleaved(words: list[Piece], tables: list[tuple[Box, str]]) -> list[str]:
    """Ruled tables stand where they begin; the words between two of them are laid out on their own."""
    texts: list[str] = []
    for box, table in sorted(tables, key=lambda placed: placed[0][1]):
        texts += blocks([word for word in words if word.bottom <= box[1] + 2])
        words = [word for word in words if word.bottom > box[1] + 2]
        texts.append(table)
    return texts + list(blocks(words))


def _ruled_table(table: Any, words: list[Piece]) -> str:
    """The table that the rules draw; nothing if the rules only frame a part of the page."""
    inside = [word for word in words if _inside(word, table.bbox)]
    rows = [[_cell(box, inside) for box in row.cells] for row in table.rows]
    filled = [sum(bool(cell) for cell in row) for row in rows]
    if len(rows) < 2 or sum(count > 1 for count in filled) * 2 < len(rows) or any(None in row for row in rows):
        return ""
    texts = [[cell or "" for cell in row] for row in rows]
    return pipe_table(texts, header=looks_like_header(texts))


def _cell(box: Box | None, words: list[Piece]) -> str | None:
    """What stands in one box; None if that is itself a table or a page of text."""
    if box is None:
        return ""
    lines = lines_of([word for word in words if _inside(word, box)])
    if sum(len(line.cells) > 1 for line in lines) > 1 or sum(len(line.text.split()) for line in lines) > CELL_WORDS:
        return None
    return " ".join(line.text for line in lines)


def _inside(word: Piece, box: Box) -> bool:
    x, y = (word.x0 + word.x1) / 2, (word.top + word.bottom) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _piece(word: dict[str, Any]) -> Piece:
    return Piece(word["x0"], word["x1"], word["top"], word["bottom"], word["text"])
