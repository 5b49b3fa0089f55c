"""“Summarise it” is answered in a few sentences of the documents, as they stand there and in their order."""

import json
import re
from pathlib import Path

import pytest
from asked import INVOICE, TEMPLATE, ask, plan, process
from hypothesis import given
from hypothesis import strategies as st

from poweron_services.connectors.document_reader import extract
from poweron_services.models.builtin.brief import MOST, brief
from poweron_services.models.builtin.passages import build_library
from poweron_services.models.prompts import ProcessPrompt, SourceText

NOTES = """# notes.md

<!-- text/markdown -->

## section Bridge

The bridge of Lindach was closed on 31. March 2026 after an inspection. It had carried 4,000 cars a day.
The inspectors found rust in No. 5 of its eight girders. After an inspection the bridge of Lindach was closed.
Is there another way across the river?

## section Ferry

A ferry carries pedestrians from 6 a.m. to 10 p.m. free of charge. Cyclists pay 2 euros for each crossing.
The operator of the ferry is Nordufer Schiffe.

## section Costs

The repair of the girders costs 1.4 million euros, of which the state pays 60 percent. Work begins in June 2026.
The new girders are made in a yard at the coast. The council decides on the rest of the money in its May meeting.
"""
GERMAN = """# Satzung

## Fristen

Die Anmeldung endet am 31. März 2026 um 18 Uhr im Rathaus. Das gilt z. B. auch für Gäste des Vereins.
Der Beitrag von 40 Euro ist bis zum 15. Mai zu zahlen.
"""


def told(answer: str) -> list[str]:
    return [line.removeprefix("- ").rpartition(" — ")[0] for line in answer.splitlines() if line.startswith("- ")]


@pytest.mark.parametrize(
    "request_text", ["Summarise the notes.", "Give me the key points.", "Give me an overview of it."]
)
async def test_a_summary_is_a_few_sentences_of_the_document_in_its_order(request_text: str) -> None:
    sentences = told(await process(request_text, NOTES))
    text = " ".join(NOTES.split())
    assert 3 <= len(sentences) <= MOST
    places = [text.index(sentence) for sentence in sentences]
    assert places == sorted(places)


async def test_a_summary_covers_every_section_and_says_nothing_twice() -> None:
    answer = await process("Summarise the notes.", NOTES)
    assert {found[1] for found in re.finditer(r"section (\w+)", answer)} == {"Bridge", "Ferry", "Costs"}
    assert len(re.findall("closed", answer)) == 1


async def test_a_summary_splits_no_date_and_no_number_and_asks_nothing() -> None:
    answer = await process("Summarise the notes.", NOTES) + await process("Fasse die Satzung zusammen.", GERMAN)
    assert "am 31. März 2026 um 18 Uhr" in answer
    assert not re.search(r"(?:No\.|31\.|15\.|z\. B\.) —", answer)
    assert "another way" not in answer


async def test_a_summary_of_one_topic_is_about_it_alone() -> None:
    answer = await process("Summarise what the notes say about the ferry.", NOTES)
    assert "section Ferry" in answer
    assert "section Costs" not in answer


async def test_a_form_and_its_tables_are_told_by_their_facts() -> None:
    answer = await process("Summarise the invoice", INVOICE)
    assert "Item: TOTAL; Cost: $1,170.00" in answer
    assert "Basel" in answer


async def test_several_documents_are_told_one_by_one() -> None:
    documents = tuple(
        SourceText(f"docItem:{at}", "d", text)
        for at, text in enumerate((NOTES, GERMAN.replace("# Satzung", "# satzung.md\n\n<!-- text/markdown -->")))
    )
    prompt = ProcessPrompt(
        template=TEMPLATE,
        ai_prompt="Summarise both.",
        custom_instructions="",
        language="en",
        output_format="markdown",
        documents=documents,
    )
    answer = await ask(prompt)
    assert answer.index("**notes.md**") < answer.index("**satzung.md**")


async def test_a_summary_is_printed_and_a_report_is_written() -> None:
    assert len(await plan("Summarise the notes.")) == 1
    assert [task.task_type for task in await plan("Write a report on the notes.")] == ["report", "report"]
    assert len(await plan("Summarise the notes as a PDF.")) == 2


def test_of_a_book_there_is_a_sentence_of_each_chapter() -> None:
    chapters = [
        f"## Chapter {number}\n\n"
        + " ".join(f"In chapter {number} the ship number {at} left the harbor of Lindach." for at in range(14))
        for number in range(1, 16)
    ]
    text = "# book\n\n" + "\n\n".join(chapters)
    answer = brief(build_library((SourceText("1", "book.md", text),), "en"), frozenset(), "en")
    assert len(told(answer)) == 15


SENTENCES = st.lists(
    st.tuples(st.sampled_from(["mill", "river", "clock"]), st.integers(1, 999)).map(
        lambda one: f"The {one[0]} of the town was repaired in {one[1]} days by its owner."
    ),
    min_size=1,
    max_size=40,
)


@given(sentences=SENTENCES)
def test_whatever_is_told_stands_so_in_the_document(sentences: list[str]) -> None:
    held = build_library((SourceText("1", "d.md", f"# d\n\n{' '.join(sentences)}\n"),), "en")
    found = told(brief(held, frozenset(), "en"))
    assert 1 <= len(found) <= MOST
    assert all(one in sentences for one in found)


SUMMARIES = Path(__file__).parents[3] / "answers" / "summaries.jsonl"
HOUSE = Path(__file__).parents[4]


async def test_summaries_hold_four_fifths_of_the_points_that_a_reader_would_want() -> None:
    """Each line of the table names a document and its five points; the points were written before any summary."""
    missed = []
    lines = [json.loads(line) for line in SUMMARIES.read_text().splitlines()]
    for line in lines:
        path = HOUSE / line["document"]
        text = (await extract(path.read_bytes(), path.name)).markdown()
        summary = await process(line["prompt"], text)
        missed += [(path.name, point) for point in line["points"] if not re.search(point, summary)]
    assert len(missed) <= sum(len(line["points"]) for line in lines) / 5, missed
