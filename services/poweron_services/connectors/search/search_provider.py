"""The port behind which search engines stand: a question in, hits out, in the same words for all of them."""

from dataclasses import dataclass
from typing import Literal, Protocol

from poweron_events.catalog import SearchDepth, TimeRange

Topic = Literal["general", "news", "finance"]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is searched for: the parameters of `web.search`."""

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
    """What the engine shows of it."""
    published: str | None = None
    """The date that the engine has for it, as `2026-11-23`."""
    language: str | None = None
    raw_content: str = ""
    """The page's text, where it was asked for and the engine has it."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The hits, best first, each page once."""

    provider: str
    """The name of the engine, such as `tavily`."""
    hits: tuple[SearchHit, ...]
    answer: str = ""
    """The engine's own answer, where it was asked for one and gives any."""
    notes: tuple[str, ...] = ()
    """What could not be heeded, or was left out, in whole sentences."""


class Search(Protocol):
    """How the web is searched.

    Raises `Refused` with a code and a sentence where the engine refuses (its key, its quota, its limits) or does not
    answer in time: another try at once would end alike.
    """

    async def __call__(self, query: SearchQuery, /) -> SearchResults: ...
