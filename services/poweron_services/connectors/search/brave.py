"""Brave: a search engine with its own index, used over its API."""

from typing import Final

from pydantic import BaseModel, SecretStr

from poweron_services.connectors.search.engine_http import (
    EngineApi,
    EngineFailed,
    day,
    inside,
    readable,
    within_domains,
)
from poweron_services.connectors.search.search_provider import SearchHit, SearchQuery, SearchResults, tidied
from poweron_services.connectors.web.web_client import WebClient

AT_ONCE = 20  # results of one request
LONGEST = 400  # characters of a query
MOST_WORDS = 50

CODES: Final = {
    "SUBSCRIPTION_TOKEN_INVALID": "search_unauthorized",
    "SUBSCRIPTION_NOT_FOUND": "search_unauthorized",
    "OPTION_NOT_IN_PLAN": "search_unauthorized",
    "RESOURCE_NOT_ALLOWED": "search_unauthorized",
    "QUOTA_LIMITED": "search_quota",
    "USAGE_LIMIT_EXCEEDED": "search_quota",
    "RATE_LIMITED": "search_busy",
}
_FRESHNESS: Final = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
_LANGUAGES: Final = {
    *("ar", "bg", "bn", "ca", "cs", "da", "de", "en", "en-gb", "es", "et", "eu", "fi", "fr", "gl", "gu", "he", "hi"),
    *("hr", "hu", "is", "it", "jp", "kn", "ko", "lt", "lv", "ml", "mr", "ms", "nb", "nl", "pa", "pl", "pt-br", "pt-pt"),
    *("ro", "ru", "sk", "sl", "sr", "sv", "ta", "te", "th", "tr", "uk", "vi", "zh-hans", "zh-hant"),
}
_OTHERWISE: Final = {
    "ja": "jp",
    "nn": "nb",
    "no": "nb",
    "pt": "pt-pt",
    "zh": "zh-hans",
    "zh-cn": "zh-hans",
    "zh-hk": "zh-hant",
    "zh-tw": "zh-hant",
}


class _Result(BaseModel):
    url: str
    title: str | None = None
    description: str | None = None
    language: str | None = None
    page_age: str | None = None


class Brave:
    """Searches with Brave. Failures are raised as `EngineFailed`."""

    def __init__(self, place: str, key: SecretStr, client: WebClient) -> None:
        self._api = EngineApi("Brave", place, client, key, {"x-subscription-token": key.get_secret_value()}, CODES)

    async def search(self, query: SearchQuery) -> SearchResults:
        hits, notes = await self._pages(query)
        if query.include_answer:
            notes.append("The search engine gives no answer of its own.")
        if query.include_raw_content:
            notes.append("The search engine gives no text of the pages.")
        return tidied(SearchResults("brave", tuple(hits), notes=tuple(notes)), query)

    async def _pages(self, query: SearchQuery) -> tuple[list[SearchHit], list[str]]:
        """Request pages until there are enough hits. If a later page fails, return the hits so far and a note."""
        hits: list[SearchHit] = []
        for page in range(-(-query.max_results // AT_ONCE)):
            try:
                page_hits = await self._page(query, page)
            except EngineFailed:
                if not hits:
                    raise
                return hits, ["The search engine gave a part of its results only."]
            hits += page_hits
            if len(page_hits) < AT_ONCE:
                break
        return hits, []

    async def _page(self, query: SearchQuery, page: int) -> list[SearchHit]:
        news = query.topic == "news"
        answer = await self._api.get(f"/res/v1/{'news' if news else 'web'}/search", _parameters(query, page))
        results = inside(answer, "results") if news else inside(answer, "web", "results")
        return [_as_hit(result) for result in readable(_Result, results)]


def _parameters(query: SearchQuery, page: int) -> dict[str, str | int]:
    question = " ".join(query.query.split()[:MOST_WORDS])
    parameters: dict[str, str | int] = {
        "q": within_domains(question, query.include_domains, longest=LONGEST),
        "count": AT_ONCE if query.max_results > AT_ONCE else max(query.max_results, 1),
        "offset": page,
        "text_decorations": "false",
    }
    if query.topic != "news":
        parameters["result_filter"] = "web"
    if query.time_range is not None:
        parameters["freshness"] = _FRESHNESS[query.time_range]
    if (language := _language(query.language)) is not None:
        parameters["search_lang"] = language
    return parameters


def _language(tag: str | None) -> str | None:
    """Brave's name for the language, or None if it does not support it."""
    if tag is None:
        return None
    full_tag = tag.lower()
    names = [_OTHERWISE.get(name, name) for name in (full_tag, full_tag.partition("-")[0])]
    return next((name for name in names if name in _LANGUAGES), None)


def _as_hit(result: _Result) -> SearchHit:
    return SearchHit(
        url=result.url,
        title=result.title or "",
        snippet=result.description or "",
        published=day(result.page_age),
        language=result.language,
    )
