"""The text of a page of the web, and how pages are read."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from poweron_events.catalog import ExtractDepth
from poweron_services.connectors.web.fetched_page import FetchedPage

Obstacle = Literal["javascript", "login", "consent"]
"""What stands between a page's text and whoever reads it without a browser."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """An address that the page links to, absolute, and the words of the link."""

    url: str
    text: str


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page says: its main text without menus and footers, and what it tells of itself."""

    text: str
    """Markdown, or plain text where that was asked for."""
    title: str = ""
    author: str = ""
    published: str | None = None
    """`2026-11-23`."""
    language: str | None = None
    canonical_url: str | None = None
    """The address that the page gives itself."""
    links: tuple[PageLink, ...] = ()
    truncated: bool = False
    notes: tuple[str, ...] = ()
    """What a person should know about how it was read, in whole sentences."""
    obstacle: Obstacle | None = None


class ReadPage(Protocol):
    """How the text of a fetched page is had; PDF and office files are read by the readers of documents.

    Where something stands before the text, that is told as `obstacle`, with what little text there is, or none.
    Raises `UnreadablePage`, which is `Refused`, with a code where nothing of it can be read; `Unavailable` only where
    this machine can start no process now.
    """

    async def __call__(
        self, page: FetchedPage, *, depth: ExtractDepth, text_format: Literal["markdown", "text"]
    ) -> PageText: ...


class OpenPages(Protocol):
    """Gives a `ReadPage` for as long as the context lasts: its child processes read one page after the other."""

    def __call__(self) -> AbstractAsyncContextManager[ReadPage]: ...
