"""Pages of the web become their main text through one door: what they say, in which form, and what stands before it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from papers import example
from read_pages import ADDRESS, ReadForTest, article, fetched, reading

from poweron_events.errors import Refused
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_child import PageLink
from poweron_services.connectors.page_reader import PageReader, UnreadablePage

MENU = "<nav><ul><li><a href='/'>Home</a></li><li><a href='/tickets'>Tickets</a></li></ul></nav>"
STORY = "In the old mill by the river, three floors show how people have measured time since the Middle Ages. "
VISIT = f"""<!doctype html>
<html lang="en-GB"><head><title>Visit us - Museum of Clocks</title><link rel="canonical" href="/visit">
<meta name="author" content="Jo Doe"><meta property="article:published_time" content="2026-03-04T10:00:00Z"></head>
<body><header>{MENU}</header><main><h1>Visit the museum</h1><p>The museum is <b>open</b> on <i>Mondays</i>, too. {STORY * 8}</p>
<h2>Prices</h2><table><tr><th>Who</th><th>Price</th></tr><tr><td>Adults</td><td>9 euros</td></tr></table>
<ul><li>Lockers</li><li>A café with <a href="../cake#today">cake</a></li></ul></main>
<footer>© 2026 Museum of Clocks. <a href="/imprint">Imprint</a></footer></body></html>"""
STORIES = (STORY * 8).strip()

pytestmark = [pytest.mark.req("X-06"), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def read_page() -> AsyncGenerator[ReadForTest, None]:
    """One child reads the pages of all these tests."""
    async with PageReader(DocumentReader(1))() as read:
        yield reading(read)


async def test_the_main_text_of_a_page_comes_without_its_menus_and_its_footer(read_page: ReadForTest) -> None:
    page = await read_page(VISIT)

    assert page.text == (
        f"# Visit the museum\n\nThe museum is open on Mondays, too. {STORIES}\n\n## Prices\n\n"
        "| Who | Price |\n|---|---|\n| Adults | 9 euros |\n\n- Lockers\n- A café with cake"
    )
    assert (page.truncated, page.notes, page.obstacle) == (False, (), None)


async def test_as_text_it_has_no_marks_of_headings(read_page: ReadForTest) -> None:
    page = await read_page(VISIT, text_format="text")

    assert page.text.startswith(f"Visit the museum\nThe museum is open on Mondays, too. {STORIES}\nPrices\n")


async def test_a_page_tells_who_wrote_it_and_when_and_what_it_is_called(read_page: ReadForTest) -> None:
    page = await read_page(VISIT)

    assert (page.title, page.author, page.published) == ("Visit the museum", "Jo Doe", "2026-03-04")
    assert (page.language, page.canonical_url) == ("en", "https://museum.example/visit")


@pytest.mark.parametrize("host", ["localhost:8080", "10.1.2.3", "[2001:db8::7]", "wiki", "wiki.corp.internal"])
async def test_a_page_of_a_host_without_a_public_suffix_is_read_too(read_page: ReadForTest, host: str) -> None:
    page = await read_page(VISIT, url=f"http://{host}/visit/")

    assert (page.title, page.canonical_url) == ("Visit the museum", f"http://{host}/visit")


async def test_the_links_of_the_text_come_before_those_of_the_menus(read_page: ReadForTest) -> None:
    page = await read_page(VISIT)

    assert page.links == (
        PageLink("https://museum.example/cake", "cake"),
        PageLink("https://museum.example/", "Home"),
        PageLink("https://museum.example/tickets", "Tickets"),
        PageLink("https://museum.example/imprint", "Imprint"),
    )


async def test_links_are_those_of_the_web_each_once_in_full(read_page: ReadForTest) -> None:
    page = await read_page(
        "<html><head><base href='https://other.example/a/'></head><body><p>See <a href='b'>this</a>, <a href='./b#c'>this"
        " again</a>, <a href='//third.example'>that</a>, <a href='mailto:a@b.example'>us</a>, <a href='javascript:x()'>x"
        "</a>, <a href='#top'>top</a>, <a href='http://['>broken</a>.</p></body></html>"
    )

    assert page.links == (
        PageLink("https://other.example/a/b", "this"),
        PageLink("https://third.example/", "that"),
        PageLink("https://other.example/a/", "top"),
    )


@pytest.mark.parametrize("part", ["main", "div", "section"])
async def test_a_page_of_a_few_lines_keeps_its_headings_lists_and_tables_and_no_menu(
    read_page: ReadForTest, part: str
) -> None:
    page = await read_page(VISIT.replace(STORY * 8, "").replace("<main>", f"<{part}>").replace("</main>", f"</{part}>"))

    assert page.text == (
        "# Visit the museum\n\nThe museum is open on Mondays, too.\n\n## Prices\n\n"
        "| Who | Price |\n| --- | --- |\n| Adults | 9 euros |\n\n- Lockers\n- A café with cake"
    )


async def test_a_page_without_any_parts_is_read_as_well(read_page: ReadForTest) -> None:
    page = await read_page(VISIT.replace("<main>", "").replace("</main>", ""))

    assert page.text.startswith("# Visit the museum\n\nThe museum is open on Mondays")
    assert page.text.endswith("| Adults | 9 euros |\n\n- Lockers\n- A café with cake")


async def test_advanced_reading_keeps_the_lists_and_tables_that_are_no_part_of_the_article(
    read_page: ReadForTest,
) -> None:
    beside = "<div><h2>Opening hours</h2><table><tr><td>Monday</td><td>10 to 17</td></tr></table></div>"
    html = VISIT.replace("<main>", "<div><div class='article-body'>").replace("</main>", f"</div>{beside}</div>")

    basic, advanced = await read_page(html), await read_page(html, depth="advanced")

    assert "10 to 17" not in basic.text
    assert "| Monday | 10 to 17 |" in advanced.text
    assert STORIES in advanced.text
    assert "Tickets" not in advanced.text


async def test_what_is_quoted_from_a_page_stands_in_its_text(read_page: ReadForTest) -> None:
    line = "1. March: 5 * 3 [see note] costs <b>9_50</b> ~ <em>every</em> day, 2 &lt; 3."
    page = await read_page(f"<html><body><main><p>{line}</p><p>{STORY * 8}</p></main></body></html>")

    assert "1. March: 5 * 3 [see note] costs 9_50 ~ every day, 2 < 3." in page.text


# -- how its bytes are read -------------------------------------------------------------------------------------------

SENTENCE = "Größe, naïveté, façade: “Ωmega” costs 9 €"
JAPANESE = "博物館は月曜日に開いています。"


@pytest.mark.parametrize(
    ("text", "encoding", "said", "meta"),
    [
        (SENTENCE, "utf-8", "text/html; charset=utf-8", ""),
        (SENTENCE, "utf-8", "text/html", ""),
        (SENTENCE, "utf-8-sig", "text/html; charset=iso-8859-1", ""),
        (SENTENCE, "utf-16", "text/html", ""),
        ("Größe: 9 €", "cp1252", "text/html; charset=ISO-8859-1", ""),
        ("Größe: 9 €", "cp1252", "text/html", "<meta charset='windows-1252'>"),
        ("Größe und Länge des Flusses, für alle Gäste über 18", "cp1252", "text/html; charset=utf-8", ""),
        ("Größe und Länge des Flusses, für alle Gäste über 18", "cp1252", "text/html; charset=nonsense", ""),
        ("Größe: 9 €", "cp1252", 'text/html; charset="cp1252"; boundary=x', "<meta charset='utf-8'>"),
        (JAPANESE, "shift_jis", "text/html; charset=Shift_JIS", ""),
        (JAPANESE, "euc_jp", "text/html", "<meta http-equiv='Content-Type' content='text/html; charset=euc-jp'>"),
        (JAPANESE, "iso2022_jp", "text/html; charset=iso-2022-jp", ""),
        ("博物馆星期一开放", "gb18030", "text/html; charset=gb2312", ""),
        ("Музей открыт по понедельникам", "koi8_r", "text/html; charset=koi8-r", ""),
        ("plain words", "ascii", "text/html; charset=base64", ""),
        ("plain words", "ascii", "text/html; charset=\0", ""),
    ],
)
async def test_the_bytes_of_a_page_are_text_whatever_its_server_says(
    read_page: ReadForTest, text: str, encoding: str, said: str, meta: str
) -> None:
    html = f"<!doctype html><html><head>{meta}</head><body><p>{text}</p></body></html>"

    page = await read_page(html.encode(encoding), content_type=said)

    assert page.text == text


@pytest.mark.parametrize("said", ["", "text/plain", "application/octet-stream", "application/xhtml+xml"])
async def test_a_page_is_html_by_its_first_bytes(read_page: ReadForTest, said: str) -> None:
    assert (await read_page(VISIT, content_type=said)).title == "Visit the museum"


async def test_a_page_that_only_its_server_calls_html_is_read_as_such(read_page: ReadForTest) -> None:
    assert (await read_page("<p>Open on <b>Mondays</b></p>", content_type="text/html")).text == "Open on Mondays"


# -- what is no page of HTML ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["application/pdf", "text/html", ""])
async def test_a_pdf_behind_a_link_is_read_as_a_document(read_page: ReadForTest, said: str) -> None:
    page = await read_page(
        example("estimate.pdf"), url="https://shop.example/files/my%20estimate.pdf?x=1", content_type=said
    )

    assert page.title == "my estimate.pdf"
    assert page.text.startswith("## page 1\n\nHarbor & Pine Auto Body\n")
    assert "| Rear bumper cover, primed | 1 |  | $462.00 | $462.00 |" in page.text


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("contract.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "Dr. Helen Marsh"),
        ("budget.xlsx", "application/octet-stream", "| "),
        ("inventory.csv", "text/csv", "| "),
        ("letter.txt", "text/plain", "Dear"),
        ("minutes.md", "text/plain", "## "),
    ],
)
async def test_office_files_and_plain_texts_are_read_as_documents(
    read_page: ReadForTest, name: str, kind: str, says: str
) -> None:
    page = await read_page(example(name), url=f"https://shop.example/{name}", content_type=kind)

    assert page.title == name
    assert says in page.text


async def test_a_file_without_a_name_is_what_its_server_says(read_page: ReadForTest) -> None:
    page = await read_page(b"who,price\nadults,9\n", url="https://museum.example/export", content_type="text/csv")

    assert page.text == "| who | price |\n| --- | --- |\n| adults | 9 |"


@pytest.mark.parametrize(
    ("body", "kind", "code", "why"),
    [
        (b"", "text/html", "document_empty", "is empty."),
        (b"<html><body> </body></html>", "text/html", "document_without_text", "holds no text."),
        (b" \n ", "text/html", "document_without_text", "holds no text."),
        (b"\x89PNG\r\n" + bytes(range(256)) * 20, "image/png", "document_damaged", "is damaged"),
        (b"\x1f\x8b" + bytes(range(256)) * 20, "application/gzip", "document_format_unknown", "is no kind of page"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 20, "text/html", "document_damaged", "is damaged"),
    ],
)
async def test_a_page_that_holds_nothing_is_refused_with_a_code_and_a_sentence(
    read_page: ReadForTest, body: bytes, kind: str, code: str, why: str
) -> None:
    with pytest.raises(UnreadablePage) as refused:
        await read_page(body, url="https://museum.example/a?key=secret", content_type=kind)

    assert isinstance(refused.value, Refused)
    assert refused.value.code == code
    assert refused.value.why.startswith(why)
    assert str(refused.value) == f"The page https://museum.example/a {refused.value.why}"


async def test_a_page_that_only_links_to_others_gives_its_links(read_page: ReadForTest) -> None:
    page = await read_page(f"<html><body>{MENU}</body></html>")

    assert page.text == ""
    assert [link.text for link in page.links] == ["Home", "Tickets"]


BANNER = (
    "<div class='cc-window'><p>We and our 132 partners use cookies to store information on a device, to measure, and to "
    "choose what is shown to whom, as long as nobody objects to it.</p><button>Accept all</button><button>Reject</button></div>"
)


@pytest.mark.parametrize("depth", ["basic", "advanced"])
@pytest.mark.parametrize(
    "body",
    [
        f"<nav><a href=/a>Home</a></nav><aside><h1>The bridge</h1><p>{STORY * 8}</p></aside>",
        f"<main><p>Local news.</p></main><aside><p>{STORY * 8}</p></aside>",
        f"{BANNER}<div><h1>The bridge</h1><p>{STORY}</p></div>",
        f"{BANNER}<div><h1>The bridge</h1><p>{STORY * 8}</p></div>",
        f"<h1>The bridge</h1><details><summary>When?</summary><p>{STORY}</p></details>",
        f"<article><p>{STORY * 8}</p><div hidden=until-found><p>The toll is 7 francs.</p></div></article>",
        f"<h1>The bridge</h1><div hidden='until-found'><p>{STORY}</p></div><div hidden>Never seen.</div>",
    ],
)
async def test_the_text_is_found_wherever_a_page_puts_it(read_page: ReadForTest, body: str, depth: Any) -> None:
    page = await read_page(f"<html><head><title>Page</title></head><body>{body}</body></html>", depth=depth)

    assert STORY.strip() in page.text
    assert ("The toll is 7 francs." in page.text) == ("toll" in body)
    assert "partners" not in page.text
    assert "Never seen" not in page.text
    assert page.obstacle is None


# -- what stands before the text --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obstacle", "body"),
    [
        (
            "javascript",
            "<noscript>You need to enable JavaScript to run this app.</noscript><div id='root'></div><script src=a></script>",
        ),
        ("javascript", "<div id='__next'></div><script src='a.js'></script>"),
        ("javascript", "<app-root></app-root><script type='module' src='a.js'></script>"),
        ("javascript", "<div id='app'></div><p>Please wait until the page is loaded ...</p><script src=a></script>"),
        ("javascript", "<p>Bitte aktivieren Sie JavaScript, um diese Seite zu sehen.</p><script></script>"),
        (
            "javascript",
            "<h1>shop.example</h1><p>Verify you are human by completing the action below.</p><script></script>",
        ),
        ("login", "<h1>Sign in</h1><form><input name=user><input type=password><button>Go</button></form>"),
        ("consent", "<p>We use cookies and data.</p><button>Reject all</button><button>Accept all</button>"),
        ("consent", "<p>Wir und unsere Partner nutzen Cookies.</p><input type=button value='Alle akzeptieren'>"),
        (None, "<p>Closed on Mondays.</p><script src='/counter.js'></script>"),
        (None, "<p>Closed on Mondays.</p><script type='application/ld+json'>{}</script><div id='map'><b>Map</b></div>"),
        (None, f"<form><input type=password></form><main><p>{STORY * 8}</p></main>"),
        (None, f"<div>We use cookies <button>Accept</button></div><main><p>{STORY * 8}</p></main>"),
        (
            None,
            "<main><p>The museum is open.</p></main><div class='cookie-bar'>We use cookies <button>Accept</button></div>",
        ),
    ],
)
async def test_a_page_that_is_nothing_without_a_browser_says_so(
    read_page: ReadForTest, obstacle: str | None, body: str
) -> None:
    page = await read_page(f"<!doctype html><html><head><title>Page</title></head><body>{body}</body></html>")

    assert page.obstacle == obstacle


# -- one after the other ----------------------------------------------------------------------------------------------


async def test_pages_are_read_side_by_side_and_each_answer_is_that_of_its_page() -> None:
    reader = PageReader(DocumentReader(2))
    async with reader() as read:
        pages = await asyncio.gather(
            *(read(fetched(article(number)), depth="basic", text_format="markdown") for number in range(12))
        )

    assert [page.title for page in pages] == [f"Page {number}" for number in range(12)]
    assert all(page.text.startswith(f"# Page {number}\n\n## ") for number, page in enumerate(pages))
    assert all(page.links[0].url == f"{ADDRESS.partition('/visit')[0]}/0" for page in pages)
