"""SearXNG: a self-hosted engine that queries other engines, used over its API. Its settings must allow JSON answers."""

from typing import Any, Final

from pydantic import BaseModel

from poweron_services.connectors.search.engine_http import EngineApi, EngineFailed, day, readable, within_domains
from poweron_services.connectors.search.search_provider import SearchHit, SearchQuery, SearchResults, tidied
from poweron_services.connectors.web.web_client import WebClient

MOST_PAGES = 5  # pages of results that are requested
LONGEST = 1_000  # characters of a query

_CATEGORIES: Final = {"general": "general", "news": "news", "finance": "general"}


class _Result(BaseModel):
    url: str
    title: str | None = None
    content: str | None = None
    publishedDate: str | None = None  # noqa: N815 - its name on the wire


class SearXNG:
    """Searches with a SearXNG instance. Failures are raised as `EngineFailed`."""

    def __init__(self, place: str, client: WebClient) -> None:
        self._api = EngineApi("SearXNG", place, client)

    async def search(self, query: SearchQuery) -> SearchResults:
        answer_body, hits, notes = await self._pages(query)
        if failures := answer_body.get("unresponsive_engines"):
            self._expect_some(hits, failures)
            notes.append("Some of those that the search engine asks did not answer.")
        if query.include_raw_content:
            notes.append("The search engine gives no text of the pages.")
        answer = " ".join(_answers(answer_body.get("answers")))
        return tidied(SearchResults("searxng", tuple(hits), answer, tuple(notes)), query)

    async def _pages(self, query: SearchQuery) -> tuple[dict[str, Any], list[SearchHit], list[str]]:
        """Request pages until there are enough hits or no new ones; return the first answer, all hits and any notes."""
        first = await self._api.get("/search", _parameters(query, 1))
        hits = _hits(first)
        for page in range(2, MOST_PAGES + 1):
            before = {hit.url for hit in hits}
            if not hits or len(before) >= query.max_results:
                break
            try:
                hits += _hits(await self._api.get("/search", _parameters(query, page)))
            except EngineFailed:
                return first, hits, ["The search engine gave a part of its results only."]
            if {hit.url for hit in hits} == before:
                break
        return first, hits, []

    def _expect_some(self, hits: list[SearchHit], failures: object) -> None:
        if not hits:
            self._api.fail("search_failed", f"None of its engines answered: {failures}")


def _parameters(query: SearchQuery, page: int) -> dict[str, str | int]:
    parameters: dict[str, str | int] = {
        "q": within_domains(query.query, query.include_domains, longest=LONGEST),
        "format": "json",
        "categories": _CATEGORIES[query.topic],
        "pageno": page,
    }
    if query.language is not None:
        parameters["language"] = query.language
    if query.time_range is not None:
        parameters["time_range"] = query.time_range
    return parameters


def _hits(body: dict[str, Any]) -> list[SearchHit]:
    return [
        SearchHit(result.url, result.title or "", result.content or "", day(result.publishedDate))
        for result in readable(_Result, body.get("results"))
    ]


def _answers(items: object) -> list[str]:
    """The texts of the answers: older releases send strings, newer ones objects that hold a string."""
    texts = [
        item.get("answer") if isinstance(item, dict) else item for item in (items if isinstance(items, list) else [])
    ]
    return [text for text in texts if isinstance(text, str)]
