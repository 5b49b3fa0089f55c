"""Extraction of the main text of web pages: HTML in long-lived child processes, the rest by `DocumentReader`.

A child reads the pages of one step only, so a page that takes over its child sees nothing of other workflows. A child
that fails on a page is killed, and another one reads the next page.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from email.message import Message
from typing import Final
from urllib.parse import unquote, urlsplit

from poweron_events.catalog import ExtractDepth, PageFormat
from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.redaction import redacted
from poweron_services.connectors.document_reader import DocumentReader, ExtractedDocument, UnreadableDocument
from poweron_services.connectors.documents_child import media_types
from poweron_services.connectors.documents_child.media_types import BY_EXTENSION, named_kind, sniff
from poweron_services.connectors.documents_child.readers import TEXTS
from poweron_services.connectors.page_child import LIMITS, PageChild, PageLink, PageText, PageUnread, ReadPage
from poweron_services.connectors.pages_child.page_answers import PageQuestion
from poweron_services.connectors.web.page_cache import FetchedPage

IDLE = 8  # children that wait for the next page of their step; each takes some 50 MB
HEAD = 4096  # bytes used to detect the type of a page
UNNAMED = "page"
HTML: Final = {"text/html", "application/xhtml+xml"}
WHY: Final[Mapping[Code, str]] = {
    "document_damaged": "is damaged, or was too much for the process that read it",
    "document_empty": "is empty",
    "document_format_unknown": "is no kind of page or document that can be read",
    "document_protected": "is protected with a password",
    "document_timeout": "could not be read in time",
    "document_too_large": "is larger than what can be read",
    "document_unsafe": "is built in a way that is not safe to open",
    "document_without_text": "holds no text",
}


class UnreadablePage(Refused):
    """Raised if nothing of a page can be read; `why` completes a sentence that begins with the name of the page."""

    def __init__(self, page: FetchedPage, code: Code) -> None:
        self.why = f"{WHY.get(code, WHY['document_damaged'])}."
        super().__init__(f"The page {redacted(page.url)} {self.why}", code=code)


class PageReader:
    """Reads pages in the slots of `DocumentReader`: a page may take as much memory and time as a document."""

    def __init__(self, read_document: DocumentReader) -> None:
        self._read_document = read_document
        self._steps: set[object] = set()
        self._idle: dict[PageChild, object] = {}  # the step of each child; the longest idle first

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[ReadPage, None]:
        """Open a reader for one step; its first child loads its modules while the first page is still being fetched."""
        step = object()

        async def read(page: FetchedPage, *, depth: ExtractDepth, text_format: PageFormat) -> PageText:
            if _is_html(page):
                return await self._read_html(page, PageQuestion(page.url, _charset(page), depth, text_format), step)
            return await self._read_other(page, text_format)

        self._steps.add(step)
        try:
            await self._keep(await PageChild.started(), step)
            yield read
        finally:
            self._steps.remove(step)
            for child in [child for child, of in self._idle.items() if of is step]:
                await self._end(child)

    async def _read_html(self, page: FetchedPage, question: PageQuestion, step: object) -> PageText:
        async with self._read_document.places:
            child = self._take(step) or await PageChild.started()
            try:
                text = await child.read(question, page.body)
            except PageUnread as error:
                await child.end()
                raise UnreadablePage(page, error.code) from None
            except BaseException:
                await child.end()
                raise
            await self._keep(child, step)
            return text

    async def _read_other(self, page: FetchedPage, text_format: PageFormat) -> PageText:
        async def load() -> bytes:
            return page.body

        name = _name(page)
        try:
            return _text_of(await self._read_document(load, len(page.body), name), name, text_format)
        except UnreadableDocument as error:
            raise UnreadablePage(page, error.document.code) from None

    def _take(self, step: object) -> PageChild | None:
        child = next((child for child, of in self._idle.items() if of is step and child.can_go_on), None)
        if child is not None:
            del self._idle[child]
        return child

    async def _keep(self, child: PageChild, step: object) -> None:
        """Keep a child for the next page of its step; at most `IDLE` children of all steps are kept."""
        self._idle[child] = step
        if step not in self._steps or not child.can_go_on:
            await self._end(child)
        elif len(self._idle) > IDLE:
            await self._end(next(iter(self._idle)))

    async def _end(self, child: PageChild) -> None:
        self._idle.pop(child, None)
        await child.end()


def _is_html(page: FetchedPage) -> bool:
    """Return whether the page is HTML, by its first bytes, or by its media type if these are inconclusive."""
    kind = sniff(page.body[:HEAD], UNNAMED)
    may_be = bool(page.body) and kind in {*TEXTS, media_types.UNKNOWN}
    return kind == media_types.HTML or (may_be and page.media_type in HTML)


def _charset(page: FetchedPage) -> str:
    header = Message()
    header["content-type"] = page.headers.get("content-type", "")
    return header.get_content_charset() or ""


def _name(page: FetchedPage) -> str:
    """The file name from the URL; an extension for the media type is added if the name has no known one."""
    name = unquote(urlsplit(page.url).path.rpartition("/")[2]) or UNNAMED
    ending = next((ending for ending, kind in BY_EXTENSION.items() if kind == page.media_type), "")
    return name if named_kind(name) else name + ending


def _text_of(document: ExtractedDocument, name: str, text_format: PageFormat) -> PageText:
    mark = "## " if text_format == "markdown" else ""
    parts = [
        f"{mark}{section.locator}\n\n{section.text}" if section.locator else section.text
        for section in document.sections
    ]
    text = "\n\n".join(parts)
    notes = document.notes
    if len(text) > LIMITS.characters:
        notes = (*notes, f"The text was cut off after {LIMITS.characters:,} characters.")
    return PageText(
        text[: LIMITS.characters],
        title=name,
        links=tuple(PageLink(address, "") for address in document.links),
        truncated=document.truncated or len(text) > LIMITS.characters,
        notes=notes,
    )
