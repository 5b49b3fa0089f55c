"""The built-in model and whatever comes: hostile text, huge documents, a stage it does not know."""

import time

import pytest
from asked import INVOICE, TEMPLATE, process
from processor_time import within

from poweron_events.errors import Refused
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.prompts import MessagePrompt, Prompt, Template

HOSTILE = [
    "",
    "\x00\uffff" * 500,
    "?" * 5_000,
    "a " * 20_000,
    "x" * 20_000,
    "|" * 20_000,
    "(" * 20_000,
    "Aa Bb, " * 3_000,
    "what and " * 2_000,
    "1." * 10_000,
    "### a\n" * 3_000,
    'a[^"' * 20_000,
    "[x]((" * 10_000,
    "(a" * 20_000,
]


@pytest.mark.parametrize("question", ["What is the total?", *HOSTILE[::3]])
async def test_no_text_takes_long_or_breaks_it(question):
    with within(10):
        for text in HOSTILE:
            assert await process(question, text, INVOICE)


async def test_a_huge_document_is_read_in_part_and_that_is_said():
    line = "The turbine number {} was inspected by the crew on the hill and found to be in good order.\n\n"
    huge = "".join(line.format(number) for number in range(40_000))
    started = time.monotonic()
    answer = await process("What is the due date?", INVOICE, huge)
    assert time.monotonic() - started < 10
    assert "July 3, 2025" in answer
    assert "Not everything was read" in answer


async def test_the_same_prompt_gets_the_same_answer():
    answers = {await process("Who is the customer, and what are hours and cost of design?", INVOICE) for _ in range(5)}
    assert len(answers) == 1


async def test_a_completion_says_who_answered_and_estimates_tokens():
    template = Template("short", "Say it.\n=== data ===\n{{ user_prompt }}\n")
    prompt = MessagePrompt(template=template, user_prompt="x" * 40, language=None, results=(), documents=())
    completion = await BuiltinModel().complete(prompt)
    assert (completion.provider, completion.model, completion.input_tokens) == ("builtin", "extractive-1", 12)
    assert completion.text == "There is no result."
    assert completion.output_tokens == 5


async def test_an_unknown_stage_is_refused():
    with pytest.raises(Refused, match="does not know the prompt 'Prompt'"):
        await BuiltinModel().complete(Prompt(template=TEMPLATE))


CODES = "\n\n".join(f"Locker {number} has the code QX-{number:04}." for number in range(1, 21))


@pytest.mark.req("L-10")
async def test_of_many_statements_some_are_named_and_the_others_counted() -> None:
    answer = await process("Which code has the locker?", CODES)
    assert answer.count("has the code") == 12
    assert answer.endswith(
        "\n\n> 8 more passages say it and are not shown; ask for all of something, or for less, to see them."
    )


@pytest.mark.parametrize("request_", ["List all codes of the lockers.", "Which codes do all lockers have?"])
async def test_who_asks_for_all_of_something_is_told_all(request_: str) -> None:
    answer = await process(request_, CODES)
    assert all(f"QX-{number:04}" in answer for number in range(1, 21))
    assert "more passages" not in answer
