"""A folder of pages: found by what they say, and fetched from the addresses that they have."""

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from poweron_events.errors import Refused
from poweron_services.connectors.search.page_folder import PageFolder
from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults

TOWN = PageFolder(Path(__file__).parents[4] / "docs" / "examples" / "site")  # read once for all tests
CITY, HARBOR = "https://visit-port-alden.example", "https://harbor-museum.example"


def page(title: str, text: str, head: str = "", language: str = "en") -> str:
    return f"<html lang={language}><head><title>{title}</title>{head}</head><body><p>{text}</p></body></html>"


def write(folder: Path, **pages: str) -> PageFolder:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return PageFolder(folder, today=lambda: dt.date(2026, 11, 23))


def urls(results: SearchResults) -> list[str]:
    return [hit.url for hit in results.hits]


@pytest.mark.req("C-01")
async def test_the_page_that_says_it_is_found_first_with_the_words_that_say_it() -> None:
    results = await TOWN.search(SearchQuery("Which museums open on Mondays, and what do they cost?"))

    best = results.hits[0]
    assert (best.url, best.title, best.published, best.language) == (
        f"{CITY}/museums.html",
        "Museums of Port Alden: opening days and admission",
        "2026-03-02",
        "en",
    )
    assert "| Tidewater Science Center | yes, 9 a.m. to 4 p.m. | $18 | $12 |" in best.snippet
    assert results.provider == "folder"


@pytest.mark.req("C-01")
async def test_a_pdf_of_the_folder_is_found_by_its_text() -> None:
    results = await TOWN.search(SearchQuery("Who kept the logbook that was given in 2025?"))

    assert urls(results)[0] == f"{HARBOR}/annual-report-2025.pdf"


@pytest.mark.req("C-01")
async def test_what_is_asked_in_german_is_found_in_german() -> None:
    query = SearchQuery("Was kostet ein Museum, das montags geöffnet ist?", language="de")

    assert urls(await TOWN.search(query)) == [f"{CITY}/de/museen.html"]


@pytest.mark.req("C-01")
async def test_a_copy_that_names_its_original_is_found_once_under_the_originals_address() -> None:
    found = urls(await TOWN.search(SearchQuery("audio guide with 22 stops")))

    assert found[0] == f"{HARBOR}/audio-guide.html"
    assert f"{HARBOR}/print/audio-guide.html" not in found


@pytest.mark.req("C-01")
async def test_only_the_domains_that_were_asked_for_are_searched() -> None:
    folder = TOWN
    asked = "record year for the museums"

    included = await folder.search(SearchQuery(asked, include_domains=("harbor-museum.example",)))
    excluded = await folder.search(SearchQuery(asked, exclude_domains=("alden-courier.example",)))

    assert {url.split("/")[2] for url in urls(included)} == {"harbor-museum.example"}
    assert "alden-courier.example" not in {url.split("/")[2] for url in urls(excluded)}
    assert excluded.hits


@pytest.mark.req("C-01")
async def test_pages_older_than_what_was_asked_for_are_left_out_and_those_without_a_date_are_told(
    tmp_path: Path,
) -> None:
    folder = write(
        tmp_path,
        new=page("New", "The harbor fee was raised.", '<meta name="date" content="2026-11-20">'),
        old=page("Old", "The harbor fee was raised.", '<meta name="date" content="2024-11-20">'),
        undated=page("Undated", "The harbor fee was raised again."),
    )

    results = await folder.search(SearchQuery("harbor fee", time_range="week"))

    assert sorted(hit.title for hit in results.hits) == ["New", "Undated"]
    assert results.notes == ("Pages that say no date are among the results.",)


async def test_what_nobody_says_is_found_nowhere() -> None:
    assert (await TOWN.search(SearchQuery("xylophone quartet"))).hits == ()
    assert (await TOWN.search(SearchQuery("?!"))).hits == ()


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        (CITY, f"{CITY}/"),
        (f"{CITY}/index.html", f"{CITY}/"),
        ("http://VISIT-port-alden.example:80/museums.html#prices", f"{CITY}/museums.html"),
        (f"{CITY}/de/museen%2ehtml", f"{CITY}/de/museen.html"),
        (f"{HARBOR}/print/audio-guide.html", f"{HARBOR}/print/audio-guide.html"),
    ],
)
async def test_a_page_is_fetched_from_the_folder_by_its_address(asked: str, answers: str) -> None:
    answer = await TOWN.page(asked)

    assert answer is not None
    assert (answer.url, answer.status, answer.headers) == (answers, 200, {"content-type": "text/html"})
    assert b"<!DOCTYPE html>" in answer.body


async def test_a_page_answers_at_the_address_that_it_gives_itself(tmp_path: Path) -> None:
    head = '<link rel="canonical" href="https://site.example/mooring/fees">'
    (tmp_path / "site").mkdir()
    folder = write(tmp_path / "site", fees=page("Fees", "Mooring costs $4.", head))

    (hit,) = (await folder.search(SearchQuery("mooring"))).hits

    answer = await folder.page(hit.url)
    assert hit.url == "https://site.example/mooring/fees"
    assert answer is not None
    assert (answer.url, answer.status) == (hit.url, 200)


@pytest.mark.parametrize("claimed", ["https://elsewhere.example/fees", "https://harbor.example/login"])
async def test_a_page_that_lies_on_no_host_speaks_for_none(tmp_path: Path, claimed: str) -> None:
    site = tmp_path / "site"
    (site / "harbor.example").mkdir(parents=True)
    (site / "harbor.example" / "hours.md").write_text("Open on Mondays.")
    folder = write(site, fees=page("Fees", "Mooring costs $4.", f'<link rel="canonical" href="{claimed}">'))

    assert urls(await folder.search(SearchQuery("mooring"))) == ["https://site.example/fees.html"]
    answer = await folder.page(claimed)
    assert answer is None or answer.status == 404


async def test_a_page_of_one_host_does_not_speak_for_another(tmp_path: Path) -> None:
    claims = {
        "www.harbor.example/fees": "Mooring.",
        "bank.example/login": "Mooring at a bank.",
        "b.example/x": "Hello.",
    }
    for number, (claimed, text) in enumerate(claims.items()):
        path = tmp_path / "harbor.example" / f"{number}.html"
        path.parent.mkdir(exist_ok=True)
        path.write_text(page("Fees", text, f'<link rel="canonical" href="https://{claimed}">'))
    (tmp_path / "b.example").mkdir()
    (tmp_path / "b.example" / "x").with_suffix(".md").write_text("Hello from b.")
    folder = PageFolder(tmp_path)

    found = urls(await folder.search(SearchQuery("mooring")))

    assert sorted(found) == ["https://harbor.example/1.html", "https://www.harbor.example/fees"]
    assert await folder.page("https://bank.example/login") is None


async def test_files_that_lie_under_no_host_have_one_named_after_the_folder(tmp_path: Path) -> None:
    site = tmp_path / "Our Pages"
    (site / "notes").mkdir(parents=True)
    (site / "notes" / "harbor fees.md").write_text("# Harbor fees\n\nMooring costs $4 for each meter.")

    (hit,) = (await PageFolder(site).search(SearchQuery("mooring"))).hits

    assert (hit.url, hit.title) == ("https://our-pages.example/notes/harbor%20fees.md", "Harbor fees")


async def test_an_address_of_a_host_in_the_folder_without_a_page_is_not_there_and_other_hosts_are_not_its_own() -> None:
    folder = TOWN

    missing = await folder.page(f"{HARBOR}/../../../etc/passwd")
    assert missing is not None
    assert (missing.status, missing.body) == (404, b"")
    assert await folder.page("https://somewhere-else.example/") is None
    assert await folder.page("https://[") is None


@pytest.mark.req("X-03")
async def test_no_address_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret harbor code")
    site = tmp_path / "site"
    site.mkdir()
    (site / "linked.txt").symlink_to(tmp_path / "secret.txt")
    (site / ".hidden.txt").write_text("the secret harbor code")
    (site / "open.txt").write_text("the open harbor")
    folder = PageFolder(site)

    assert urls(await folder.search(SearchQuery("harbor code"))) == ["https://site.example/open.txt"]
    for path in ("linked.txt", ".hidden.txt", "../secret.txt", "%2e%2e/secret.txt"):
        answer = await folder.page(f"https://site.example/{path}")
        assert answer is not None
        assert answer.status == 404, path


async def test_what_is_added_to_the_folder_is_found_by_the_next_search(tmp_path: Path) -> None:
    folder = write(tmp_path, first=page("First", "The lighthouse is closed."))
    assert len((await folder.search(SearchQuery("lighthouse"))).hits) == 1

    write(tmp_path, second=page("Second", "The lighthouse is open again."))

    assert len((await folder.search(SearchQuery("lighthouse"))).hits) == 2


async def test_pages_in_old_encodings_and_damaged_documents_are_no_trouble(tmp_path: Path, logged: list[dict]) -> None:
    (tmp_path / "old.html").write_bytes(page("Gebühr", "Die Hafengebühr steigt.", language="de").encode("cp1252"))
    (tmp_path / "damaged.pdf").write_bytes(b"%PDF-1.7 nothing else")
    (tmp_path / "unknown.html").write_bytes(b"<meta charset=klingon><title>\xff\xfe</title><p>Nothing.</p>")

    (hit,) = (await PageFolder(tmp_path).search(SearchQuery("Hafengebühren"))).hits

    assert (hit.title, hit.snippet) == ("Gebühr", "Die Hafengebühr steigt.")
    assert [entry["event"] for entry in logged] == ["search_page_unreadable"]


@pytest.mark.req("X-04")
async def test_a_hostile_page_keeps_nobody_from_finding_another(tmp_path: Path) -> None:
    for number, hostile in enumerate(("<a ", "<!--", "<div>", '<a b="')):
        (tmp_path / f"{number}.html").write_text(f"<html><body><p>Hello.</p>{hostile * 100_000}")
    folder = write(tmp_path, good=page("Good", "The lighthouse is open every day of the year."))

    async with asyncio.timeout(30):
        results = await folder.search(SearchQuery("lighthouse"))

    assert [hit.title for hit in results.hits] == ["Good"]


async def test_a_page_that_was_taken_away_since_the_search_is_not_there(tmp_path: Path, logged: list[dict]) -> None:
    folder = write(tmp_path, first=page("First", "The lighthouse is closed."))
    (hit,) = (await folder.search(SearchQuery("lighthouse"))).hits
    (tmp_path / "first.html").unlink()

    answer = await folder.page(hit.url)

    assert answer is not None
    assert (answer.status, answer.body) == (404, b"")
    assert [entry["event"] for entry in logged] == ["search_page_unreadable"]


async def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="There is no folder") as refused:
        await PageFolder(tmp_path / "gone").search(SearchQuery("anything"))

    assert refused.value.code == "search_unavailable"
