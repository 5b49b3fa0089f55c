"""What is asked of all values of a kind: each is listed in the words of the document, with the statement around it."""

import json

import pytest
from asked import process
from cited_answers import Kept

LETTER = """# letter.txt

<!-- text/plain -->

Harbour Roofing Ltd
Hill Road 4, 8001 Zurich

Zurich, 14 March 2026

Dear Mr Weber

We replace the roof for CHF 48,500.00. Please pay a deposit of CHF 12,000.00 by 1 April 2026; the rest, \
plus 8.1 % tax, is due within 30 days of completion.

Your contact is Anna Keller, 044 555 12 30, keller@roofing.example. Our foreman Reto Frei calls you at 8:30 am sharp.
"""
VERTRAG = """# vertrag.txt

<!-- text/plain -->

Werkvertrag

Auftraggeberin: Petra Lang

Der Werklohn beträgt 18.400 Euro. Nach dem Richtfest werden 8.000 Euro fällig, für jeden Tag Verzug 120 Euro.

Der Bau dauert bis zum 30. September 2026. Mängel sind innerhalb von zwei Wochen bei Herrn Jonas Kern, \
Gartenweg 3, 3011 Bern, zu rügen.

| Posten | Betrag |
| --- | --- |
| Gerüst | 950,00 |
"""


def values(answer: str) -> list[str]:
    """The values in bold, in order."""
    return [piece for line in answer.splitlines() if "**" in line for piece in line.split("**")[1::2]]


@pytest.mark.req("C-04")
@pytest.mark.parametrize(
    ("question", "listed"),
    [
        ("Which sums are named in the letter?", ["CHF 48,500.00", "CHF 12,000.00"]),
        ("What amounts of money does letter.txt mention?", ["CHF 48,500.00", "CHF 12,000.00"]),
        ("Please list every amount.", ["CHF 48,500.00", "CHF 12,000.00"]),
        ("Which amounts does it give for the deposit?", ["CHF 12,000.00"]),
        ("What dates occur in the document?", ["14 March 2026", "1 April 2026"]),
        ("What are the deadlines?", ["by 1 April 2026", "within 30 days"]),
        (
            "Which sums and time limits does the letter contain?",
            ["CHF 48,500.00", "CHF 12,000.00", "by 1 April 2026", "within 30 days"],
        ),
        ("Who is mentioned in the letter?", ["Mr Weber", "Anna Keller", "Reto Frei"]),
        ("Give me the names of all people.", ["Mr Weber", "Anna Keller", "Reto Frei"]),
        ("Which phone numbers and e-mail addresses are given?", ["044 555 12 30", "keller@roofing.example"]),
        ("List the percentages.", ["8.1 %"]),
        ("Show all times of day.", ["8:30 am"]),
    ],
)
async def test_every_value_of_a_kind_is_listed(question: str, listed: list[str]) -> None:
    assert values(await process(question, LETTER)) == listed


@pytest.mark.req("C-04")
@pytest.mark.parametrize(
    ("question", "listed"),
    [
        ("Welche Beträge nennt der Vertrag?", ["18.400 Euro", "8.000 Euro", "120 Euro", "Gerüst, Betrag: 950,00"]),
        ("Liste alle Geldbeträge für den Verzug auf.", ["8.000 Euro", "120 Euro"]),
        ("Welche Fristen sind vereinbart?", ["bis zum 30. September 2026", "innerhalb von zwei Wochen"]),
        ("Nenne alle Termine im Werkvertrag.", ["30. September 2026"]),
        ("Wer wird im Vertrag genannt?", ["Auftraggeberin: Petra Lang", "Herrn Jonas Kern"]),
        ("Welche Adressen stehen darin?", ["Gartenweg 3, 3011 Bern"]),
    ],
)
async def test_german_questions_list_the_values_of_a_german_document(question: str, listed: list[str]) -> None:
    assert values(await process(question, VERTRAG)) == listed


async def test_a_value_is_shown_with_its_sentence_and_the_source_check_finds_both() -> None:
    answer = await process("Which dates does the letter name?", LETTER)
    assert answer.splitlines()[0] == "- **14 March 2026** — “Zurich, 14 March 2026” — letter.txt"
    kept = Kept()
    await kept.document("letter.txt.md", LETTER)
    await kept.answer("answer.md", answer)
    (source,) = (await kept.looked_into()).documents
    assert {quote.result for quote in source.quotes} == {"found"}


async def test_a_list_of_names_says_how_they_were_recognised() -> None:
    assert "> Names are recognised by their form" in await process("Which persons are named?", LETTER)
    assert "> Names" not in await process("Which dates are named?", LETTER)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Which websites does the letter mention?", "The documents do not say"),
        ("Which dates does it name for the roof?", "The documents do not say"),
        ("Which companies does the document name?", "Nothing of this kind was recognised"),
    ],
)
async def test_a_list_without_values_is_said_to_be_empty(question: str, said: str) -> None:
    short = "# note.txt\n\n<!-- text/plain -->\n\nThe contract of the lessee is about a garden.\n"
    assert (await process(question, short)).startswith(said)


@pytest.mark.parametrize(
    "question", ["What are the column names?", "What is the date of the letter?", "Which company sent it?"]
)
async def test_other_questions_list_nothing(question: str) -> None:
    assert "> Names" not in (answer := await process(question, LETTER))
    assert len(values(answer)) <= 1


async def test_a_list_as_json_has_each_value_with_its_words() -> None:
    (entry,) = json.loads(await process("Which sums are named?", LETTER, output_format="json"))
    assert (entry["answers"][0]["answer"], entry["answers"][0]["quote"]) == (
        "CHF 48,500.00",
        "We replace the roof for CHF 48,500.00.",
    )
