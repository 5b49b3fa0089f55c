"""The interface of workflows to the web; pages and searches are stored with the workflow, so none is fetched twice."""

from typing import Protocol

from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults
from poweron_services.connectors.web.page_cache import FetchedPage
from poweron_services.connectors.web.response_cache import Reader


class Web(Protocol):
    """Returns the stored answer of the workflow if there is one, no matter which step fetched it.

    Both methods raise `Refused` with a code and a sentence if there is no answer, and `Unavailable` if this machine or
    the content store fails. A refusal is stored for its step and repeated to it without another request.
    """

    @property
    def max_pages(self) -> int:
        """The number of pages that one step may fetch."""

    async def fetch(self, reader: Reader, url: str, /) -> FetchedPage: ...

    async def search(self, reader: Reader, query: SearchQuery, /) -> SearchResults: ...
