"""The built-in model asked for two things at once: the second part may leave its subject to the first."""

import pytest
from asked import process

CITIES = ("Basel", "Bern", "Chur", "Davos", "Genf", "Thun", "Zug")
SALES = "\n".join(
    [
        "# sales.csv",
        "",
        "<!-- text/csv -->",
        "",
        "| id | city | item sold | amount |",
        "| --- | --- | --- | --- |",
        *(f"| R-{n} | {CITIES[n % 7]} | lamp {n % 9} | {n * 3} |" for n in range(1, 40)),
        "| SPECIAL-9 | Zermatt | sextant | 4242 |",
        *(f"| R-{n} | {CITIES[n % 7]} | lamp {n % 9} | {n * 3} |" for n in range(40, 60)),
    ]
)


@pytest.mark.parametrize(
    "question",
    [
        "In which city was the sextant sold, and for what amount?",
        "In which city was the sextant sold and for how much?",
        "In welcher city liegt der sextant, und wie hoch ist der amount?",
    ],
)
async def test_a_part_that_names_no_subject_is_answered_from_the_row_of_the_part_before_it(question: str) -> None:
    answer = await process(question, SALES)
    city, amount = answer.split("\n\n")
    assert "Zermatt" in city
    assert "amount: 4242" in amount
    assert "lamp" not in answer
    assert "R-" not in amount


async def test_a_part_without_a_subject_that_the_subject_does_not_tell_is_refused() -> None:
    greeting = "# letter.txt\n\n<!-- text/plain -->\n\n" + "Dear Ada,\n\n" * 3
    said = f"{greeting}The lamp was sold for the amount of 12 francs.\n\nThe sextant was sold in Zermatt."
    answer = await process("Where was the sextant sold, and for what amount?", said)
    assert "Zermatt" in answer
    assert "12 francs" not in answer


async def test_a_part_that_has_a_verb_may_ask_for_something_of_its_own() -> None:
    said = "# letter.txt\n\n<!-- text/plain -->\n\nPhotographer: Ada Berg\n\nSome text.\n\nDate: March 14, 2025\n"
    answer = await process("Who is the photographer, and what is the date?", said)
    assert "Ada Berg" in answer
    assert "March 14, 2025" in answer
