"""The access of workflows to the web: pages and searches are stored with their workflow and reused while fresh."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Final

import orjson
from pydantic import TypeAdapter

from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_services.connectors.search.search_provider import Search, SearchQuery, SearchResults
from poweron_services.connectors.web.host_turns import HostTurns
from poweron_services.connectors.web.page_cache import Answer, FetchedPage, KeptAnswers, LocalPages, Reader, StoredPages
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_client import open_web_client
from poweron_services.connectors.web.web_rules import MAX_PAGES, WebRules, WebSettings

_RESULTS: Final = TypeAdapter(SearchResults)


async def no_search(_: SearchQuery, /) -> SearchResults:
    raise Refused("There is no search engine.", code="search_unavailable")


class StoredSearches:
    """Searches for workflows; the same query is sent again only when its stored results are no longer fresh."""

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
class Web:
    """Fetches pages and searches for workflows; a fresh stored answer serves every step of its workflow.

    Both functions raise `Refused` with a code and a sentence if there is no answer, and `Unavailable` if this machine
    or the content store fails. A refusal is stored for its step and repeated to it without another request.
    """

    fetch: Callable[[Reader, str], Awaitable[FetchedPage]]
    search: Callable[[Reader, SearchQuery], Awaitable[SearchResults]]
    max_pages: int = MAX_PAGES
    """The number of pages that one step may fetch."""


@asynccontextmanager
async def open_web(
    settings: WebSettings,
    content: ContentStore,
    *,
    search: Search = no_search,
    local_pages: LocalPages | None = None,
) -> AsyncGenerator[Web, None]:
    """Open access to the web for the context; `local_pages` serves the addresses that are not fetched from the web."""
    async with open_web_client(settings) as client:
        turns = HostTurns(settings.pause, _is_own(WebRules(settings)))
        pages = StoredPages(client, content, turns, local_pages=local_pages)
        yield Web(pages.fetch, StoredSearches(search, content).search, settings.max_pages)


def _is_own(rules: WebRules) -> Callable[[WebAddress], bool]:
    return lambda address: rules.private(address.host, address.port)
