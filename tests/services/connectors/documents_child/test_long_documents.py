"""Documents of any length: what fits is shown whole, of more what matters, and for tasks that need it everything."""

import random
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, get_args

import orjson
import pytest
from event_loop import longest_gap
from long_documents import THINGS, Reader, Shelf, built_in, code, fact, long_document, process, question, short
from processor_time import within

from poweron_events.errors import Refused
from poweron_services.actions.document_extract import DocumentExtract
from poweron_services.actions.document_passages import LONGEST, cut
from poweron_services.actions.output_formats import check_format, without_fence
from poweron_services.actions.texts import read_texts
from poweron_services.connectors.document_reader import ExtractedDocument, Section
from poweron_services.connectors.documents_child.pipe_tables import pipe_table
from poweron_services.models.chat_model import ChatModel, TooLong
from poweron_services.models.prompts import OutputFormat, SourceText

PLANTED: Final = {50 * number + 17: thing for number, thing in enumerate(THINGS)}
"""One thing on some page of every fifty."""
FACTS: Final = {page: fact(thing) for page, thing in PLANTED.items()}
ENDS: Final = [0, 9, 19]


def table(rows: int, planted: Mapping[int, str]) -> ExtractedDocument:
    """A table of so many rows, the first of them its head, as it is read from a CSV file."""
    lines = ["| id | remark | city |", "| --- | --- | --- |"]
    lines += [
        f"| {row} | {planted.get(row, 'The parcel was delivered without a code')} | Vienna |"
        for row in range(2, rows + 1)
    ]
    return ExtractedDocument("parcels.csv", "text/csv", (Section("", "\n".join(lines)),), truncated=False, notes=())


@pytest.fixture(scope="module")
def thousand_pages() -> Shelf:
    return Shelf({"long.pdf": long_document("long.pdf", 1_000, FACTS)})


# --- what matters -------------------------------------------------------------------------------------


@pytest.mark.req("C-04")
@pytest.mark.parametrize("model", [built_in(), Reader()], ids=["built-in", "reader"])
@pytest.mark.parametrize("number", ENDS)
async def test_a_fact_on_any_of_a_thousand_pages_is_found_with_its_page(
    thousand_pages: Shelf, model: ChatModel, number: int
) -> None:
    page, thing = list(PLANTED.items())[number]
    asked = await process(thousand_pages, model, question(thing))
    assert code(thing) in asked.text
    assert f"page {page}" in asked.text


@pytest.mark.req("C-04")
async def test_what_fits_is_shown_whole_and_nothing_is_said_of_what_was_not_read() -> None:
    model = Reader()
    asked = await process(short(), model, question("museum"))
    (prompt,) = model.asked
    assert prompt.extent == "whole"
    assert prompt.documents[0].text == short().documents["long.pdf"].markdown()
    assert (asked.done.coverage, asked.done.notes) == ((), ())
    assert asked.text == f"The museum code is {code('museum')} (page 17)"


@pytest.mark.req("C-04")
@pytest.mark.req("L-10")
async def test_of_more_the_passages_that_fit_best_are_shown_and_what_was_not_is_a_field_and_a_sentence() -> None:
    model = Reader()
    asked = await process(short(), model, question("museum"), window=20_000)
    (prompt,) = model.asked
    assert prompt.extent == "excerpts"
    assert sum(len(document.text) for document in prompt.documents) <= 20_000
    (coverage,) = asked.done.coverage
    assert (coverage.document_name, coverage.place, coverage.places) == ("long.pdf", "page", 60)
    assert 0 < coverage.places_shown < 60
    assert 0 < coverage.characters_shown < 20_000 < coverage.characters
    sentence = (
        f"Not everything was read for this answer: {coverage.places_shown} of 60 pages of long.pdf were read, the rest "
        "was not. Name more exactly what it is about if this is not the answer that you look for."
    )
    assert asked.done.notes == (sentence,)
    assert asked.text == f"The museum code is {code('museum')} (page 17)\n\n> {sentence}\n"


@pytest.mark.req("C-04")
async def test_a_passage_is_shown_with_its_neighbours_below_its_heading() -> None:
    chance = random.Random(7)
    words = [f"{chance.choice('bdgklmnprstv')}{chance.choice('aeiou')}{number}" for number in range(900)]
    paragraphs = [f"Paragraph {n}: {' '.join(chance.choices(words, k=180))}." for n in range(40)]
    paragraphs[20] += f" {fact('museum')}"
    paragraphs[18] = f"### Opening hours\n\n{paragraphs[18]}"
    page = Section("page 3", "\n\n".join(paragraphs))
    found = ExtractedDocument("long.pdf", "application/pdf", (page,), truncated=False, notes=())
    model = Reader()
    await process(Shelf({"long.pdf": found}), model, question("museum"), window=10_000)
    shown = model.asked[0].documents[0].text
    assert [n for n in range(10, 40) if f"Paragraph {n}:" in shown] == [19, 20, 21]
    assert re.search(r"## page 3\n.*\n### Opening hours\n+Paragraph 19:", shown, re.DOTALL)


@pytest.mark.req("C-04", "L-10")
async def test_a_question_to_what_is_extracted_is_answered_from_passages_and_says_what_was_not_read() -> None:
    asked = await process(
        short(), Reader(), question("museum"), window=20_000, action=DocumentExtract, documentList=["docList:d1"]
    )
    whole, answer = asked.done.result.documents
    assert whole.document_data.decode() == short().documents["long.pdf"].markdown()
    assert answer.document_data.decode().startswith(
        f"The museum code is {code('museum')} (page 17)\n\n> Not everything "
    )
    (coverage,) = asked.done.coverage
    assert 0 < coverage.places_shown < coverage.places == 60


@pytest.mark.req("C-04")
async def test_a_row_in_the_middle_of_a_long_table_is_shown_below_the_head_with_its_number() -> None:
    model = Reader()
    shelf = Shelf({"parcels.csv": table(20_000, {12_345: fact("ferry")})})
    asked = await process(shelf, model, question("ferry"), window=20_000)
    shown = model.asked[0].documents[0].text
    heading = re.search(r"## rows (\d+)-(\d+)\n\n\| id \| remark \| city \|\n\| --- .*\n(?:\|.*\n)*\| 12345 ", shown)
    assert heading is not None
    assert int(heading[1]) <= 12_345 <= int(heading[2])
    assert code("ferry") in asked.text


@pytest.mark.req("C-04")
async def test_a_part_of_a_question_that_names_no_subject_is_looked_for_with_that_of_the_part_before_it() -> None:
    model = Reader()
    rows = [["order", "city", "item sold", "amount"]]
    rows += [[f"R-{n}", f"town {n % 90}", f"lamp amount {n % 70}", str(n)] for n in range(1, 20_000)]
    rows[12_345] = ["SPECIAL-9", "Zermatt", "sextant", "4242"]
    big = ExtractedDocument("big.csv", "text/csv", (Section("", pipe_table(rows)),), truncated=False, notes=())
    task = "In which city was the sextant sold, and for what amount?"
    await process(Shelf({"big.csv": big}), model, task, window=8_000)
    assert "| SPECIAL-9 | Zermatt | sextant | 4242 |" in model.asked[0].documents[0].text
    asked = await process(Shelf({"big.csv": big}), built_in(), task, window=30_000)
    city, amount, unread = asked.text.strip().split("\n\n")
    assert "Zermatt" in city
    assert amount.startswith("**SPECIAL-9, Zermatt, amount: 4242** — big.csv, rows ")
    assert " % of big.csv were read, the rest was not. " in unread


@pytest.mark.req("C-04")
@pytest.mark.parametrize("has_head", [True, False])
async def test_rows_of_a_table_that_is_read_in_sections_keep_their_numbers(*, has_head: bool) -> None:
    """As a long CSV file is read: each section has the head again, where there is one, and names its rows."""
    rows = [
        ["id", "remark"] if has_head else ["1", "-"],
        *([str(n), f"{fact('ferry') * (n == 345)}-"] for n in range(2, 601)),
    ]
    sections = [
        Section(
            f"rows {first}-{first + 199}",
            pipe_table(
                [*(rows[:1] if has_head and first > 1 else []), *rows[first - 1 : first + 199]], header=has_head
            ),
        )
        for first in (1, 201, 401)
    ]
    found = ExtractedDocument("long.csv", "text/csv", tuple(sections), truncated=False, notes=())
    model = Reader()
    await process(Shelf({"long.csv": found}), model, question("ferry"), window=4_000)
    shown = model.asked[0].documents[0].text
    heading = re.search(r"## rows (\d+)-(\d+)\n\n(?:\|.*\n)*\| 345 ", shown)
    assert heading is not None
    listed = re.findall(r"^\| (\d+) ", heading[0], re.MULTILINE)
    assert listed[0] == heading[1]


@pytest.mark.req("C-04")
@pytest.mark.parametrize("model", [built_in(), Reader()], ids=["built-in", "reader"])
async def test_a_fact_in_any_of_three_hundred_documents_is_found_with_document_and_page(model: ChatModel) -> None:
    facts = {15 * number + 4: thing for number, thing in enumerate(THINGS)}
    planted = {number: {2: fact(thing)} for number, thing in facts.items()}
    names = [f"file-{number}.pdf" for number in range(300)]
    shelf = Shelf({name: long_document(name, 3, planted.get(number, {})) for number, name in enumerate(names)})
    for number in (4, 154, 289):
        asked = await process(shelf, model, question(facts[number]))
        assert code(facts[number]) in asked.text
        assert "page 2" in asked.text
    assert ("documents_read", 300, 300) in asked.progress


async def test_how_far_a_long_text_is_searched_is_told_meanwhile() -> None:
    shelf = Shelf({"log.pdf": long_document("log.pdf", 1_200, {7: fact("museum")})})
    asked = await process(shelf, built_in(), question("museum"))
    assert code("museum") in asked.text
    searched = [(done, total) for unit, done, total in asked.progress if unit == "passages_searched"]
    (total,) = {total for _, total in searched}
    assert [done for done, _ in searched] == [*range(0, total, 500), total]
    assert len(searched) > 3


@pytest.mark.req("C-04")
async def test_a_model_that_takes_less_than_is_known_of_it_is_shown_less() -> None:
    model = Reader(takes=15_000)
    asked = await process(short(), model, question("museum"))
    assert model.asked[-1].extent == "excerpts"
    assert code("museum") in asked.text


@pytest.mark.req("C-04")
async def test_a_model_that_takes_nothing_is_given_up() -> None:
    with pytest.raises(TooLong):
        await process(short(), Reader(takes=10), question("museum"))


# --- at once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["x" * 1_000_000, "語" * 1_000_000, "|" * 1_000_000], ids=["x", "語", "|"])
def test_a_line_of_a_million_characters_is_soon_in_passages_that_leave_nothing_out(line: str) -> None:
    with within(1):
        text = cut(SourceText("docItem:d1:a.json", "a.json", line))
        assert "".join(line[passage.start : passage.end] for passage in text.passages) == line
        assert max(passage.end - passage.start for passage in text.passages) <= LONGEST


async def test_the_event_loop_goes_on_while_a_long_document_is_made_ready() -> None:
    rows = {row: f"The parcel {row} was delivered to Łódź" for row in range(200_000)}
    shelf = Shelf({"parcels.csv": table(200_000, rows)})
    assert await longest_gap(read_texts(shelf.given(), shelf, with_metadata=False)) < 0.2


# --- formats and parameters ---------------------------------------------------------------------------

BROKEN: Final = {
    "json": ("{", '{"total": 42}'),
    "csv": ("a,b\nc\n", "a,b\n1,2\n"),
    "text": ("# Total\n\n**42**", "The total is 42."),
    "html": ("The total is 42.", "<p>The total is 42.</p>"),
    "markdown": (" ", "The total is **42**."),
}


@pytest.mark.req("C-04")
@pytest.mark.req("D-03")
@pytest.mark.parametrize("wanted", BROKEN)
async def test_output_that_is_broken_is_asked_for_once_more_and_the_model_is_told_why(wanted: str) -> None:
    broken, whole = BROKEN[wanted]
    model = Reader(says=[broken, whole])
    asked = await process(short(), model, "What is the total?", expectedDocumentFormats=[wanted])
    assert whole in asked.text
    first, second = model.asked
    assert (first.problem, second.refused) == ("", broken)
    assert second.problem.startswith(("The output is not", "The model wrote nothing."))
    assert second.problem in str(second.render())
    assert asked.done.notes == (f"The model was asked once more: {second.problem}",)


@pytest.mark.req("C-04")
@pytest.mark.parametrize("task", [question("museum"), "List all codes."])
async def test_instructions_and_language_are_told_with_every_call(task: str) -> None:
    model = Reader()
    await process(short(), model, task, window=30_000, customInstructions="Name the month, too.")
    assert {(prompt.custom_instructions, prompt.language) for prompt in model.asked} == {("Name the month, too.", "en")}
    assert all("Name the month, too." in str(prompt.render()) for prompt in model.asked)


@pytest.mark.parametrize("written", ["[" * 60_000, "**a" * 20_000, "```\n" + "\n```\nx" * 10_000])
def test_no_output_takes_long_to_check(written: str) -> None:
    with within(2):
        for wanted in get_args(OutputFormat):
            bare = without_fence(written, wanted)
            with suppress(Refused):
                check_format(bare, wanted)


@pytest.mark.req("D-03")
async def test_output_that_is_broken_twice_is_none() -> None:
    with pytest.raises(Refused, match=r"^The output is not plain text: it contains the markdown '# T'\.$"):
        await process(short(), Reader(says=["# Total"] * 2), "Total?", expectedDocumentFormats=["text"])


@pytest.mark.req("X-05")
async def test_html_is_kept_without_what_could_run_or_be_fetched() -> None:
    hostile = '<h1 onclick="steal()">Total</h1><script>alert(1)</script><p>42 <img src="https://x.example/p"></p><a href="javascript:x()">x</a>'
    asked = await process(short(), Reader(says=[hostile]), "Total?", expectedDocumentFormats=["html"])
    assert asked.done.result.documents[0].mime_type == "text/html"
    assert "<h1>Total</h1><p>42 </p>" in asked.text
    assert not re.search(r"onclick|script|img|javascript|x\.example", asked.text)
    assert "default-src 'none'" in asked.text


@pytest.mark.req("C-04")
@pytest.mark.parametrize("wanted", ["text", "html", "json", "csv"])
@pytest.mark.parametrize("prompt", [question("museum"), "List all: which codes are named?", "Summarise it."])
async def test_the_built_in_model_writes_every_format_from_documents_of_any_length(wanted: str, prompt: str) -> None:
    asked = await process(short(), built_in(), prompt, window=30_000, expectedDocumentFormats=[wanted])
    assert asked.text.strip()
    if wanted == "json":
        assert isinstance(orjson.loads(asked.text), list)


@pytest.mark.req("C-04")
@pytest.mark.parametrize(("parameters", "is_shown"), [({}, True), ({"includeMetadata": False}, False)])
@pytest.mark.parametrize("window", [1_000_000, 20_000])
async def test_what_a_document_tells_of_itself_is_shown_unless_it_is_not_wanted(
    parameters: dict[str, Any], window: int, *, is_shown: bool
) -> None:
    shelf = short()
    found = shelf.documents["long.pdf"]
    shelf.documents["long.pdf"] = ExtractedDocument(
        found.name, found.mime_type, found.sections, found.truncated, found.notes, metadata=(("author", "Ada Quint"),)
    )
    model = Reader()
    await process(shelf, model, question("museum"), window=window, **parameters)
    assert ("Ada Quint" in str(model.asked[0].render())) == is_shown


# --- at scale -----------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.req("C-04")
@pytest.mark.parametrize(("model", "least"), [(built_in(), 19), (Reader(), 20)], ids=["built-in", "reader"])
async def test_twenty_facts_in_a_thousand_pages_are_found(thousand_pages: Shelf, model: ChatModel, least: int) -> None:
    found = 0
    for page, thing in PLANTED.items():
        asked = await process(thousand_pages, model, question(thing))
        found += code(thing) in asked.text and f"page {page}" in asked.text
    assert found >= least
