"""Tavily: a search engine for programs, used over its API."""

from typing import Any

from pydantic import BaseModel, SecretStr

from poweron_services.connectors.search.engine_http import EngineApi, day, inside, readable
from poweron_services.connectors.search.search_provider import SearchHit, SearchQuery, SearchResults, tidied
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
        body = await self._api.post("/search", _parameters(query))
        hits = tuple(_as_hit(result) for result in readable(_Result, body.get("results")))
        answer = inside(body, "answer")
        notes = [f"The search engine finds at most {MOST} pages at once."] if query.max_results > MOST else []
        answer_text = answer if isinstance(answer, str) else ""
        return tidied(SearchResults("tavily", hits, answer_text, tuple(notes)), query)


def _parameters(query: SearchQuery) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "query": query.query,
        "max_results": min(query.max_results, MOST),
        "search_depth": query.search_depth,
        "topic": query.topic,
        "include_answer": query.include_answer,
        "include_raw_content": query.include_raw_content,
        "include_domains": list(query.include_domains),
        "exclude_domains": list(query.exclude_domains),
    }
    return parameters if query.time_range is None else {**parameters, "time_range": query.time_range}


def _as_hit(result: _Result) -> SearchHit:
    return SearchHit(
        url=result.url,
        title=result.title or "",
        snippet=result.content or "",
        published=day(result.published_date),
        raw_content=result.raw_content or "",
    )
