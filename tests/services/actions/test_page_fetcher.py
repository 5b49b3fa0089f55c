"""Pages that are fetched and read side by side: within limits, and what cannot be had is told by itself."""

import asyncio
from collections.abc import Callable

import pytest

from poweron_events.catalog import ExtractDepth, PageFormat
from poweron_events.errors import Refused, Unavailable
from poweron_services.actions.action import TellProgress, no_progress
from poweron_services.actions.page_fetcher import Gathering, GatheringLimits
from poweron_services.connectors.page_child import PageText
from poweron_services.connectors.web.page_cache import FetchedPage

HASH = "ab" * 32


async def read(page: FetchedPage, *, depth: ExtractDepth, text_format: PageFormat) -> PageText:
    return PageText(f"{depth} {text_format} {page.body.decode()}")


def fetched(url: str, body: bytes = b"Hello.") -> FetchedPage:
    return FetchedPage(url, url, 200, {}, body, "2026-11-23T10:00:00Z", HASH, HASH)


def gathering(
    answer: Callable[[str], FetchedPage | None], tell: TellProgress = no_progress, **limits: float
) -> Gathering:
    """Of pages that `answer` gives; None for one that never comes."""

    async def fetch(url: str, /) -> FetchedPage:
        page = answer(url)
        if page is None:
            await asyncio.Event().wait()
        assert page is not None
        return page

    told = {"pages": 10, "seconds": 60.0, **limits}
    return Gathering(fetch, read, "basic", "markdown", GatheringLimits(**told), tell)  # type: ignore[arg-type] # by their names


def addresses(count: int) -> list[str]:
    return [f"http://{number}.example/" for number in range(count)]


@pytest.mark.req("S14")
async def test_a_page_that_never_comes_costs_only_the_time_of_the_step_and_itself() -> None:
    first, second = addresses(2)
    pages = gathering(lambda url: None if url == first else fetched(url), seconds=0.2)
    found = await pages.gather([first, second])

    assert [page.page.url for page in found] == [second]
    assert [(page.address, page.code) for page in pages.unread] == [(first, "page_timeout")]
    assert pages.is_over


@pytest.mark.req("S14")
async def test_beyond_so_many_bytes_and_pages_nothing_more_is_fetched() -> None:
    asked: list[str] = []

    def answer(url: str) -> FetchedPage:
        asked.append(url)
        return fetched(url, b"x" * 600)

    pages = gathering(answer, bytes=1_000, pages=30)
    await pages.gather(addresses(1))
    await pages.gather(addresses(2))
    await pages.gather(addresses(40))

    assert asked == addresses(2)
    assert {page.code for page in pages.unread} == {"page_too_large"}
    assert (len(pages.unread), pages.left_out) == (28, 10)


async def test_an_address_is_fetched_once_however_it_is_written() -> None:
    asked: list[str] = []

    def answer(url: str) -> FetchedPage:
        asked.append(url)
        return fetched(url)

    pages = gathering(answer)
    await pages.gather(["HTTP://A.example:80/x#part", "http://a.example/x"])
    await pages.gather(["http://a.example/x"])

    assert asked == ["http://a.example/x"]


async def test_what_is_refused_stands_in_the_order_of_its_addresses() -> None:
    def answer(url: str) -> FetchedPage:
        raise Refused(f"No {url}", code="address_refused")

    pages = gathering(answer)
    assert await pages.gather(addresses(5)) == []
    assert [page.address for page in pages.unread] == addresses(5)


async def test_trouble_of_this_machine_ends_the_step() -> None:
    def answer(url: str) -> FetchedPage | None:
        if url == addresses(1)[0]:
            raise Unavailable("The content store did not answer.")
        return None

    with pytest.raises(Unavailable):
        await gathering(answer).gather(addresses(3))


async def test_what_a_server_did_not_send_as_a_whole_counts_as_read_in_part() -> None:
    def answer(url: str) -> FetchedPage:
        return FetchedPage(url, url, 200, {}, b"Hello.", "2026-11-23T10:00:00Z", HASH, HASH, truncated=True)

    (page,) = await gathering(answer).gather(addresses(1))
    assert (page.text.truncated, page.text.notes) == (True, ("Only its first 6 bytes were fetched.",))


async def test_it_is_told_how_many_of_the_pages_are_done_read_or_not() -> None:
    told: list[tuple[str, int, int | None]] = []
    first, *others = addresses(4)

    def answer(url: str) -> FetchedPage:
        if url == first:
            raise Refused("It is not there.", code="page_not_found")
        return fetched(url)

    pages = gathering(answer, lambda unit, done, total=None: told.append((unit, done, total)))
    await pages.gather([first, others[0]])
    await pages.gather(others)

    assert told[0] == ("pages_fetched", 0, 2)
    assert told[2:4] == [("pages_fetched", 2, 2), ("pages_fetched", 2, 4)]
    assert told[-1] == ("pages_fetched", 4, 4)
