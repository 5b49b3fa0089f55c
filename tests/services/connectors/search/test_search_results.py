"""What every engine's hits go through: one hit for a page, of the domains and in the language that were asked for."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from poweron_events.codec import writable
from poweron_services.connectors.search.search_provider import (
    LONGEST_RAW,
    SearchHit,
    SearchQuery,
    SearchResults,
    canonical,
    tidied,
)

ENGLISH = "The museum is open on Mondays and it is free of charge for all of the children."
GERMAN = "Das Museum ist am Montag geöffnet und der Eintritt ist für die Kinder frei."


def tidy(*hits: SearchHit, **query: object) -> SearchResults:
    return tidied(SearchResults("test", hits), SearchQuery("museums", **query))  # type: ignore[arg-type]


def urls(results: SearchResults) -> list[str]:
    return [hit.url for hit in results.hits]


@pytest.mark.req("C-01")
@pytest.mark.parametrize(
    "other",
    [
        "http://www.harbor.example/visit/",
        "https://harbor.example/visit#hours",
        "https://harbor.example:443/visit?utm_source=news&gclid=1",
        "https://HARBOR.example/visit/index.html",
        "https://harbor.example/%76isit",
        "https://harbor.example./visit",
    ],
)
def test_a_page_is_found_once_however_its_address_is_written(other: str) -> None:
    results = tidy(
        SearchHit("https://harbor.example/visit", "", "Open."), SearchHit(other, "Visit", published="2026-01-02")
    )

    (hit,) = results.hits
    assert (hit.url, hit.title, hit.snippet, hit.published) == (
        "https://harbor.example/visit",
        "Visit",
        "Open.",
        "2026-01-02",
    )


@pytest.mark.req("C-01")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://harbor.example/visit", "https://harbor.example/Visit"),
        ("https://harbor.example/visit", "https://harbor.example/visit?page=2"),
        ("https://harbor.example/visit", "https://harbor.example:8080/visit"),
        ("https://harbor.example/visit", "https://shop.harbor.example/visit"),
        ("https://harbor.example/a/b", "https://harbor.example/a%2Fb"),
        ("https://harbor.example/a%2Fb", "https://harbor.example/a%252Fb"),
        ("https://harbor.example/a%3Fb=1", "https://harbor.example/a?b=1"),
        ("https://harbor.example/%ff", "https://harbor.example/%fe"),
        ("https://harbor.example/#!/visit", "https://harbor.example/#!/prices"),
        ("https://harbor.example/#/visit", "https://harbor.example/"),
    ],
)
def test_pages_at_other_addresses_are_other_pages(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.req("C-01")
def test_hits_of_other_domains_are_left_out_whatever_the_engine_does() -> None:
    hits = [SearchHit(f"https://{host}/", host) for host in ("a.example", "sub.a.example", "nota.example", "b.example")]

    assert urls(tidy(*hits, include_domains=("a.example",))) == ["https://a.example/", "https://sub.a.example/"]
    assert urls(tidy(*hits, exclude_domains=("a.example",))) == ["https://nota.example/", "https://b.example/"]
    both = tidy(*hits, include_domains=("a.example",), exclude_domains=("sub.a.example",))
    assert urls(both) == ["https://a.example/"]


@pytest.mark.req("C-01")
def test_hits_in_other_languages_are_left_out_and_counted() -> None:
    hits = [
        SearchHit("https://a.example/", "Museum", ENGLISH),
        SearchHit("https://b.example/", "Museum", GERMAN),
        SearchHit("https://c.example/", "Museum", language="de-AT"),
        SearchHit("https://d.example/", "Museum"),
    ]

    results = tidy(*hits, language="de-DE")

    assert urls(results) == ["https://b.example/", "https://c.example/", "https://d.example/"]
    assert results.notes == ("1 page in another language was left out.",)
    assert tidy(*hits, language="en").notes == ("2 pages in other languages were left out.",)


@pytest.mark.req("C-01")
def test_where_all_hits_are_in_another_language_they_are_kept_and_said_to_be() -> None:
    results = tidy(SearchHit("https://a.example/", "Museum", ENGLISH), language="de")

    assert urls(results) == ["https://a.example/"]
    assert results.notes == ("No page in the language 'de' was found; these are in other languages.",)


def test_no_more_hits_than_were_asked_for_and_all_texts_within_bounds() -> None:
    hits = [
        SearchHit(f"https://{number}.example/", "T" * 9_999, "<b>s</b>\n" * 9_999, raw_content="r" * 999_999)
        for number in range(60)
    ]

    results = tidy(*hits, max_results=3, include_raw_content=True)

    assert len(results.hits) == 3
    assert max(len(hit.title) for hit in results.hits) == 300
    assert max(len(hit.snippet) for hit in results.hits) == 1_000
    assert max(len(hit.raw_content) for hit in results.hits) == 200_000
    assert results.hits[0].snippet.startswith("s s s")
    assert tidy(*hits).hits[0].raw_content == ""


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "ftp://a.example/", "https://", "/visit", "https://[", "https://a.example:99999/"),
        *(
            "https://a.example/ b",
            "https://a.example/\n",
            f"https://a.example/{'x' * 3_000}",
            "",
            "https://a.example:0/",
        ),
    ],
)
def test_what_is_no_address_of_a_page_is_no_hit(url: str) -> None:
    assert tidy(SearchHit(url, "Museum")).hits == ()


def test_a_hit_without_a_title_is_named_by_its_host_and_odd_characters_do_no_harm() -> None:
    (hit,) = tidy(SearchHit("https://a.example/", "", "half \ud83d a character")).hits

    assert (hit.title, hit.snippet) == ("a.example", "half ? a character")


@pytest.mark.req("X-06")
@pytest.mark.parametrize("include", [True, False])
def test_no_more_of_a_hit_is_looked_at_than_is_kept(include: bool) -> None:
    huge = "\ud83d" * 1_000_000
    whole = _seconds(lambda: writable(huge))
    hits = [SearchHit(f"https://{n}.example/", "", raw_content=huge) for n in range(60)]
    kept = [replace(hit, raw_content=huge[:LONGEST_RAW]) for hit in hits]
    as_kept = _seconds(lambda: tidy(*kept, include_raw_content=include))
    assert _seconds(lambda: tidy(*hits, include_raw_content=include)) < 2 * as_kept + whole


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
