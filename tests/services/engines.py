"""Doubles of the search engines with an API: they answer in the forms that the engines document."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from poweron_services.connectors.search.search_engine import SearchEngine, open_search
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import Settings

KEY = "tvly-canary-key-of-an-engine"
ENGINES = ("tavily", "brave", "searxng")

Page = dict[str, Any]
"""What an engine knows of a page: `url`, `title`, `text`, and perhaps `day` and `language`."""


def page(url: str, title: str = "Museums", text: str = "Opening hours", **more: Any) -> Page:
    return {"url": url, "title": title, "text": text, **more}


def opened(engine: str, at: str, **settings: Any) -> AbstractAsyncContextManager[SearchEngine | None]:
    """The engine, asked over HTTP at this address."""
    keys = SearchKeys(tavily_api_key=KEY, tavily_base_url=at, brave_api_key=KEY, brave_base_url=at)
    search = f"searxng:{at}" if engine == "searxng" else engine
    return open_search(Settings(search=search, **settings), keys)


class Playing:
    """A server that plays an engine: gives these pages, or each of these replies in turn, and keeps what was asked."""

    def __init__(self, server: HTTPServer, engine: str, pages: Sequence[Page] = (), **more: Any) -> None:
        self.engine, self.pages, self.more = engine, pages, more
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.next: list[Callable[[], Response]] = []
        server.expect_request(re.compile(".*")).respond_with_handler(self._reply)

    def failing(self, status: int, said: object = None) -> None:
        body = said if said is not None else error_body(self.engine, status)
        self.next.append(lambda: _json(body, status))

    def _reply(self, request: Request) -> Response:
        self.asked.append(orjson.loads(request.get_data()) if request.method == "POST" else dict(request.args))
        self.headers.append({name.lower(): value for name, value in request.headers})
        self.paths.append(request.path)
        if self.next:
            return self.next.pop(0)()
        return _json(self._answer(self.asked[-1], request.path), 200)

    def _answer(self, asked: dict[str, Any], path: str) -> object:
        match self.engine:
            case "tavily":
                results = [_tavily(one) for one in self.pages[: asked["max_results"]]]
                return {"query": asked["query"], "response_time": 0.9, "images": [], "results": results, **self.more}
            case "brave":
                first = int(asked["offset"]) * int(asked["count"])
                results = [_brave(one) for one in self.pages[first : first + int(asked["count"])]]
                if "/news/" in path:
                    return {"type": "news", "query": {"original": asked["q"]}, "results": results}
                return {"type": "search", "web": {"type": "search", "results": results}, **self.more}
            case _:
                first = (int(asked["pageno"]) - 1) * 10
                results = [_searxng(one) for one in self.pages[first : first + 10]]
                return {"query": asked["q"], "number_of_results": 0, "results": results, "answers": [], **self.more}


def error_body(engine: str, status: int) -> object:
    """What an engine sends with an error; each repeats the key, as some really do."""
    said = f"Something is wrong with {KEY}"
    if engine == "tavily":
        return {"detail": {"error": said}}
    if engine == "brave":
        codes = {422: "SUBSCRIPTION_TOKEN_INVALID", 429: "RATE_LIMITED", 402: "USAGE_LIMIT_EXCEEDED"}
        error = {"id": "5d83", "status": status, "code": codes.get(status, "INTERNAL"), "detail": said, "meta": {}}
        return {"type": "ErrorResponse", "error": error, "time": 1}
    return f"<!doctype html><title>{status}</title>{said}"


def _json(body: object, status: int) -> Response:
    text = body if isinstance(body, str) else orjson.dumps(body)
    return Response(text, status, {"Content-Type": "application/json"})


def _tavily(one: Page) -> Page:
    score = {"score": 0.9, "raw_content": one.get("whole"), "published_date": one.get("day")}
    return {"url": one["url"], "title": one["title"], "content": one["text"], **score}


def _brave(one: Page) -> Page:
    told = {"type": "search_result", "language": one.get("language", "en"), "family_friendly": True}
    return {
        "url": one["url"],
        "title": one["title"],
        "description": f"<strong>{one['text']}</strong>",
        "page_age": one.get("day"),
        **told,
    }


def _searxng(one: Page) -> Page:
    told = {"engine": "wikipedia", "engines": ["wikipedia"], "score": 1.0, "category": "general", "parsed_url": []}
    return {
        "url": one["url"],
        "title": one["title"],
        "content": one["text"],
        "publishedDate": one.get("day"),
        **told,
    }
