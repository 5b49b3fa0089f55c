"""Documents that were read in part: whatever the built-in model says to them, it says that."""

import orjson
import pytest
from asked import TEMPLATE, ask, process

from poweron_services.models.prompts import MessagePrompt, ProcessPrompt, SourceText, TaskResult

PARTLY = """# long.pdf

<!-- application/pdf truncated -->

## page 1

Due date: July 3, 2025

## notes

- Reading took too long and ended after page 122.
"""
SAID = "Not everything was read of long.pdf: Reading took too long and ended after page 122."


@pytest.mark.parametrize(
    "question", ["What is the due date?", "Who won the lottery?", "Summarise the document", "Write a report"]
)
async def test_every_answer_to_a_document_read_in_part_says_so(question):
    assert (await process(question, PARTLY)).endswith(f"\n\n> {SAID}")


async def test_it_is_said_in_german_with_the_words_of_the_note():
    answer = await process("Wer hat die Lotterie gewonnen?", PARTLY)
    assert answer.startswith("Was von den Dokumenten gelesen wurde, sagt dazu nichts: ")
    assert answer.endswith(
        "\n\n> Nicht alles wurde gelesen von long.pdf: Reading took too long and ended after page 122."
    )


async def test_the_mark_alone_is_enough():
    answer = await process("What is the due date?", PARTLY.partition("## notes")[0])
    assert answer.endswith("\n\n> Not everything was read of long.pdf: its text was cut off.")


async def test_a_note_that_nothing_is_missing_is_told_as_what_it_is():
    noted = PARTLY.replace(" truncated", "").replace("Reading took too long and ended after page 122", "It is old")
    answer = await process("What is the due date?", noted)
    assert answer.endswith("\n\n> About the reading of long.pdf: It is old.")


async def test_notes_are_no_passage_to_answer_from():
    answer = await process("After which page did reading end?", PARTLY)
    said, _, noted = answer.split("\n\n")
    assert (said, noted) == (
        'What was read of the documents does not say: "After which page did reading end"',
        f"> {SAID}",
    )


async def test_json_says_it_beside_the_answer():
    (entry,) = orjson.loads(await process("What is the due date?", PARTLY, output_format="json"))
    assert (entry["answered"], entry["notes"]) == (True, [SAID])


async def test_the_message_to_a_report_says_it_too():
    found = TaskResult("Find out", "success", "Done", await process("Summarise the document", PARTLY))
    prompt = MessagePrompt(
        template=TEMPLATE, user_prompt="Write a report", language=None, results=(found,), documents=()
    )
    assert (await ask(prompt)).endswith(f"\n\n> {SAID}")


async def test_a_message_that_is_cut_still_says_it():
    found = TaskResult("Find out", "success", "Done", f"{'word ' * 5_000}\n\n> {SAID}")
    prompt = MessagePrompt(template=TEMPLATE, user_prompt="What?", language=None, results=(found,), documents=())
    assert (await ask(prompt)).endswith(f"…\n\n> {SAID}")


@pytest.mark.parametrize("left_out", [False, True])
async def test_what_was_read_does_not_say_it_where_the_rest_was_not_read(left_out):
    text = f"Due date: July 3, 2025\n\n{'word ' * 250_000}" if left_out else PARTLY
    answer = await process("Who won the lottery?", text)
    assert answer.startswith('What was read of the documents does not say: "Who won the lottery"\n\n')


@pytest.mark.parametrize(("extent", "is_calculated"), [("whole", True), ("excerpts", False), ("part", False)])
async def test_nothing_is_calculated_from_a_table_of_which_only_a_part_is_there(extent, is_calculated):
    table = "# t.csv\n\n<!-- text/csv -->\n\n| Part | Price |\n| --- | --- |\n| Bolt | 1.50 |\n| Nut | 2.50 |\n"
    prompt = ProcessPrompt(
        template=TEMPLATE,
        ai_prompt="What is the average price of the parts?",
        custom_instructions="",
        language=None,
        output_format="markdown",
        documents=(SourceText("docItem:1", "t.csv", table),),
        extent=extent,
    )
    assert ("Ø 2: 2.00" in await ask(prompt)) == is_calculated
