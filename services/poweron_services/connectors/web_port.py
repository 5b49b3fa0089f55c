"""The web as workflows reach it: pages and searches, each kept with its workflow so that nothing is fetched twice."""

from typing import Protocol

from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults
from poweron_services.connectors.web.fetched_page import FetchedPage
from poweron_services.connectors.web.kept_answers import Reader


class Web(Protocol):
    """Gives what was kept where there is some, whoever fetched it.

    Both raise `Refused` with a code and a sentence where there is nothing to be had, and `Unavailable` where this
    machine or the content store is in trouble. What was refused to a step is refused to it again, without asking.
    """

    @property
    def max_pages(self) -> int:
        """How many pages one step may fetch."""

    async def fetch(self, reader: Reader, url: str, /) -> FetchedPage: ...

    async def search(self, reader: Reader, query: SearchQuery, /) -> SearchResults: ...
