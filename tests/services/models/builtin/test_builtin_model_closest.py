"""Where the documents do not answer in the question's words: what the built-in model shows instead of an answer."""

import orjson
import pytest
from asked import process

HANDBOOK = """# handbook.md

<!-- text/markdown -->

## section Minutes

Present: Agnes Thorne, Dev Anand.

Excused: Paul Okoro.

## section Offer

The prices of this estimate hold for 30 days from its date.

You receive a set of prints unless you tell us otherwise before April 15, 2025.

The library lent the photographs to the museum in Basel.
"""


async def closest(question: str) -> list[str]:
    (entry,) = orjson.loads(await process(question, HANDBOOK, output_format="json"))
    assert (entry["answered"], entry["answers"]) == (False, [])
    return [close["quote"] for close in entry["closest"]]


async def test_what_comes_closest_is_shown_and_not_denied():
    assert await process("Who painted the photographs?", HANDBOOK) == (
        'These passages come closest to "Who painted the photographs"; see whether one of them answers it:\n\n'
        "- “The library lent the photographs to the museum in Basel.” — handbook.md, section Offer\n\n"
        "> Only words were compared, not what they mean: what is said in other words may be missed."
    )


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Who signed the estimate?", "The prices of this estimate hold for 30 days from its date."),
        (
            "How many prints fit into the drawer?",
            "You receive a set of prints unless you tell us otherwise before April 15, 2025.",
        ),
    ],
)
async def test_what_shares_the_most_with_the_question_stands_first(question, first):
    assert (await closest(question))[0] == first


async def test_where_no_word_is_shared_no_passage_is_shown():
    assert await closest("What is the recipe for pancakes?") == []


async def test_a_long_passage_is_quoted_in_part():
    long = f"# n.txt\n\n<!-- text/plain -->\n\nThe photographs {'of the old bridge ' * 30}are kept.\n"
    answer = await process("How many photographs are there?", long)
    (quote,) = [line for line in answer.splitlines() if line.startswith("- “")]
    assert quote.endswith("…” — n.txt")
    assert len(quote) < 320
