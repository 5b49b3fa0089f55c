"""The search engines with an API: what they are asked, what is made of their answers, and what their failures mean."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from engines import ENGINES, KEY, Playing, opened, page
from pytest_httpserver import HTTPServer
from werkzeug import Response

from poweron_events.errors import Refused
from poweron_services.actions.action import Resources
from poweron_services.actions.registry import actions
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_reader import PageReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.connectors.search.search_engine import SearchEngine, open_search
from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import Settings

QUESTION = "museums open on Mondays"
MANY = [page(f"https://museum-{number}.example/", f"Museum {number}") for number in range(45)]


@asynccontextmanager
async def searching(engine: str, at: str, **settings: Any) -> AsyncIterator[SearchEngine]:
    async with opened(engine, at, **settings) as given:
        assert given is not None
        yield given


async def search(server: HTTPServer, engine: str, query: SearchQuery) -> SearchResults:
    async with searching(engine, server.url_for("")) as given:
        return await given.search(query)


async def refusal(engine: str, at: str, **settings: Any) -> Refused:
    async with searching(engine, at, **settings) as given:
        with pytest.raises(Refused) as refused:
            await given.search(SearchQuery(QUESTION))
    return refused.value


@pytest.mark.req("C-01")
@pytest.mark.parametrize("engine", ENGINES)
async def test_each_engine_finds_pages_in_the_same_words(engine: str, httpserver: HTTPServer) -> None:
    Playing(httpserver, engine, [page("https://harbor.example/visit", "Harbor Museum", "Open daily", day="2026-02-01")])

    results = await search(httpserver, engine, SearchQuery(QUESTION))

    (hit,) = results.hits
    assert (hit.url, hit.title, hit.snippet, hit.published) == (
        "https://harbor.example/visit",
        "Harbor Museum",
        "Open daily",
        "2026-02-01",
    )
    assert (results.provider, results.answer, results.notes) == (engine, "", ())


@pytest.mark.parametrize("said", ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "last week"])
async def test_a_day_that_there_is_not_is_none(said: str, httpserver: HTTPServer) -> None:
    result = {"url": "https://harbor.example/", "title": "Harbor", "content": "Open.", "published_date": said}
    httpserver.expect_request("/search").respond_with_json({"results": [result]})

    results = await search(httpserver, "tavily", SearchQuery(QUESTION))

    assert [hit.published for hit in results.hits] == [None]


@pytest.mark.req("C-01")
async def test_tavily_is_asked_with_every_parameter(httpserver: HTTPServer) -> None:
    found = [page("https://harbor.example/", day="Sun, 01 Feb 2026 10:00:00 GMT", whole="All of the page.")]
    playing = Playing(httpserver, "tavily", found, answer="The Harbor Museum.")
    query = SearchQuery(
        QUESTION,
        max_results=50,
        search_depth="advanced",
        time_range="week",
        topic="news",
        include_domains=("harbor.example",),
        exclude_domains=("courier.example",),
        include_answer=True,
        include_raw_content=True,
    )

    results = await search(httpserver, "tavily", query)

    assert playing.paths == ["/search"]
    assert playing.headers[0]["authorization"] == f"Bearer {KEY}"
    assert playing.asked == [
        {
            "query": QUESTION,
            "max_results": 20,
            "search_depth": "advanced",
            "time_range": "week",
            "topic": "news",
            "include_domains": ["harbor.example"],
            "exclude_domains": ["courier.example"],
            "include_answer": True,
            "include_raw_content": True,
        }
    ]
    assert (results.answer, results.hits[0].raw_content) == ("The Harbor Museum.", "All of the page.")
    assert results.hits[0].published == "2026-02-01"
    assert results.notes == ("The search engine finds at most 20 pages at once.",)


@pytest.mark.req("C-01")
async def test_brave_is_asked_in_its_own_words(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "brave", [page("https://harbor.example/")])
    query = SearchQuery(QUESTION, 5, time_range="month", include_domains=("harbor.example", "b.example"), language="ja")

    await search(httpserver, "brave", query)

    assert playing.paths == ["/res/v1/web/search"]
    assert playing.headers[0]["x-subscription-token"] == KEY
    assert playing.asked == [
        {
            "q": f"{QUESTION} site:harbor.example OR site:b.example",
            "count": "5",
            "offset": "0",
            "freshness": "pm",
            "search_lang": "jp",
            "result_filter": "web",
            "text_decorations": "false",
        }
    ]


@pytest.mark.parametrize(
    ("tag", "named"),
    [("de", "de"), ("de-CH", "de"), ("pt", "pt-pt"), ("pt-BR", "pt-br"), ("zh-TW", "zh-hant"), ("tlh", None)],
)
async def test_brave_is_told_a_language_only_as_it_knows_it(
    tag: str, named: str | None, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, "brave", [])

    await search(httpserver, "brave", SearchQuery(QUESTION, language=tag))

    assert playing.asked[0].get("search_lang") == named


async def test_brave_is_asked_for_news_elsewhere_and_for_no_more_words_than_it_takes(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "brave", [page("https://courier.example/today", "Today")])

    results = await search(httpserver, "brave", SearchQuery("word " * 60, topic="news", include_answer=True))

    assert playing.paths == ["/res/v1/news/search"]
    assert playing.asked[0]["q"].split() == ["word"] * 50
    assert [hit.title for hit in results.hits] == ["Today"]
    assert results.notes == ("The search engine gives no answer of its own.",)


@pytest.mark.req("C-01")
async def test_searxng_is_asked_for_json_in_a_language_and_a_time(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "searxng", [page("https://harbor.example/")], answers=[{"answer": "Yes."}, "No."])
    query = SearchQuery(QUESTION, 1, time_range="year", topic="news", language="de", include_answer=True)

    results = await search(httpserver, "searxng", query)

    assert playing.paths == ["/search"]
    assert playing.asked == [
        {
            "q": QUESTION,
            "format": "json",
            "categories": "news",
            "pageno": "1",
            "language": "de",
            "time_range": "year",
        }
    ]
    assert results.answer == "Yes. No."


async def test_a_searxng_below_a_path_is_asked_there(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "searxng", [])
    settings = Settings(search=f"searxng:{httpserver.url_for('/engine/')}")

    async with open_search(settings, SearchKeys()) as engine:
        assert engine is not None
        await engine.search(SearchQuery(QUESTION))

    assert playing.paths == ["/engine/search"]


@pytest.mark.req("C-01")
@pytest.mark.parametrize(("engine", "asked"), [("brave", 3), ("searxng", 5)])
async def test_as_many_pages_of_results_are_asked_for_as_are_needed(
    engine: str, asked: int, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, engine, MANY)

    results = await search(httpserver, engine, SearchQuery(QUESTION, 50))

    assert len(playing.asked) == asked
    assert len(results.hits) == 45


@pytest.mark.parametrize("engine", ["brave", "searxng"])
async def test_a_later_page_of_results_that_fails_leaves_the_first_ones(engine: str, httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, engine, MANY)
    async with searching(engine, httpserver.url_for("")) as given:
        playing.next = []
        first = playing._answer({"q": QUESTION, "count": "20", "offset": "0", "pageno": "1"}, "/")
        playing.failing(200, first)
        playing.failing(429)

        results = await given.search(SearchQuery(QUESTION, 50))

    assert len(results.hits) == (20 if engine == "brave" else 10)
    assert results.notes == ("The search engine gave a part of its results only.",)


@pytest.mark.req("C-01")
async def test_engines_behind_searxng_that_do_not_answer_are_a_note_and_a_failure_where_none_does(
    httpserver: HTTPServer,
) -> None:
    silent = [["google", "Suspended: CAPTCHA"], ["bing", "timeout"]]
    playing = Playing(httpserver, "searxng", [page("https://harbor.example/")], unresponsive_engines=silent)

    some = await search(httpserver, "searxng", SearchQuery(QUESTION))
    playing.pages = []
    none = await refusal("searxng", httpserver.url_for(""))

    assert some.notes == ("Some of those that the search engine asks did not answer.",)
    assert (none.code, str(none)) == ("search_failed", "SearXNG could not search.")
    assert "CAPTCHA" in none.detail


# --- failures -------------------------------------------------------------------------------------------------


@pytest.mark.req("C-01")
@pytest.mark.parametrize(
    ("engine", "status", "code"),
    [
        ("tavily", 401, "search_unauthorized"),
        ("tavily", 429, "search_busy"),
        ("tavily", 432, "search_quota"),
        ("tavily", 433, "search_quota"),
        ("tavily", 400, "search_failed"),
        ("tavily", 500, "search_failed"),
        ("brave", 422, "search_unauthorized"),
        ("brave", 402, "search_quota"),
        ("brave", 429, "search_busy"),
        ("brave", 503, "search_failed"),
        ("searxng", 403, "search_unauthorized"),
        ("searxng", 429, "search_busy"),
        ("searxng", 404, "search_failed"),
        ("searxng", 504, "search_timeout"),
    ],
)
async def test_a_failure_has_a_code_and_a_sentence(engine: str, status: int, code: str, httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, engine)
    playing.failing(status)

    refused = await refusal(engine, httpserver.url_for(""))

    assert refused.code == code
    assert str(refused).lower().startswith(engine) or f"at {engine}" in str(refused).lower()
    assert refused.detail.startswith(f"{status}:")
    assert len(playing.asked) == 1


async def test_a_quota_of_brave_is_told_by_its_code_and_not_by_its_status(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "brave")
    playing.failing(429, {"type": "ErrorResponse", "error": {"code": "QUOTA_LIMITED", "status": 429}})

    refused = await refusal("brave", httpserver.url_for(""))

    assert (refused.code, str(refused)) == (
        "search_quota",
        "The account at Brave has used up what it may search.",
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("said", ["<html>Hello!</html>", "[]", "[" * 10_000, "{"])
async def test_an_answer_that_is_none_is_a_failure(engine: str, said: str, httpserver: HTTPServer) -> None:
    Playing(httpserver, engine).failing(200, said)

    assert (await refusal(engine, httpserver.url_for(""))).code == "search_failed"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "said", [{}, {"results": None, "web": []}, {"results": [1, {"url": 7}, None], "web": {"results": [{}]}}]
)
async def test_results_in_other_forms_are_none(engine: str, said: object, httpserver: HTTPServer) -> None:
    Playing(httpserver, engine).failing(200, said)

    assert (await search(httpserver, engine, SearchQuery(QUESTION))).hits == ()


@pytest.mark.parametrize("engine", ENGINES)
async def test_an_engine_that_does_not_answer_in_time_is_told(engine: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refused = await refusal(engine, f"http://127.0.0.1:{silent.getsockname()[1]}", web_timeout=0.1)

    assert refused.code == "search_timeout"


@pytest.mark.parametrize("engine", ENGINES)
async def test_an_engine_that_cannot_be_reached_is_told(engine: str) -> None:
    with socket.socket() as taken:  # and nobody listens
        taken.bind(("127.0.0.1", 0))
        at = f"http://127.0.0.1:{taken.getsockname()[1]}"

        refused = await refusal(engine, at)

    assert refused.code == "search_failed"


@pytest.mark.req("R-03")
@pytest.mark.req("S27")
@pytest.mark.parametrize("engine", ["tavily", "brave"])
@pytest.mark.parametrize("status", [400, 401, 403, 422, 429, 500])
async def test_a_key_that_an_engine_repeats_is_no_part_of_the_failure(
    engine: str, status: int, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, engine)
    playing.failing(status)

    refused = await refusal(engine, httpserver.url_for(""))

    assert any(KEY in value for value in playing.headers[0].values())
    assert KEY not in f"{refused} {refused.detail} {refused!r} {refused.__cause__!r} {refused.__context__!r}"
    assert "[hidden]" in refused.detail


@pytest.mark.req("S13")
async def test_a_key_is_sent_to_nobody_to_whom_an_engine_redirects(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "brave")
    other = httpserver.url_for("/").replace("localhost", "127.0.0.1")
    playing.next = [lambda: Response("", 302, {"Location": other})]

    refused = await refusal("brave", httpserver.url_for(""))

    assert refused.code == "search_failed"
    assert len(playing.asked) == 1


# --- the setting ----------------------------------------------------------------------------------------------


async def test_without_a_setting_there_is_no_search_engine() -> None:
    async with open_search(Settings(), SearchKeys()) as engine:
        assert engine is None


@pytest.mark.req("C-01")
@pytest.mark.parametrize("searches", [True, False])
async def test_what_searches_is_in_the_catalog_only_where_there_is_a_search_engine(searches: bool) -> None:
    reader = DocumentReader(1)
    async with actions(Resources(reader, ReportRenderer(), PageReader(reader), searches=searches)) as known:
        searching_ones = {"web.search", "web.scrape"} & known.keys()

    assert searching_ones == ({"web.search", "web.scrape"} if searches else set())


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ("tavily", "POWERON_SEARCH names Tavily: set TAVILY_API_KEY to your key."),
        ("brave", "POWERON_SEARCH names Brave: set BRAVE_API_KEY to your key."),
        (
            "folder:/nowhere",
            "POWERON_SEARCH names the folder '/nowhere', and there is none: set it to `folder:` and a folder of pages.",
        ),
    ],
)
async def test_what_an_engine_lacks_is_said(search: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        async with open_search(Settings(search=search), SearchKeys(tavily_api_key=None, brave_api_key=None)):
            pass

    assert (str(refused.value), refused.value.code) == (sentence, "search_misconfigured")


@pytest.mark.parametrize(
    "search",
    [
        *("google", "folder:", "searxng", "searxng:", "searxng:localhost", "searxng:ftp://host", "searxng:http://"),
        *("searxng:http://ada:s3cret@host", "searxng:http://host?key=s3cret", "searxng:http://host:0", "tavily:key"),
    ],
)
def test_what_is_no_search_engine_is_said_without_what_was_given(search: str) -> None:
    with pytest.raises(ValueError, match="that is no search engine; write `tavily`") as refused:
        Settings(search=search)

    assert "s3cret" not in str(refused.value.errors()[0]["ctx"]["error"])  # type: ignore[attr-defined]
