"""The main text of a page without its menus, footers and comments.

trafilatura weighs parts of the text against each other, which works for articles but not for pages of a few lines.
Those are read as documents are, and so are huge pages and pages where it omitted tables or lists that are wanted.
"""

import re
from copy import copy
from typing import Any

import lxml.etree  # type: ignore[import-untyped] # it has no stubs
import trafilatura

from poweron_services.connectors.documents_child.headings import OutlineBlock
from poweron_services.connectors.documents_child.webpage import drop_consent, main_blocks
from poweron_services.connectors.pages_child.page_answers import PageQuestion, TextFormat

FEW = 500  # characters; a page with fewer is a page of a few lines
NOT_SURELY_MORE = 3_000  # characters; a shorter result may include the menus of a short page
MANY = 50_000  # elements: trafilatura takes 50 to 100 seconds for a million of them
EMPHASIS = ("b", "strong", "i", "em", "u")  # its marks would end up inside quotations
AROUND = {"header", "nav", "aside", "footer"}
HEADINGS = ("h1", "h2", "h3")

_LIST_OR_TABLE = re.compile(r"(?:\| |- |1\. )")
_WORD = re.compile(r"\w+")
_ENDS = re.compile(r"[ \t]+$", re.MULTILINE)
_ESCAPE = re.compile(r"\\([*_`~\[\]<>+.)-])")  # these would also end up inside quotations


def main_text(root: Any, question: PageQuestion) -> str:
    """Return the main text of a parsed page. The page is not modified unless it has too many elements."""
    if has_many_elements(root):
        return _render(main_blocks(_without_frame(root)), question.text_format)
    page = copy(root)
    lxml.etree.strip_tags(page, *EMPHASIS)
    drop_consent(page)
    _open(page)
    _mark_main_part(page)
    text = _text_by_trafilatura(page, question)
    if question.depth == "basic" and len(text) >= NOT_SURELY_MORE:
        return text
    blocks = main_blocks(_without_frame(page))
    is_short = sum(len(block.text) for block in blocks) < FEW
    if is_short or not text or (question.depth == "advanced" and _lacks(text, blocks)):
        return _render(blocks, question.text_format)
    return text


def has_many_elements(root: Any) -> bool:
    """Return whether reading the page in the usual way would take far too long."""
    return bool(root.xpath("count(//*)") > MANY)


def _text_by_trafilatura(page: Any, question: PageQuestion) -> str:
    extract = trafilatura.bare_extraction(
        page,
        url=question.url,
        fast=True,
        favor_recall=question.depth == "advanced",
        include_comments=False,
        include_tables=True,
        include_formatting=question.text_format == "markdown",
    )
    if extract is None or isinstance(extract, dict):
        return ""
    text = _ENDS.sub("", extract.text or "")
    return _ESCAPE.sub(r"\1", text) if question.text_format == "markdown" else text


def _open(page: Any) -> None:
    """Turn asides into articles if they hold most of the text, and show parts that are hidden until found."""
    asides = list(page.iter("aside"))
    if sum(len(aside.text_content()) for aside in asides) * 2 > len(page.text_content()):
        for aside in asides:
            aside.tag = "article"
    for part in page.xpath(".//*[@hidden='until-found']"):
        del part.attrib["hidden"]


def _mark_main_part(page: Any) -> None:
    """Wrap paragraphs that are directly in the body in a main part; otherwise they would count as stray."""
    body = page.find("body")
    if body is None or body.find("p") is None or any(page.find(f".//{tag}") is not None for tag in ("main", "article")):
        return
    main = lxml.etree.SubElement(body, "main")
    main.text, body.text = body.text, None
    main.extend(part for part in list(body) if part is not main and part.tag not in AROUND)


def _without_frame(page: Any) -> Any:
    """Remove everything around the main part; a header with a heading is kept, since it is not a menu."""
    lxml.etree.strip_elements(page, "nav", "aside", "footer", with_tail=False)
    for header in [header for header in page.iter("header") if next(header.iter(*HEADINGS), None) is None]:
        header.drop_tree()
    return page


def _lacks(text: str, blocks: list[OutlineBlock]) -> bool:
    """Return whether lists or tables are missing from the text."""
    words = _words(text)
    return any(_words(block.text) not in words for block in blocks if _LIST_OR_TABLE.match(block.text))


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text))} "


def _render(blocks: list[OutlineBlock], text_format: TextFormat) -> str:
    marks = text_format == "markdown"
    return "\n\n".join(f"{'#' * block.level} {block.text}" if marks and block.level else block.text for block in blocks)
