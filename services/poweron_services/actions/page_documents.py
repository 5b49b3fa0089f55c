"""Pages as documents of a result: a head that says where the text comes from, then the text.

The head ends with a line of three dashes; nothing that pages say about themselves can put such a line into it. The
module also ranks the addresses that pages link to by how well their words fit a question.
"""

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from poweron_events.catalog import PageFormat
from poweron_events.step_events import ActionDocument
from poweron_services.actions.action import document
from poweron_services.actions.page_fetcher import GatheredPage, comparable, host_of, same_site
from poweron_services.actions.page_relevance import Relevance
from poweron_services.connectors.search.search_provider import SearchHit
from poweron_services.models.builtin.vocabulary import known_language

MAX_LINKS: Final = 20  # links of a result
MAX_LOOKED_AT: Final = 2_000
FILES: Final = frozenset({".pdf", ".docx", ".xlsx", ".pptx"})
MIME_TYPES: Final[dict[PageFormat, str]] = {"markdown": "text/markdown", "text": "text/plain"}
ENDINGS: Final[dict[PageFormat, str]] = {"markdown": "md", "text": "txt"}
HEAD_END: Final = "\n\n---\n\n"
_HEAD: Final = re.compile(r"(?:# )?[^\n]*\n\n- URL: \S+\n(?:- [^\n]*\n)*\n---\n\n")
MAX_NAME: Final = 80  # characters of a title, and of a host

_UNSAFE: Final = re.compile(r"[/\\:*?\"<>|\[\]`#]+")


def merged(pages: Sequence[GatheredPage]) -> list[GatheredPage]:
    """Return each text once, with all its addresses; the first address is the main one."""
    known: dict[str, GatheredPage] = {}
    for page in pages:
        digest = _digest(page.text.text)
        first = known.setdefault(digest, page)
        if first is not page and page.page.url != first.page.url and page.page.url not in first.also_at:
            known[digest] = replace(first, also_at=(*first.also_at, page.page.url))
    return [*known.values()]


def page_document(page: GatheredPage, name: str, text_format: PageFormat) -> ActionDocument:
    """Create the document of a page: its head, then its text."""
    content = page.text
    head = {
        "URL": [page.page.url],
        "Fetched at": [page.page.fetched_at],
        "SHA-256": [page.page.sha256],
        "The same text is at": page.also_at,
        "Author": [content.author],
        "Published": [content.published or ""],
        "Language": [content.language or ""],
        "Note": content.notes,
    }
    return _document(name, page.page.title or host_of(page.page.url), head, content.text, text_format)


def hit_document(hit: SearchHit, name: str, provider: str) -> ActionDocument:
    """Create the document of a search hit: what the engine shows of the page, which was not fetched."""
    head = {
        "URL": [hit.url],
        "Fetched at": [f"not fetched; this is what the search engine {provider} shows of it"],
        "Published": [hit.published or ""],
        "Language": [hit.language or ""],
    }
    text = "\n\n".join(part.strip() for part in (hit.snippet, hit.raw_content) if part.strip())
    return _document(name, hit.title or host_of(hit.url), head, text, "markdown")


def without_head(text: str) -> str:
    """Return the text of a page without its head; leave any other text unchanged."""
    match = _HEAD.match(text)
    return text[match.end() :] if match else text


def head_of(text: str) -> str:
    """Return the head of the text of a page, which says where it comes from; empty for any other text."""
    match = _HEAD.match(text)
    return match[0] if match else ""


def names(pages: Iterable[tuple[str, str]], text_format: PageFormat) -> list[str]:
    """Return unique names for the documents of pages, from their titles and addresses."""
    result: dict[str, None] = {}
    for title, address in pages:
        plain, ending = _plain(title, address), ENDINGS[text_format]
        candidates = (f"{plain}{number}.{ending}" for number in _numbers())
        result[next(name for name in candidates if name not in result)] = None
    return [*result]


def _numbers() -> Iterator[str]:
    yield ""
    yield from (f" ({number})" for number in range(2, 1_000))


def _plain(title: str, address: str) -> str:
    host = host_of(address).partition(":")[0][:MAX_NAME]
    words = " ".join(_UNSAFE.sub(" ", _printable(title)).split())
    if len(words) > MAX_NAME:
        words = words[:MAX_NAME].rpartition(" ")[0] or words[:MAX_NAME]
    return f"{words} - {host}" if words.strip(". ") else host


def _document(
    name: str, title: str, head: Mapping[str, Sequence[str]], text: str, text_format: PageFormat
) -> ActionDocument:
    mark = "# " if text_format == "markdown" else ""
    lines = [f"- {label}: {_line(value)}" for label, values in head.items() for value in values if value]
    body = f"{mark}{_line(title)}\n\n" + "\n".join(lines) + HEAD_END + text.strip() + "\n"
    return document(name, body, MIME_TYPES[text_format])


def _line(text: str) -> str:
    return " ".join(_printable(text).split())


def _printable(text: str) -> str:
    """Remove control characters and those that change the direction of writing."""
    categories = ((character, unicodedata.category(character)) for character in text)
    return "".join("" if kind == "Cf" else " " if kind[0] == "C" else character for character, kind in categories)


def _digest(text: str) -> str:
    return hashlib.sha256(" ".join(text.split()).casefold().encode("utf-8", errors="replace")).hexdigest()


def promising(
    pages: Iterable[GatheredPage], question: str, language: str | None, without: Collection[str] = ()
) -> list[str]:
    """Return the addresses that pages link to, each once; those whose words fit the question come first."""
    texts: dict[str, str] = {}
    for page in pages:
        for link in page.text.links[:MAX_LOOKED_AT]:
            address = comparable(link.url)
            if address and address not in without and len(texts) < MAX_LOOKED_AT:
                texts.setdefault(address, f"{link.text} {_words(address)}")
    scores = Relevance(texts.values(), known_language(language, question)).scores(question)
    order = sorted(range(len(texts)), key=lambda number: (-scores[number], number))
    addresses = [*texts]
    return [addresses[number] for number in order]


def of_same_site(page: GatheredPage) -> GatheredPage:
    """Return the page with only those links that stay on its site."""
    links = tuple(link for link in page.text.links if same_site(link.url, page.page.url))
    return replace(page, text=replace(page.text, links=links))


def is_file(address: str) -> bool:
    """Return whether an address ends like that of a PDF or an office file."""
    return PurePosixPath(urlsplit(address).path.casefold()).suffix in FILES


def _words(address: str) -> str:
    return unquote(urlsplit(address).path).replace("/", " ").replace("-", " ").replace("_", " ").replace(".", " ")
