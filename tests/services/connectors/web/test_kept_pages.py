"""Pages and searches are kept with their workflow: nothing is fetched twice, and hosts are asked as they want to be."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from event_loop import longest_gap
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_services.connectors.search.search_provider import SearchHit, SearchQuery, SearchResults
from poweron_services.connectors.web import host_turns
from poweron_services.connectors.web.host_turns import HostTurns
from poweron_services.connectors.web.page_cache import FetchedPage, Reader, StoredPages
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_client import WebResponse, open_web_client
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.connectors.web_access import StoredSearches
from poweron_services.settings.config import Settings

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
FIRST, SECOND, THIRD, FOURTH = (Reader(WORKFLOW, f"step {number}") for number in range(1, 5))
HOUR = 3_600.0


@dataclass
class Site:
    """A server that counts what it is asked."""

    server: HTTPServer
    clock: list[float] = field(default_factory=lambda: [1_000_000.0])
    robots: Response = field(default_factory=lambda: Response(status=404))

    def __post_init__(self) -> None:
        self.answers("/robots.txt", lambda _: self.robots)

    def page(self, path: str, body: str = "<p>Good morning.</p>", status: int = 200, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.server.expect_request(path).respond_with_data(body, status, named, content_type="text/html")
        return self.server.url_for(path)

    def answers(self, path: str, answer: Callable[[Request], Response]) -> str:
        self.server.expect_request(path).respond_with_handler(answer)
        return self.server.url_for(path)

    def rules(self, text: str, status: int = 200) -> None:
        self.robots = Response(text, status, content_type="text/plain")

    @property
    def asked(self) -> list[str]:
        return [request.path for request, _ in self.server.log]

    @asynccontextmanager
    async def pages(self, content: ContentStore, **options: Any) -> AsyncGenerator[StoredPages, None]:
        """The pages as one process fetches them."""
        settings = WebSettings.of(Settings(web_private_hosts=f"localhost:{self.server.port}", web_timeout=5))
        async with open_web_client(settings) as client:
            yield StoredPages(client, content, HostTurns(0), now=lambda: self.clock[0], **options)


@pytest.fixture
def site(httpserver: HTTPServer) -> Site:
    return Site(httpserver)


@pytest.fixture
def content(tmp_path: Path) -> ContentStore:
    return ContentStore.at(str(tmp_path))


async def refusal(pages: StoredPages, url: str, reader: Reader = FIRST) -> Refused:
    with pytest.raises(Refused) as refused:
        await pages.fetch(reader, url)
    return refused.value


# --- nothing twice


async def test_a_page_is_told_with_its_bytes_and_where_they_are_kept(site: Site, content: ContentStore) -> None:
    site.page("/a", "<p>Grüße</p>", Content_Language="de", X_Secret="1")
    url = site.answers("/old", lambda _: Response(status=301, headers={"Location": "/a"}))
    async with site.pages(content) as pages:
        page = await pages.fetch(FIRST, f"{url}#part")
    assert isinstance(page, FetchedPage)
    assert (page.requested, page.url, page.status) == (f"{url}#part", site.server.url_for("/a"), 200)
    assert (page.body, page.media_type, page.truncated) == ("<p>Grüße</p>".encode(), "text/html", False)
    assert page.fetched_at == "1970-01-12T13:46:40Z"
    assert set(page.headers) == {"content-type", "content-language"}
    assert await content.get(WORKFLOW, page.content) == page.body


async def test_another_process_that_tries_the_step_again_asks_no_server_a_second_time(
    site: Site, content: ContentStore, tmp_path: Path
) -> None:
    urls = [site.page("/a"), site.page("/b"), site.page("/gone", status=404), site.page("/broken", status=500)]
    async with site.pages(content) as pages:
        first = [await pages.fetch(FIRST, url) for url in urls[:2]]
        refused = [await refusal(pages, url) for url in urls[2:]]
    asked = site.asked
    site.clock[0] += 2 * HOUR
    async with site.pages(ContentStore.at(str(tmp_path))) as pages:
        assert [await pages.fetch(FIRST, url) for url in urls[:2]] == first
        again = [await refusal(pages, url) for url in urls[2:]]
    assert [(error.code, str(error)) for error in again] == [(error.code, str(error)) for error in refused]
    assert site.asked == asked == ["/robots.txt", "/a", "/b", "/gone", "/broken"]


async def test_who_asks_at_once_for_the_same_page_waits_for_one_answer(site: Site, content: ContentStore) -> None:
    url = site.page("/a")
    async with site.pages(content) as pages:
        found = await asyncio.gather(*(pages.fetch(FIRST, f"{url}#{number}") for number in range(5)))
    assert len({page.sha256 for page in found}) == 1
    assert sorted(site.asked) == ["/a", "/robots.txt"]


async def test_a_page_that_others_redirect_to_is_fetched_once_and_so_is_each_redirect(
    site: Site, content: ContentStore
) -> None:
    url = site.page("/a")
    old = [
        site.answers("/old", lambda _: Response(status=301, headers={"Location": "/older"})),
        site.answers("/older", lambda _: Response(status=302, headers={"Location": "/a"})),
    ]
    async with site.pages(content) as pages:
        found = await asyncio.gather(*(pages.fetch(FIRST, each) for each in (*old, url)))
    assert [page.url for page in found] == [url] * 3
    assert sorted(site.asked) == ["/a", "/old", "/older", "/robots.txt"]


async def test_pages_that_redirect_to_one_another_have_an_end(site: Site, content: ContentStore) -> None:
    there = site.answers("/there", lambda _: Response(status=302, headers={"Location": "/back"}))
    back = site.answers("/back", lambda _: Response(status=302, headers={"Location": "/there"}))
    async with site.pages(content) as pages:
        errors = await asyncio.gather(refusal(pages, there), refusal(pages, back))
    assert [str(error) for error in errors] == ["localhost redirects without end."] * 2
    assert sorted(site.asked) == ["/back", "/robots.txt", "/there"]


@pytest.mark.parametrize(
    "page",
    [
        '<meta http-equiv="refresh" content="0; url=/a">',
        "<html><head><title>Moved</title><META HTTP-EQUIV=refresh CONTENT='3;URL=\"/a\"'></head><body>Click <a href=/a>here</a></body>",
        '<script>track()</script><meta content="0;/a" http-equiv="Refresh">',
    ],
)
async def test_a_page_that_only_sends_to_another_of_its_host_is_that_one(
    site: Site, content: ContentStore, page: str
) -> None:
    url, old = site.page("/a", "<p>The new bridge is open.</p>"), site.page("/old", page)
    async with site.pages(content) as pages:
        found = await pages.fetch(FIRST, old)
    assert (found.requested, found.url, found.body) == (old, url, b"<p>The new bridge is open.</p>")


@pytest.mark.parametrize(
    "page",
    [
        '<meta http-equiv="refresh" content="0; url=https://elsewhere.example/">',
        '<meta http-equiv="refresh" content="0; url=/old">',
        '<meta http-equiv="refresh" content="300; url=/a">',
        '<meta http-equiv="refresh" content="5">',
        f'<meta http-equiv="refresh" content="5; url=/a"><p>{"The bridge is open. " * 20}</p>',
        '<meta name="description" content="0; url=/a">',
    ],
)
async def test_a_page_that_says_something_or_leads_elsewhere_is_itself(
    site: Site, content: ContentStore, page: str
) -> None:
    site.page("/a")
    async with site.pages(content) as pages:
        assert (await pages.fetch(FIRST, site.page("/old", page))).body == page.encode()


async def test_another_step_is_given_what_is_fresh_and_asks_again_after_an_hour_whether_it_has_changed(
    site: Site, content: ContentStore
) -> None:
    def unchanged(request: Request) -> Response:
        if request.headers.get("If-None-Match") == '"v1"':
            return Response(status=304)
        return Response("<p>v1</p>", headers={"ETag": '"v1"', "Content-Type": "text/html"})

    url = site.answers("/a", unchanged)
    async with site.pages(content) as pages:
        first = await pages.fetch(FIRST, url)
        assert await pages.fetch(SECOND, url) == first
        assert site.asked.count("/a") == 1
        site.clock[0] += HOUR
        assert await pages.fetch(THIRD, url) == first
        assert site.asked.count("/a") == 2
        assert await pages.fetch(FOURTH, url) == first
    assert site.asked.count("/a") == 2


async def test_a_step_is_given_again_what_it_was_given_first_whoever_asked_and_whoever_asks_since(
    site: Site, content: ContentStore
) -> None:
    url = site.answers("/a", lambda _: Response(f"<p>Number {site.asked.count('/a')}."))
    async with site.pages(content) as pages:
        asked = await pages.fetch(FIRST, url)
        site.clock[0] += HOUR - 60
        assert await pages.fetch(SECOND, url) == asked
        site.clock[0] += 120
        assert await pages.fetch(SECOND, url) == asked
        later = await pages.fetch(THIRD, url)
        assert await pages.fetch(FIRST, url) == await pages.fetch(SECOND, url) == asked
    assert later.body != asked.body
    assert site.asked.count("/a") == 2


async def test_another_workflow_fetches_the_page_itself(site: Site, content: ContentStore) -> None:
    url = site.page("/a")
    async with site.pages(content) as pages:
        await pages.fetch(FIRST, url)
        await pages.fetch(Reader("7d444840-9dc0-11d1-b245-5ffdce74fad3", "step 1"), url)
    assert site.asked.count("/a") == 2


async def test_a_page_that_was_refused_is_asked_for_again_by_another_step(site: Site, content: ContentStore) -> None:
    states = iter([503, 200])
    url = site.answers("/a", lambda _: Response("<p>", status=next(states)))
    async with site.pages(content) as pages:
        assert (await refusal(pages, url)).code == "page_unavailable"
        assert (await pages.fetch(SECOND, url)).status == 200


async def test_a_search_is_asked_once_for_a_workflow_whoever_tries_the_step_again(tmp_path: Path) -> None:
    asked: list[SearchQuery] = []

    async def engine(query: SearchQuery, /) -> SearchResults:
        asked.append(query)
        if query.query == "too much":
            raise Refused("Its quota is used up.", code="search_quota")
        hits = (SearchHit(url="https://a.example/", title="A", published="2026-11-23"),)
        return SearchResults("engine", hits, answer="A.", notes=("A note.",))

    query = SearchQuery("museums", include_domains=("a.example",), language="de")
    found = []
    for _ in range(2):
        searches = StoredSearches(engine, ContentStore.at(str(tmp_path)))
        found.append(await searches.search(FIRST, query))
        with pytest.raises(Refused) as refused:
            await searches.search(FIRST, SearchQuery("too much"))
        assert refused.value.code == "search_quota"
    assert found[0] == found[1]
    assert [each.query for each in asked] == ["museums", "too much"]
    await searches.search(SECOND, SearchQuery("museums", max_results=3))
    assert len(asked) == 3


async def test_who_answers_on_this_machine_is_asked_first(site: Site, content: ContentStore) -> None:
    answer = WebResponse("https://site.example/a.html", 200, {"content-type": "text/html"}, b"<p>Here.")

    async def local(url: str) -> WebResponse | None:
        return answer if url.startswith("https://site.example/") else None

    async with site.pages(content, local_pages=local) as pages:
        assert (await pages.fetch(FIRST, "https://site.example/a")).url == "https://site.example/a.html"
        await pages.fetch(FIRST, site.page("/a"))
    assert site.asked == ["/robots.txt", "/a"]


# --- as hosts want it


@pytest.mark.req("S14")
async def test_what_the_rules_of_a_host_forbid_is_not_asked_for_and_they_are_asked_for_once(
    site: Site, content: ContentStore
) -> None:
    site.rules("User-agent: *\nDisallow: /private\n")
    forbidden, allowed = site.page("/private/a"), site.page("/a")
    leading = site.answers("/leads", lambda _: Response(status=302, headers={"Location": "/private/a"}))
    async with site.pages(content) as pages:
        refused = await refusal(pages, forbidden)
        assert (await refusal(pages, leading)).code == "robots_disallowed"
        await pages.fetch(FIRST, allowed)
    assert (refused.code, str(refused)) == ("robots_disallowed", "The rules of localhost for robots do not allow it.")
    assert site.asked == ["/robots.txt", "/leads", "/a"]


@pytest.mark.req("X-04")
async def test_the_event_loop_goes_on_while_rules_made_to_be_slow_are_looked_into(
    site: Site, content: ContentStore
) -> None:
    site.rules("User-agent: *\n" + "".join(f"Disallow: /*zzzzzzzzzz{n % 10}\n" for n in range(15_000)))
    urls = [site.page("/a"), site.page(f"/{'z' * 7_000}")]
    async with site.pages(content) as pages:
        await pages.fetch(FIRST, urls[0])
        assert await longest_gap(pages.fetch(FIRST, urls[1])) < 0.25


@pytest.mark.req("S14")
@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("User-agent: PowerOn\nDisallow: /\n\nUser-agent: *\nAllow: /\n", 200, "robots_disallowed"),
        ("User-agent: *\nDisallow: /\n\nUser-agent: poweron\nAllow: /\n", 200, None),
        ("User-agent: *\nDisallow: /\nAllow: /a$\n", 200, None),
        ("User-agent: *\nDisallow: /\n", 404, None),
        ("User-agent: *\nDisallow: /\n", 403, None),
        ("", 500, "robots_disallowed"),
        ("", 429, "robots_disallowed"),
        ("\x00\xff<html>no rules at all" * 100, 200, None),
    ],
)
async def test_rules_are_read_as_the_standard_says(
    site: Site, content: ContentStore, text: str, status: int, code: str | None
) -> None:
    site.rules(text, status)
    url = site.page("/a")
    async with site.pages(content) as pages:
        if code is None:
            assert (await pages.fetch(FIRST, url)).status == 200
        else:
            assert (await refusal(pages, url)).code == code
    assert ("/a" in site.asked) is (code is None)


async def test_rules_themselves_can_be_read_as_a_page(site: Site, content: ContentStore) -> None:
    site.rules("User-agent: *\nDisallow: /\n")
    async with site.pages(content) as pages:
        page = await pages.fetch(FIRST, site.server.url_for("/robots.txt"))
    assert page.body.startswith(b"User-agent")


@pytest.mark.req("S14")
@pytest.mark.parametrize("page_first", [True, False])
async def test_rules_that_are_not_there_are_no_page_and_forbid_none(
    site: Site, content: ContentStore, page_first: bool
) -> None:
    rules, url = site.server.url_for("/robots.txt"), site.page("/a")
    async with site.pages(content) as pages:
        if not page_first:
            assert (await pages.fetch(FIRST, url)).status == 200
        assert str(await refusal(pages, rules)) == "localhost answered with status 404."
        assert (await pages.fetch(FIRST, url)).status == 200


@pytest.mark.req("S14")
async def test_rules_that_are_elsewhere_can_be_read_as_a_page_and_are_kept(site: Site, content: ContentStore) -> None:
    site.robots = Response(status=301, headers={"Location": "/rules"})
    site.answers("/rules", lambda _: Response("User-agent: *\nDisallow: /b\n"))
    url, forbidden = site.page("/a"), site.page("/b")
    async with site.pages(content) as pages:
        assert (await pages.fetch(FIRST, site.server.url_for("/robots.txt"))).url == site.server.url_for("/rules")
        assert (await pages.fetch(FIRST, url)).status == 200
        assert (await refusal(pages, forbidden)).code == "robots_disallowed"


async def test_a_host_that_is_busy_is_asked_again_when_it_says_so_and_left_alone_where_that_is_long(
    site: Site, content: ContentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter([Response(status=429, headers={"Retry-After": "0"}), Response("<p>Here.")])
    soon = site.answers("/soon", lambda _: next(states))
    later = site.page("/later", status=503, Retry_After="120")
    other = site.page("/other")
    async with site.pages(content) as pages:
        assert (await pages.fetch(FIRST, soon)).body == b"<p>Here."
        assert str(await refusal(pages, later)) == "localhost answered with status 503."
        left_alone = await refusal(pages, other)
    assert left_alone.code == "page_unavailable"
    assert str(left_alone).startswith("localhost wants to be asked again only in 1")
    assert site.asked == ["/robots.txt", "/soon", "/soon", "/later"]


@pytest.mark.parametrize("said", ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "soon", "-1", "²"])
async def test_a_time_to_ask_again_that_is_none_is_not_waited_for(site: Site, content: ContentStore, said: str) -> None:
    url = site.page("/a", status=503, Retry_After=said)
    async with site.pages(content) as pages:
        assert str(await refusal(pages, url)) == "localhost answered with status 503."


@pytest.mark.parametrize(
    ("status", "code"), [(401, "page_needs_login"), (403, "page_unavailable"), (410, "page_unavailable")]
)
async def test_a_page_that_is_not_shown_says_why(site: Site, content: ContentStore, status: int, code: str) -> None:
    async with site.pages(content) as pages:
        refused = await refusal(pages, site.page("/a", status=status))
    assert refused.code == code
    assert "localhost" in str(refused)


# --- turns


def address(host: str) -> WebAddress:
    return WebAddress.of(f"https://{host}/")


async def took(turns: HostTurns, *hosts: str) -> tuple[float, int]:
    """How long it takes to ask these hosts, all at once, and how many were being asked at a time."""
    running = most = 0

    async def ask(host: str) -> None:
        nonlocal running, most
        async with turns.turn(address(host)):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

    started = time.monotonic()
    await asyncio.gather(*map(ask, hosts))
    return time.monotonic() - started, most


async def test_a_host_is_asked_by_few_at_a_time_and_with_pauses_after_the_first_few() -> None:
    seconds, most = await took(HostTurns(0.05), *["a.example"] * 8)
    assert most <= host_turns.AT_ONCE
    assert seconds >= 4 * 0.05


async def test_hosts_do_not_wait_for_one_another_and_those_of_the_operator_need_no_pauses() -> None:
    assert (await took(HostTurns(1.0), *(f"{number}.example" for number in range(12))))[1] == 12
    seconds, most = await took(HostTurns(1.0, lambda one: one.host == "wiki.internal"), *["wiki.internal"] * 32)
    assert seconds < 1.0
    assert most == host_turns.AT_ONCE_TO_OWN


async def test_a_host_whose_rules_want_pauses_is_given_them() -> None:
    turns = HostTurns(0)
    turns.slow_down(address("a.example"), 0.05)
    seconds, _ = await took(turns, *["a.example"] * 4)
    assert seconds >= 3 * 0.05
