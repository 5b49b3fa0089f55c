"""Tavily: a search engine for programs, used over its API."""

from typing import Any

from pydantic import BaseModel, SecretStr

from poweron_services.connectors.search.engine_http import EngineApi, day, inside, readable
from poweron_services.connectors.search.results import tidied
from poweron_services.connectors.search.search_provider import SearchHit, SearchQuery, SearchResults
from poweron_services.connectors.web.web_client import WebClient

MOST = 20  # results of one request


class _Result(BaseModel):
    url: str
    title: str | None = None
    content: str | None = None
    raw_content: str | None = None
    published_date: str | None = None


class Tavily:
    """Searches with Tavily. Failures are raised as `EngineFailed`."""

    def __init__(self, place: str, key: SecretStr, client: WebClient) -> None:
        self._api = EngineApi("Tavily", place, client, key, {"authorization": f"Bearer {key.get_secret_value()}"})

    async def search(self, query: SearchQuery) -> SearchResults:
        said = await self._api.post("/search", _asked(query))
        hits = tuple(_hit(one) for one in readable(_Result, said.get("results")))
        answer = inside(said, "answer")
        notes = [f"The search engine finds at most {MOST} pages at once."] if query.max_results > MOST else []
        told = answer if isinstance(answer, str) else ""
        return tidied(SearchResults("tavily", hits, told, tuple(notes)), query)


def _asked(query: SearchQuery) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "query": query.query,
        "max_results": min(query.max_results, MOST),
        "search_depth": query.search_depth,
        "topic": query.topic,
        "include_answer": query.include_answer,
        "include_raw_content": query.include_raw_content,
        "include_domains": list(query.include_domains),
        "exclude_domains": list(query.exclude_domains),
    }
    return asked if query.time_range is None else {**asked, "time_range": query.time_range}


def _hit(result: _Result) -> SearchHit:
    return SearchHit(
        url=result.url,
        title=result.title or "",
        snippet=result.content or "",
        published=day(result.published_date),
        raw_content=result.raw_content or "",
    )
