"""Reading of an HTML page into its main text and metadata.

libxml2 stops at 256 nested elements and reports it only in its error log; a page cut there is marked as truncated.
"""

from typing import Any

import lxml.html  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.readers import clean
from poweron_services.connectors.documents_child.webpage import NESTED_TOO_DEEPLY, is_too_deep
from poweron_services.connectors.pages_child.decoding import decoded
from poweron_services.connectors.pages_child.main_text import has_many_elements, main_text
from poweron_services.connectors.pages_child.obstacles import obstacle_of
from poweron_services.connectors.pages_child.page_answers import Page, Question
from poweron_services.connectors.pages_child.page_facts import Origin, canonical_url, language, links, origin, title_of

MOST = 9_000_000  # bytes: libxml2 does not accept a text of 10 MB
LINE = 300  # characters of a title or of an author


def read(data: bytes, question: Question, limits: Limits) -> Page:
    """Read a page. Raises `Unreadable` if it has no text, no link and no obstacle."""
    notes: list[str] = []
    html = decoded(data, question.charset).encode("utf-8", "replace")
    if len(html) > MOST:
        notes.append(f"Only the first {MOST:,} of {len(html):,} bytes of the page were read.")
    root, parser = _parsed(html[:MOST])
    facts = Origin(title_of(root)) if has_many_elements(root) else origin(root, question.url)
    text = clean(main_text(root, question))
    found = links(root, question.url)
    obstacle = obstacle_of(root, text)
    is_cut = is_too_deep(parser)
    if not text and not found and obstacle is None:
        raise Unreadable("holds no text.", "document_unsafe" if is_cut else "document_without_text")
    if len(text) > limits.characters:
        notes.append(f"The text was cut off after {limits.characters:,} characters.")
    if is_cut:
        notes.append(NESTED_TOO_DEEPLY)
    return Page(
        text=text[: limits.characters],
        title=_line(facts.title),
        author=_line(facts.author),
        published=facts.published,
        language=language(root),
        canonical_url=canonical_url(root, question.url),
        links=tuple(found),
        truncated=bool(notes),
        notes=tuple(notes),
        obstacle=obstacle,
    )


def _parsed(html: bytes) -> tuple[Any, Any]:
    parser = lxml.html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False, default_doctype=False
    )
    try:
        return lxml.html.document_fromstring(html, parser=parser), parser
    except lxml.etree.ParserError:  # the page contains only white space
        raise Unreadable("holds no text.", "document_without_text") from None


def _line(text: str) -> str:
    return " ".join(clean(text).split())[:LINE]
