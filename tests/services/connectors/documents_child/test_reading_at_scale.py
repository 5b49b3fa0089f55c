"""Long documents are read whole, on the way and within limits: what cannot be read of them is named."""

import asyncio
import json
import os
import sys
import time
import zlib
from collections.abc import Awaitable, Callable

import pytest
from event_loop import longest_gap
from papers import FULL_PAGES, bare_pdf, long_pdf, pdf_of, peak_memory, reading

from poweron_services.actions.action import InputDocument, Order
from poweron_services.actions.document_extract import DocumentExtract
from poweron_services.connectors import document_pages
from poweron_services.connectors.document_child import ChildMessage
from poweron_services.connectors.document_reader import (
    DocumentReader,
    ExtractedDocument,
    ReadLimits,
    Section,
    UnreadableDocument,
    extract,
)
from poweron_services.connectors.documents_child.limits import MEGABYTE
from poweron_services.connectors.text_recognition import TextRecognition
from poweron_services.models.call import Called
from poweron_services.models.prompts import Prompt

KINDS = tuple(FULL_PAGES)
MOST_MEMORY = 600_000_000  # bytes, of any process


def text_of(document: ExtractedDocument) -> str:
    return "\n".join(section.text for section in document.sections)


def loaded(data: bytes) -> Callable[[], Awaitable[bytes]]:
    async def load() -> bytes:
        return data

    return load


# -- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("X-04", "C-05")
async def test_the_pages_of_a_long_pdf_are_read_side_by_side_in_order_and_told() -> None:
    data = pdf_of(*(f"This is page {page}." for page in range(1, 301)))
    told: list[tuple[int, int | None]] = []
    children = 0

    def on_page(read: int, pages: int | None) -> None:
        nonlocal children
        told.append((read, pages))
        children = max(children, len(reading()))

    document = await DocumentReader(2)(loaded(data), len(data), "long.pdf", on_page=on_page)

    expected = tuple(Section(f"page {page}", f"This is page {page}.") for page in range(1, 301))
    assert (document.sections, document.truncated, document.notes) == (expected, False, ())
    assert told == sorted(told, key=lambda pages: pages[0])
    assert told[-1] == (300, 300)
    assert children == 2


@pytest.mark.req("X-04", "C-05")
async def test_no_page_of_any_kind_is_left_out_and_the_first_are_told_before_the_last() -> None:
    data, told = long_pdf(150, kinds=KINDS), list[tuple[str, int, int | None]]()
    order = Order(
        parameters={"documentList": ["docItem:d1:long.pdf"]},
        documents=[InputDocument("docItem:d1:long.pdf", "long.pdf", "", len(data), "0" * 64, loaded(data))],
        language="en",
        idempotency_key="key",
        ask=asks_nobody,
        tell_progress=lambda unit, done, total=None: told.append((unit, done, total)),
    )

    done = await DocumentExtract(DocumentReader(2), 1_000_000)(order)

    _, *pages = done.result.documents[0].document_data.decode().partition("\n\n## metadata")[0].split("\n\n## page ")
    assert [text.partition("\n")[0] for text in pages] == [str(page) for page in range(1, 151)]
    assert all(f"This was page {page}." in text for page, text in enumerate(pages, start=1))
    assert (done.notes, done.unread) == ((), ())
    read = [done for unit, done, total in told if (unit, total) == ("pages_read", 150)]
    assert read == sorted(read)
    assert any(0 < done < 150 for done in read)


async def asks_nobody(_: Prompt) -> Called:
    raise AssertionError("Text is extracted without a model.")


@pytest.mark.req("X-04")
async def test_nobody_waits_for_the_first_pages_to_read_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    other_began = asyncio.Event()

    async def hear(_data: bytes, _name: str, heard: ChildMessage, tell: Callable[[], None]) -> None:
        first, pages = heard.limits.first_page, min(200, heard.limits.first_page + heard.limits.pages - 1)
        heard.take(b'{"mime_type": "application/pdf"}\n{"pages": 200}\n')
        tell()
        if first > 1:
            other_began.set()
        await other_began.wait()
        for page in range(first, pages + 1):
            heard.take(b'{"section": {"locator": "page %d", "text": "Text"}}\n{"page_read": %d}\n' % (page, page))

    monkeypatch.setattr(document_pages, "hear", hear)

    async with asyncio.timeout(10):
        document = await DocumentReader(2)(loaded(b"%PDF-"), 5, "a.pdf")

    assert [section.locator for section in document.sections] == [f"page {page}" for page in range(1, 201)]
    assert not document.truncated


@pytest.mark.req("X-04")
async def test_a_page_on_which_a_child_dies_is_left_out_and_named() -> None:
    packed = zlib.compress(zlib.compress(bytes(900_000_000), 1), 9)
    bomb = b"<</Filter[/FlateDecode/FlateDecode]/Length %d>>stream\n%s\nendstream" % (len(packed), packed)

    document = await extract(
        bare_pdf([stream("Before"), bomb, stream("After")]), "a.pdf", limits=ReadLimits(memory_bytes=400 * MEGABYTE)
    )

    assert document.sections == (Section("page 1", "Before"), Section("page 3", "After"))
    assert document.notes == ("Page 2 was not read: it is damaged, or takes too much time or memory.",)
    assert document.truncated


@pytest.mark.req("X-04")
async def test_what_was_read_before_the_time_was_up_stays_and_the_rest_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hear(_data: bytes, _name: str, heard: ChildMessage, _tell: Callable[[], None]) -> None:
        """A child that reads ten pages, and then takes all the time that is left."""
        heard.take(b'{"mime_type": "application/pdf"}\n{"pages": 1000}\n')
        for page in range(heard.limits.first_page, heard.limits.first_page + 10):
            heard.take(b'{"section": {"locator": "page %d", "text": "Text"}}\n{"page_read": %d}\n' % (page, page))
        time.sleep(0.06)  # noqa: ASYNC251 - the clock is to go on
        heard.timed_out = True

    monkeypatch.setattr(document_pages, "hear", hear)

    document = await extract(b"%PDF-", "a.pdf", limits=ReadLimits(document_seconds=0.05))

    assert [section.locator for section in document.sections] == [f"page {page}" for page in range(1, 11)]
    assert document.truncated
    assert document.notes[0] == "Pages 11 to 100 were not read: there was no time left."
    assert document.notes[-1] == "Pages 892 to 1000 were not read: there was no time left."


@pytest.mark.req("X-04")
async def test_no_child_is_asked_any_more_where_too_many_pages_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def hear(_data: bytes, _name: str, heard: ChildMessage, _tell: Callable[[], None]) -> None:
        nonlocal asked
        asked += 1
        heard.take(b'{"pages": 10000000}\n')

    monkeypatch.setattr(document_pages, "hear", hear)

    with pytest.raises(UnreadableDocument):
        await extract(b"%PDF-", "a.pdf")

    assert asked == document_pages.MOST_LOST + 1


@pytest.mark.req("E-06")
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\n",
        b"{",
        b"{\n",
        b"[]\n",
        b"{}\n",
        b'{"document": {}}\n',
        b'{"section": {"text": 1}}\n',
        b'{"code": "harmless"}\n',
        b'{"pages": -1}\n',
        b'{"page_read": 1e99}\n',
    ],
)
async def test_a_child_that_answers_with_anything_else_has_read_nothing(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hear(_data: bytes, _name: str, heard: ChildMessage, _tell: Callable[[], None]) -> None:
        heard.take(answer)

    monkeypatch.setattr(document_pages, "hear", hear)
    with pytest.raises(UnreadableDocument, match=r"'a\.pdf' ") as unreadable:
        await extract(b"%PDF-", "a.pdf")
    assert unreadable.value.code == "document_damaged"


@pytest.mark.req("E-06")
@pytest.mark.parametrize("place", ["page x", "page ", "page -1", "page " + "9" * 5_000, "a page"])
async def test_a_child_that_names_its_pictures_as_no_reader_does_harms_nothing(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"name": "", "mime_type": "", "sections": [], "truncated": False, "notes": [], "pictures": [place, "page 2"]}

    async def hear(_data: bytes, _name: str, heard: ChildMessage, _tell: Callable[[], None]) -> None:
        heard.take(b'{"section": {"locator": "page one", "text": "Text"}}\n')
        heard.take(json.dumps({"document": said}).encode() + b"\n")

    monkeypatch.setattr(document_pages, "hear", hear)

    document = await extract(b"%PDF-", "a.pdf", recognition=TextRecognition((sys.executable, "-c", "")))

    assert [section.text for section in document.sections] == ["Text"]


@pytest.mark.req("X-04")
async def test_a_pdf_with_too_much_text_is_cut_with_a_note() -> None:
    document = await extract(pdf_of("The first page", "The second page"), "a.pdf", limits=ReadLimits(characters=9))

    assert document.sections == (Section("page 1", "The first"),)
    assert (document.truncated, document.notes[-1]) == (True, "The text was cut off after 9 characters.")


@pytest.mark.req("X-04", "X-06")
async def test_a_page_with_more_letters_than_anybody_reads_is_cut_with_a_note() -> None:
    lines = "".join(f"({'word ' * 20}) Tj 0 -14 Td " for _ in range(2_100))

    document = await extract(bare_pdf([stream(commands=f"BT /F 1 Tf 72 700 Td {lines} ET")]), "a.pdf")

    assert document.truncated
    assert "Of page 1 only the first 200,000 characters were read." in document.notes


@pytest.mark.req("E-06")
def test_nobody_listens_to_a_child_that_says_too_much() -> None:
    flood = ChildMessage(ReadLimits(characters=1000))
    section = b'{"section": {"locator": "", "text": "' + "\N{GRINNING FACE}".encode() + b"x" * 100_000 + b'"}}\n'
    taken = 0
    while flood.take(section):
        taken += 1
    endless = ChildMessage(ReadLimits(characters=1000))
    while endless.take(b"x" * 100_000):
        pass

    assert taken < 12  # a wide letter makes all letters beside it wide
    assert (flood.cut, endless.cut) == (True, True)


@pytest.mark.req("X-04")
async def test_a_pdf_of_empty_pages_is_refused_soon() -> None:
    with pytest.raises(UnreadableDocument, match="holds no text"):
        await extract(bare_pdf([b""] * 250), "empty.pdf")


# -- words ------------------------------------------------------------------------------------------------------------


async def test_letters_printed_twice_are_read_once_and_double_letters_stay() -> None:
    commands = "BT /F 12 Tf 72 700 Td (Sunny offer) Tj ET BT /F 12 Tf 72.4 700 Td (Sunny offer) Tj ET"
    commands += "".join(f" BT /F 12 Tf {72 + place} 600 Td (T) Tj ET" for place in (0, 0.3, 20, 20.3))

    document = await extract(bare_pdf([stream(commands=commands)]), "a.pdf")

    assert document.sections[0].text == "Sunny offer\n\nT T"


async def test_ligatures_are_letters_and_a_word_broken_by_the_margin_is_mended() -> None:
    commands = r"BT /F 12 Tf 72 700 Td (The \336nance of\336ce sends the invoice num-) Tj 0 -14 Td (ber to all) Tj ET"
    data = bare_pdf([stream(commands=commands)])
    data = data.replace(b"/BaseFont/Helvetica", b"/BaseFont/Helvetica/Encoding/MacRomanEncoding")

    document = await extract(data, "a.pdf")

    assert document.sections[0].text == "The finance office sends the invoice number to all"


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
async def test_the_words_of_a_turned_page_are_read_as_people_see_it(turned: int) -> None:
    commands = {
        0: "1 0 0 1 50 700",
        90: "0 1 -1 0 50 50",
        180: "-1 0 0 -1 550 50",
        270: "0 -1 1 0 50 700",
    }[turned]
    lines = "(First line here) Tj 0 -14 Td (second line there) Tj"
    data = bare_pdf([stream(commands=f"BT /F 12 Tf {commands} Tm {lines} ET")])
    data = data.replace(b"/MediaBox[0 0 600 800]", b"/Rotate %d/MediaBox[0 0 600 800]" % turned)

    document = await extract(data, "a.pdf")

    assert document.sections[0].text == "First line here\nsecond line there"


def stream(text: str = "", commands: str = "") -> bytes:
    drawn = (commands or f"BT /F 12 Tf 72 700 Td ({text}) Tj ET").encode()
    return b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn)


# -- tables and texts -------------------------------------------------------------------------------------------------


@pytest.mark.req("C-05")
async def test_a_long_table_is_sections_of_rows_below_its_header() -> None:
    rows = "".join(f"{number},Item {number}\n" for number in range(2, 452))

    document = await extract(f"id,name\n{rows}".encode(), "a.csv")

    assert [section.locator for section in document.sections] == ["rows 1-200", "rows 201-400", "rows 401-451"]
    assert all(section.text.startswith("| id | name |\n| --- | --- |\n") for section in document.sections)
    assert document.sections[1].text.splitlines()[2::199] == ["| 201 | Item 201 |", "| 400 | Item 400 |"]


async def test_a_table_with_a_quote_missing_is_read_as_if_there_were_none() -> None:
    rows = b"a,b\n" + b"1,2\n" * 300

    document = await extract(rows + b'"' + b"3,4\n" * 300_000, "a.csv")

    assert document.sections[1].text.splitlines()[-100:-98] == ["| 1 | 2 |", "| 3 | 4 |"]
    assert not document.truncated
    assert document.notes == ("In the table a quote is missing in line 302; it was read without quotes.",)


async def test_lines_of_whatever_length_below_a_missing_quote_are_told() -> None:
    document = await extract(b"a,b\n" + b"1,2\n" * 300 + b'"' + b"3,4,5\n" * 400_000, "a.csv")

    assert [section.locator for section in document.sections] == ["rows 1-200", "rows 201-301"]
    assert document.truncated
    assert document.notes[0].endswith("where a cell is too long: a quote may be missing.")


@pytest.mark.parametrize("row", ['00002;"part two;9,50', '00002;"part; two;9,50', '00002;"12"";9,50'])
async def test_a_quote_that_is_missing_spoils_no_row_but_its_own(row: str) -> None:
    text = f'no;text;price\r\n00001;"one\r\n\r\nof; two";1,50\r\n{row}\r\n00003;"part 3";3,50\r\n00004;four;4,50\r\n'

    table = (await extract(text.encode(), "a.csv")).sections[0].text

    assert "| 00001 | one of; two | 1,50 |" in table
    assert "9,50 |" in table
    assert table.endswith("| 00003 | part 3 | 3,50 |\n| 00004 | four | 4,50 |")


@pytest.mark.parametrize("name", ["a.txt", "a.json", "a.md"])
async def test_a_long_text_is_read_whole_in_sections_named_by_their_lines(name: str) -> None:
    lines = [f"This is line {number}." for number in range(1, 20_001)]

    document = await extract("\n".join(lines).encode(), name, limits=ReadLimits(whole_text=100_000))

    assert text_of(document).splitlines() == lines
    assert document.sections[0].locator.startswith("lines 1-")
    assert document.sections[-1].locator.endswith("-20000")
    assert len(document.sections) == 10
    assert not document.truncated


@pytest.mark.req("X-04")
async def test_the_event_loop_goes_on_while_much_is_heard() -> None:
    data = b"id,name\n" + b"".join(b"%d,Item %d of a long table\n" % (number, number) for number in range(100_000))

    assert await longest_gap(extract(data, "a.csv")) < 0.2


# -- at scale ---------------------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.req("X-04")
@pytest.mark.parametrize("kinds", [("prose",), KINDS], ids=["prose", "mixed"])
async def test_two_thousand_pages_are_read_whole_within_memory(kinds: tuple[str, ...]) -> None:
    pages = 2_000
    planted = {page: f"The delivery code is K{page * 7919}." for page in range(37, pages, pages // 20)}
    data = long_pdf(pages, planted, kinds)

    with peak_memory() as most:
        began = time.monotonic()
        document = await DocumentReader(2)(loaded(data), len(data), "long.pdf")
        seconds = time.monotonic() - began

    found = {section.locator: section.text for section in document.sections}
    assert list(found) == [f"page {page}" for page in range(1, pages + 1)]
    said = {page: planted.get(page, f"This was page {page}.") for page in range(1, pages + 1)}
    assert all(sentence in found[f"page {page}"] for page, sentence in said.items())
    assert (document.truncated, document.notes) == (False, ())
    tell(f"{pages} pages of {', '.join(kinds)}", seconds, most)


@pytest.mark.soak
@pytest.mark.req("X-04")
async def test_a_very_large_table_is_read_whole_within_memory() -> None:
    row = "{0},2026-05-17,Customer {0},Zürich,Article {0} of the long list,12,199.95,it was shipped on time\n".format
    rows = 560_000
    data = ("id,date,customer,city,article,quantity,price,remark\n" + "".join(map(row, range(rows)))).encode()
    assert len(data) > 50_000_000

    with peak_memory() as most:
        began = time.monotonic()
        document = await extract(data, "large.csv")
        seconds = time.monotonic() - began

    assert sum(section.text.count("\n") - 1 for section in document.sections) == rows
    assert document.sections[-1].locator == f"rows 560001-{rows + 1}"
    assert f"| {rows - 1} | 2026-05-17 |" in document.sections[-1].text
    assert not document.truncated
    tell(f"{len(data) // 1_000_000} MB of CSV", seconds, most)


@pytest.mark.soak
@pytest.mark.req("X-04")
async def test_a_hundred_thousand_pages_of_nothing_are_bounded() -> None:
    with peak_memory() as most:
        began = time.monotonic()
        with pytest.raises(UnreadableDocument, match="holds no text"):
            await extract(bare_pdf([b""] * 100_000), "empty.pdf")
        seconds = time.monotonic() - began

    tell("100,000 empty pages", seconds, most)


def tell(what: str, seconds: float, most: dict[int, int]) -> None:
    own = most.pop(os.getpid())
    told = f"{what}: {seconds:.1f} s, {own // MEGABYTE} MB here, {max(most.values()) // MEGABYTE} MB in a child"
    sys.stderr.write(told + "\n")
    assert max(own, *most.values()) < MOST_MEMORY
