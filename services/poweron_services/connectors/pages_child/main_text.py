"""The main text of a page without its menus, footers and comments.

trafilatura weighs text against text, so it is right about articles and wrong about pages of a few lines. Those are
read as a document is, and so are huge ones, and pages of which it left out tables or lists that are wanted.
"""

import re
from copy import copy
from typing import Any

import lxml.etree  # type: ignore[import-untyped] # it has no stubs
import trafilatura

from poweron_services.connectors.documents_child.outline import Block
from poweron_services.connectors.documents_child.webpage import drop_consent, main_blocks
from poweron_services.connectors.pages_child.page_answers import Question, TextFormat

FEW = 500  # characters of a page of a few lines
NOT_SURELY_MORE = 3_000  # characters that may be more than the main text: of a short page, the menus come along
MANY = 50_000  # elements: trafilatura takes 50 to 100 seconds for a million of them
EMPHASIS = ("b", "strong", "i", "em", "u")  # its marks would stand between the words that somebody quotes
AROUND = {"header", "nav", "aside", "footer"}
HEADINGS = ("h1", "h2", "h3")

_LIST_OR_TABLE = re.compile(r"(?:\| |- |1\. )")
_WORD = re.compile(r"\w+")
_ENDS = re.compile(r"[ \t]+$", re.MULTILINE)
_ESCAPED = re.compile(r"\\([*_`~\[\]<>+.)-])")  # within the words that somebody quotes, too


def main_text(root: Any, question: Question) -> str:
    """Of a parsed page, which is left as it is unless it is far too large."""
    if has_many_elements(root):
        return _written(main_blocks(_without_frame(root)), question.text_format)
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
        return _written(blocks, question.text_format)
    return text


def has_many_elements(root: Any) -> bool:
    """Whether reading the page as others are read would take far too long."""
    return bool(root.xpath("count(//*)") > MANY)


def _text_by_trafilatura(page: Any, question: Question) -> str:
    found = trafilatura.bare_extraction(
        page,
        url=question.url,
        fast=True,
        favor_recall=question.depth == "advanced",
        include_comments=False,
        include_tables=True,
        include_formatting=question.text_format == "markdown",
    )
    if found is None or isinstance(found, dict):
        return ""
    text = _ENDS.sub("", found.text or "")
    return _ESCAPED.sub(r"\1", text) if question.text_format == "markdown" else text


def _open(page: Any) -> None:
    """Make parts of what a page is about that are none by their names: most of its text, or what opens when found."""
    asides = list(page.iter("aside"))
    if sum(len(aside.text_content()) for aside in asides) * 2 > len(page.text_content()):
        for aside in asides:
            aside.tag = "article"
    for part in page.xpath(".//*[@hidden='until-found']"):
        del part.attrib["hidden"]


def _mark_main_part(page: Any) -> None:
    """Where paragraphs stand in the page itself: without any part around them, they would count as stray."""
    body = page.find("body")
    if body is None or body.find("p") is None or any(page.find(f".//{tag}") is not None for tag in ("main", "article")):
        return
    main = lxml.etree.SubElement(body, "main")
    main.text, body.text = body.text, None
    main.extend(part for part in list(body) if part is not main and part.tag not in AROUND)


def _without_frame(page: Any) -> Any:
    """Without what stands around its main part; a header with a heading is no menu."""
    lxml.etree.strip_elements(page, "nav", "aside", "footer", with_tail=False)
    for header in [header for header in page.iter("header") if next(header.iter(*HEADINGS), None) is None]:
        header.drop_tree()
    return page


def _lacks(text: str, blocks: list[Block]) -> bool:
    """Whether there are lists or tables that do not stand in the text."""
    words = _words(text)
    return any(_words(block.text) not in words for block in blocks if _LIST_OR_TABLE.match(block.text))


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text))} "


def _written(blocks: list[Block], text_format: TextFormat) -> str:
    marks = text_format == "markdown"
    return "\n\n".join(f"{'#' * block.level} {block.text}" if marks and block.level else block.text for block in blocks)
