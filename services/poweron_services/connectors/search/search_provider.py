"""The interface of all search engines: a query in, hits out, with the same types for every engine."""

from dataclasses import dataclass
from typing import Literal, Protocol

from poweron_events.catalog import SearchDepth, TimeRange

Topic = Literal["general", "news", "finance"]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search query: the parameters of `web.search`."""

    query: str
    max_results: int = 10
    search_depth: SearchDepth = "basic"
    time_range: TimeRange | None = None
    topic: Topic = "general"
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    language: str | None = None
    include_answer: bool = False
    include_raw_content: bool = False


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A page that was found."""

    url: str
    title: str
    snippet: str = ""
    """The engine's excerpt of the page."""
    published: str | None = None
    """The date that the engine reports, such as `2026-11-23`."""
    language: str | None = None
    raw_content: str = ""
    """The text of the page, if it was requested and the engine has it."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The hits, best first, each page once."""

    provider: str
    """The name of the engine, such as `tavily`."""
    hits: tuple[SearchHit, ...]
    answer: str = ""
    """The engine's own answer, if it was requested and the engine gives one."""
    notes: tuple[str, ...] = ()
    """Whole sentences about parameters that were not applied and results that were left out."""


class Search(Protocol):
    """Searches the web.

    Raises `Refused` with a code and a message if the engine rejects the request (key, quota, limits) or does not answer
    in time. An immediate retry would fail in the same way.
    """

    async def __call__(self, query: SearchQuery, /) -> SearchResults: ...
