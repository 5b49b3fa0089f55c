"""Pages that are huge, nested or hostile, and the child processes that read them: a page costs itself, never another."""

import asyncio
import json
import resource
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from event_loop import longest_gap
from read_pages import article, reading, reading_pages
from test_document_child import ATTEMPTS

from poweron_services.connectors import page_child, page_reader
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_child import LIMITS
from poweron_services.connectors.page_reader import PageReader, UnreadablePage

MEGABYTE = 1_000_000
SHORT = "<html><body><p>Open on Mondays.</p></body></html>"
DEEP = b"<html><body><p>Start.</p>" + b"<div>" * 100_000 + b"deep" + b"</div>" * 100_000
NESTED_QUOTES = b"<html><body>" + b"<blockquote>" * 250 + b"<p>text in quotes</p>" * 500_000
TOO_DEEP = "The page is nested too deeply; what lies deeper than 256 levels could not be read."

pytestmark = pytest.mark.req("X-06")


def page_of(piece: str, size: int = 10 * MEGABYTE) -> bytes:
    return b"<html><body>" + piece.encode() * (size // len(piece.encode()))


# -- huge and nested --------------------------------------------------------------------------------------------------


@pytest.mark.req("S19")
async def test_a_page_nested_too_deeply_is_truncated_and_says_so() -> None:
    async with PageReader(DocumentReader(1))() as read:
        page = await reading(read)(DEEP)

    assert (page.text, page.truncated, page.notes) == ("Start.", True, (TOO_DEEP,))


@pytest.mark.req("S19")
async def test_a_page_of_which_nothing_lies_in_reach_is_not_called_empty() -> None:
    async with PageReader(DocumentReader(1))() as read:
        with pytest.raises(UnreadablePage) as refused:
            await reading(read)(b"<html><body>" + b"<table><tr><td>" * 200 + b"<p>deep</p>" * 100)

    assert refused.value.code == "document_unsafe"


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param("<p>Many words, again and again, and some more of them. </p>", id="paragraphs"),
        pytest.param("Größe und Länge des Flusses. ", id="more bytes than characters"),
        pytest.param("<a href='/1'>one</a> <a href='/2'>two</a> ", id="links", marks=pytest.mark.soak),
        pytest.param("<li>an item of a list", id="a list", marks=pytest.mark.soak),
        pytest.param("<tr><td>alpha<td>beta", id="a table", marks=pytest.mark.soak),
        pytest.param("&amp;&lt;&#65; ", id="entities", marks=pytest.mark.soak),
    ],
)
async def test_of_a_page_of_10_mb_as_much_is_read_as_there_is_room_for(piece: str) -> None:
    async with PageReader(DocumentReader(1))() as read:
        page = await reading(read)(page_of(piece))

    assert page.truncated
    assert len(page.text) <= LIMITS.characters
    assert page.notes[0].startswith("Only the first 9,000,000 of ")


@pytest.mark.parametrize("piece", ["<!-- x -->", " ", pytest.param("<meta name='author'>", marks=pytest.mark.soak)])
async def test_a_page_of_10_mb_that_says_nothing_is_refused(piece: str) -> None:
    async with PageReader(DocumentReader(1))() as read:
        with pytest.raises(UnreadablePage, match="holds no text"):
            await reading(read)(page_of(piece))


# -- a child and its pages --------------------------------------------------------------------------------------------


async def test_one_child_reads_the_pages_of_a_step_and_ends_with_it() -> None:
    async with PageReader(DocumentReader(1))() as read:
        await reading(read)(article(0))
        started = reading_pages()
        for number in range(1, 5):
            await reading(read)(article(number))
        assert (len(started), reading_pages()) == (1, started)

    assert reading_pages() == []


async def test_no_more_pages_are_read_at_a_time_than_documents_may_be() -> None:
    async with PageReader(DocumentReader(2))() as read:
        await asyncio.gather(*(reading(read)(article(number)) for number in range(8)))
        assert len(reading_pages()) == 2


async def test_the_pages_of_two_steps_are_never_read_by_one_child() -> None:
    open_pages = PageReader(DocumentReader(1))
    async with open_pages() as one, open_pages() as other:
        for read in (one, other, one, other):
            await reading(read)(SHORT)
        assert len(reading_pages()) == 2


async def test_however_many_steps_there_are_few_children_wait_for_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_reader, "IDLE", 1)
    open_pages = PageReader(DocumentReader(1))
    async with open_pages() as one, open_pages() as other:
        assert len(reading_pages()) == 1
        pages = [await reading(read)(SHORT) for read in (one, other, one)]

    assert [page.text for page in pages] == ["Open on Mondays."] * 3


@pytest.mark.req("X-04")
async def test_a_page_that_kills_its_child_costs_that_page_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_child, "LIMITS", replace(LIMITS, cpu_seconds=2, wall_seconds=15.0))
    async with PageReader(DocumentReader(1))() as read:
        before = await reading(read)(SHORT)
        with pytest.raises(UnreadablePage) as refused:
            await reading(read)(NESTED_QUOTES)
        after = await reading(read)(SHORT)

    assert refused.value.code == "document_damaged"
    assert before == after


async def test_a_child_that_died_while_it_waited_costs_no_page() -> None:
    open_pages = PageReader(DocumentReader(1))
    async with open_pages() as read:
        await reading(read)(SHORT)
        [waiting], [process] = open_pages._idle, reading_pages()
        process.kill()
        while waiting.can_go_on:  # noqa: ASYNC110 - the operating system signals no event
            await asyncio.sleep(0.01)

        assert (await reading(read)(SHORT)).text == "Open on Mondays."


@pytest.mark.req("X-04")
async def test_a_page_that_takes_too_long_ends_at_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_child, "LIMITS", replace(LIMITS, wall_seconds=0.5))
    async with PageReader(DocumentReader(1))() as read:
        with pytest.raises(UnreadablePage, match="could not be read in time") as refused:
            await reading(read)(NESTED_QUOTES)
        assert reading_pages() == []
        assert (await reading(read)(SHORT)).text == "Open on Mondays."

    assert refused.value.code == "document_timeout"


@pytest.mark.req("X-04")
async def test_a_page_that_needs_more_memory_than_there_is_costs_that_page_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_child, "LIMITS", replace(LIMITS, memory_bytes=300 << 20))
    async with PageReader(DocumentReader(1))() as read:
        with pytest.raises(UnreadablePage) as refused:
            await reading(read)(page_of("<p>a<br>"))
        assert (await reading(read)(SHORT)).text == "Open on Mondays."

    assert refused.value.code in {"document_too_large", "document_damaged"}  # as the library takes it


async def test_a_child_ends_before_its_time_could_be_too_short_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_child, "LIMITS", replace(LIMITS, cpu_seconds=20, wall_seconds=20.0))
    async with PageReader(DocumentReader(1))() as read:
        pages = [await reading(read)(SHORT) for _ in range(2)]
        assert reading_pages() == []

    assert [page.text for page in pages] == ["Open on Mondays."] * 2


@pytest.mark.req("X-04")
async def test_cancelling_kills_the_child() -> None:
    async with PageReader(DocumentReader(1))() as read:
        task = asyncio.create_task(reading(read)(NESTED_QUOTES))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert reading_pages() == []


async def test_a_child_that_says_anything_else_than_an_answer_is_not_believed() -> None:
    for said in (b"", b"{}", b'{"page": {"text": 1}}', b'{"unreadable": "nonsense"}', b"[" * 9_999):
        with pytest.raises(page_child.PageUnread) as unread:
            page_child._parse_answer(said)
        assert unread.value.code == "document_damaged"


@pytest.mark.req("X-04")
async def test_the_event_loop_goes_on_while_pages_are_read() -> None:
    async with PageReader(DocumentReader(1))() as read:
        await reading(read)(SHORT)
        page = reading(read)(page_of("<p>Many words, again and again. </p>", 2 * MEGABYTE))
        gap = await longest_gap(page)

    assert gap < 0.25  # read in the loop, it would be more than a second


# -- what a child may do ----------------------------------------------------------------------------------------------

TAKEN_OVER = f"""
from poweron_services.connectors.documents_child import rights
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.pages_child import __main__, page_answers
{ATTEMPTS}
def read(data, question, limits):
    said = tried_all() if data == b"attack" else ""
    return page_answers.Page(said, "", "", None, None, None, (), False, (), None)

sys.modules["poweron_services.connectors.pages_child.page_parser"] = types.SimpleNamespace(read=read)
__main__.main(ReadLimits())
"""
NOTHING_OPENED = """
import json, sys
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS
from poweron_services.connectors.pages_child import preload, page_parser
from poweron_services.connectors.pages_child.page_answers import PageQuestion

asked = [(PageQuestion(*question), bytes.fromhex(data)) for question, data in json.load(sys.stdin)]
preload.load()
opened = []
sys.addaudithook(lambda event, given: event in ("open", "import", "socket.connect") and opened.append((event, given[0])))
for question, data in asked:
    page_parser.read(data, question, DEFAULT_LIMITS)
reading_is_done = list(opened)
print(json.dumps(reading_is_done, default=str))
"""
HARD = [
    f"<meta name='date' content='{date}'><p class='date'>Posted: {date}</p><p>Some words.</p>"
    for date in (
        *("Tuesday, 3 March 2026 10:00 EST", "3. März 2026", "03/04/26", "2026-03-03T10:00:00+05:30", "20260303"),
        *("le 3 mars 2026 à 10h", "3 Mart 2026", "March 3rd, 2026 at 5pm PST", "३ मार्च २०२६", "2026年3月3日"),
    )
]


def framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4) + part for part in parts)


@pytest.mark.skipif(sys.platform != "linux", reason="on other systems a process can give up less")
@pytest.mark.req("S17")
def test_a_page_that_takes_its_process_over_is_refused_whatever_it_tries(tmp_path: Path) -> None:
    question = json.dumps(
        {"url": "https://a.example/", "charset": "", "depth": "basic", "text_format": "text"}
    ).encode()
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = json.dumps([0, [], str(tmp_path / "a"), str(tmp_path / "b"), server.getsockname()[1]])
        said = subprocess.run(
            [sys.executable, "-c", TAKEN_OVER, given],
            input=framed(question, b"harmless", question, b"attack"),
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    status, came_of = json.loads(json.loads(said[said.rindex(b'{"page"') :])["page"]["text"])

    assert b'{"rights_kept": []}' in said
    assert came_of == dict.fromkeys(came_of, "EPERM")
    assert len(came_of) == 17
    assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])
    assert status["Uid"][0] != "0"


@pytest.mark.req("S17")
def test_all_that_reading_a_page_opens_was_opened_before() -> None:
    bodies = [
        SHORT.encode(),
        article(1),
        *(page.encode() for page in HARD),
        "<p>Größe und Länge für alle".encode("cp1252"),
    ]
    hosts = ("https://www.museum.co.uk/a", "http://192.0.2.7:81/", "https://例え.example/2026/03/04/a")
    asked = [
        ((host, charset, depth, "markdown"), body.hex())
        for body in bodies
        for host, charset, depth in zip(
            hosts, ("", "shift_jis", "nonsense"), ("basic", "advanced", "advanced"), strict=True
        )
    ]
    said = subprocess.run(
        [sys.executable, "-c", NOTHING_OPENED], input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True
    ).stdout

    assert json.loads(said) == [["import", "encodings.nonsense"]]  # which there is not


def test_a_child_starts_without_the_rest_of_poweron() -> None:
    program = (
        "import sys\n"
        "from poweron_services.connectors.pages_child import __main__, preload\n"
        "preload.load()\n"
        "print(sorted({'asyncio', 'pdfplumber', 'poweron_events', 'pydantic', 'dateparser'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True).stdout

    assert said == "[]\n"


# -- what it costs ----------------------------------------------------------------------------------------------------

ALONE = """
import pathlib, sys, trafilatura
for page in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    trafilatura.extract(
        page.read_bytes(), fast=True, output_format="markdown", with_metadata=True, include_comments=False,
        date_extraction_params={"original_date": True, "extensive_search": False},
    )
"""


@pytest.fixture(scope="module")
def pages() -> list[bytes]:
    return [article(number) for number in range(50)]


@pytest.fixture
def folder(pages: list[bytes], tmp_path: Path) -> Path:
    for number, page in enumerate(pages):
        (tmp_path / f"{number:02}.html").write_bytes(page)
    return tmp_path


async def read_all(pages: list[bytes]) -> None:
    async with PageReader(DocumentReader(2))() as read:
        await asyncio.gather(*(reading(read)(page) for page in pages))


async def read_by_trafilatura_alone(folder: Path) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", ALONE, str(folder))
    assert await child.wait() == 0


def work_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def test_fifty_pages_are_at_most_half_as_much_work_again_as_for_trafilatura_alone(
    folder: Path, pages: list[bytes]
) -> None:
    before = work_of_children()
    await read_by_trafilatura_alone(folder)
    alone = work_of_children() - before
    await read_all(pages)

    assert work_of_children() - before - alone < alone * 1.5


@pytest.mark.soak
async def test_fifty_pages_take_at_most_half_as_long_again_as_trafilatura_alone_and_the_loop_goes_on(
    folder: Path, pages: list[bytes]
) -> None:
    lags: list[float] = []
    ratios = []
    for _ in range(5):
        began = time.monotonic()
        await read_by_trafilatura_alone(folder)
        alone = time.monotonic() - began
        watch = asyncio.create_task(_watch(lags))
        began = time.monotonic()
        await read_all(pages)
        ratios.append((time.monotonic() - began) / alone)
        watch.cancel()
    p99 = sorted(lags)[len(lags) * 99 // 100]
    found = f"{[round(ratio, 2) for ratio in ratios]}, lag p99 {p99 * 1000:.1f} ms, most {max(lags) * 1000:.1f} ms"

    assert sorted(ratios)[len(ratios) // 2] < 1.5, found
    assert p99 < 0.020, found


async def _watch(lags: list[float]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.002)
        lags.append(time.monotonic() - began - 0.002)
