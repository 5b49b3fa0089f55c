"""The text of a web page, and the protocols for reading pages."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from poweron_events.catalog import ExtractDepth
from poweron_services.connectors.web.page_cache import FetchedPage

Obstacle = Literal["javascript", "login", "consent"]
"""What keeps a reader without a browser from the text of a page."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """An absolute address that the page links to, and the link text."""

    url: str
    text: str


@dataclass(frozen=True, slots=True)
class PageText:
    """The main text of a page, without menus and footers, and its metadata."""

    text: str
    """Markdown, or plain text if that was requested."""
    title: str = ""
    author: str = ""
    published: str | None = None
    """A date such as `2026-11-23`."""
    language: str | None = None
    canonical_url: str | None = None
    """The address that the page declares as its own."""
    links: tuple[PageLink, ...] = ()
    truncated: bool = False
    notes: tuple[str, ...] = ()
    """Whole sentences for users about how the page was read."""
    obstacle: Obstacle | None = None


class ReadPage(Protocol):
    """Reads the text of a fetched page; PDF and office files are read by the document readers.

    If something hides the text, `obstacle` names it, and `text` is the little text there is, or empty.
    Raises `UnreadablePage`, a `Refused`, with a code if nothing of the page can be read, and `Unavailable` only if
    this machine cannot start a process now.
    """

    async def __call__(
        self, page: FetchedPage, *, depth: ExtractDepth, text_format: Literal["markdown", "text"]
    ) -> PageText: ...


class OpenPages(Protocol):
    """Opens a `ReadPage` for the duration of a context; its child processes read one page after another."""

    def __call__(self) -> AbstractAsyncContextManager[ReadPage]: ...
