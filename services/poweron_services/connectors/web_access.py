"""Access to the web for the workflows of one process; pages and searches are stored with their workflow."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Final

import orjson
from pydantic import TypeAdapter

from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_services.connectors.search.search_provider import Search, SearchQuery, SearchResults
from poweron_services.connectors.web.host_turns import HostTurns
from poweron_services.connectors.web.page_cache import FetchedPage, KeptPages, LocalPages, no_local_pages
from poweron_services.connectors.web.response_cache import Answer, KeptAnswers, Reader
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_client import open_web_client
from poweron_services.connectors.web.web_rules import WebRules
from poweron_services.connectors.web.web_settings import MAX_PAGES, WebSettings

_RESULTS: Final = TypeAdapter(SearchResults)


async def no_search(_: SearchQuery, /) -> SearchResults:
    raise Refused("There is no search engine.", code="search_unavailable")


class KeptSearches:
    """Searches for workflows; the same query is sent only once."""

    def __init__(self, search: Search, content: ContentStore) -> None:
        self._search = search
        self._answers = KeptAnswers(content, "searches")

    async def search(self, reader: Reader, query: SearchQuery) -> SearchResults:
        """Return the results stored for this workflow, or search now; raises as `Search` does."""

        async def ask(_: Answer | None) -> Answer:
            results: Answer = _RESULTS.dump_python(await self._search(query), mode="json")
            return results

        question = orjson.dumps(asdict(query)).decode()
        return _RESULTS.validate_python(await self._answers.answer(reader, question, ask))


@dataclass(frozen=True, slots=True)
class KeptWeb:
    """The implementation of `Web` that roles receive."""

    pages: KeptPages
    searches: KeptSearches
    max_pages: int = MAX_PAGES

    async def fetch(self, reader: Reader, url: str, /) -> FetchedPage:
        return await self.pages.fetch(reader, url)

    async def search(self, reader: Reader, query: SearchQuery, /) -> SearchResults:
        return await self.searches.search(reader, query)


@asynccontextmanager
async def open_web(
    settings: WebSettings,
    content: ContentStore,
    *,
    search: Search = no_search,
    local_pages: LocalPages = no_local_pages,
) -> AsyncGenerator[KeptWeb, None]:
    """Open access to the web for the context; `local_pages` serves the addresses that are not fetched from the web."""
    async with open_web_client(settings) as client:
        turns = HostTurns(settings.pause, _is_own(WebRules(settings)))
        pages = KeptPages(client, content, turns, local_pages=local_pages)
        yield KeptWeb(pages, KeptSearches(search, content), settings.max_pages)


def _is_own(rules: WebRules) -> Callable[[WebAddress], bool]:
    return lambda address: rules.private(address.host, address.port)
