"""What is asked of documents by name: each answers for itself, and it is said whether they agree."""

import json

import pytest
from asked import process
from cited_answers import Kept

OFFER = """# offer.txt

<!-- text/plain -->

Offer 2026-17

Item: Climbing wall

Price: EUR 12,400.00

Delivery date: 3 May 2026

Warranty: 2 years
"""
INVOICE = """# rechnung-88.pdf

<!-- application/pdf -->

## page 1

Invoice 2026-88

Item: Climbing wall

Price: EUR 12,900.00

Delivery date: 2026-05-03
"""
MORNING = "# a.txt\n\n<!-- text/plain -->\n\nThe museum opens at 9 am. Admission is 8 euros.\n"
NOON = "# b.txt\n\n<!-- text/plain -->\n\nThe museum opens at 12 noon on Sundays and at 10 am on other days.\n"
VERTRAG = (
    "# mietvertrag.txt\n\n<!-- text/plain -->\n\nMietvertrag\n\nMiete: 1.450 Euro\n\nKündigungsfrist: drei Monate\n"
)
PROTOKOLL = "# protokoll.txt\n\n<!-- text/plain -->\n\nÜbergabe\n\nMiete: 1.480 Euro\n\nKündigungsfrist: 3 Monate\n"

TWO_PRICES = """- **Price: EUR 12,400.00** — offer.txt
- **Price: EUR 12,900.00** — rechnung-88.pdf, page 1
- **Difference: EUR 500.00** = EUR 12,900.00 - EUR 12,400.00 — rechnung-88.pdf, page 1; offer.txt

The documents differ."""

DATES = "- **Delivery date: 3 May 2026** — offer.txt\n- **Delivery date: 2026-05-03** — rechnung-88.pdf, page 1\n\n"
DIFFERENZ = "- **Differenz: 30 Euro** = 1.480 Euro - 1.450 Euro — protokoll.txt; mietvertrag.txt\n\n"


@pytest.mark.req("C-04")
@pytest.mark.parametrize(
    "question",
    [
        "What is the price according to the offer and according to the invoice?",
        "What price do the offer and the invoice state?",
        "What is the price in offer.txt and in rechnung-88.pdf?",
        "Do the offer and the invoice agree on the price?",
        "Is the price in the offer the same as in the invoice?",
        "By how much does the price differ between the offer and the invoice?",
        "What is the price in both documents?",
        "What does the offer say about the price, and what does the invoice say?",
    ],
)
async def test_each_named_document_answers_and_a_difference_is_calculated(question: str) -> None:
    assert await process(question, OFFER, INVOICE, named=True) == TWO_PRICES


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            "What is the delivery date according to the offer and the invoice?",
            f"{DATES}The documents agree.",
        ),
        (
            "How long is the warranty according to the offer and the invoice?",
            "- **Warranty: 2 years** — offer.txt\n- rechnung-88.pdf does not say it.",
        ),
        ("What is the price according to the invoice?", "**Price: EUR 12,900.00** — rechnung-88.pdf, page 1"),
        ("According to the offer, what is the price?", "**Price: EUR 12,400.00** — offer.txt"),
        ("Which amounts do the offer and the invoice name?", "\n".join(TWO_PRICES.splitlines()[:2])),
        ("Which amounts does the invoice name?", "**Price: EUR 12,900.00** — rechnung-88.pdf, page 1"),
    ],
)
async def test_what_a_document_does_not_say_and_what_agrees_is_said(question: str, said: str) -> None:
    assert await process(question, OFFER, INVOICE, named=True) == said


@pytest.mark.req("C-04")
@pytest.mark.parametrize(
    ("question", "end"),
    [
        (
            "Wie hoch ist die Miete laut Mietvertrag und laut Protokoll?",
            f"{DIFFERENZ}Die Dokumente unterscheiden sich.",
        ),
        ("Stimmen Vertrag und Protokoll bei der Kündigungsfrist überein?", "Die Dokumente stimmen überein."),
        ("Welche Kündigungsfrist nennen die beiden Dokumente?", "Die Dokumente stimmen überein."),
    ],
)
async def test_german_documents_are_compared_in_german(question: str, end: str) -> None:
    answer = await process(question, VERTRAG, PROTOKOLL, named=True)
    assert answer.count("— mietvertrag.txt\n") + answer.count("— protokoll.txt\n") >= 2
    assert answer.endswith(end)


async def test_values_that_only_overlap_are_neither_equal_nor_different() -> None:
    same = NOON.replace("12 noon", "9 am")
    answer = await process("When does the museum open according to a.txt and b.txt?", MORNING, same, named=True)
    assert [line.rpartition(" — ")[2] for line in answer.splitlines()] == ["a.txt", "b.txt"]


async def test_the_subject_of_a_question_is_no_name_of_a_document() -> None:
    answer = await process("What is the invoice number?", OFFER, INVOICE, named=True)
    assert "The documents agree" not in answer
    assert "The documents differ" not in answer


async def test_the_difference_of_two_documents_is_calculated_again_by_the_source_check() -> None:
    kept = Kept()
    for name, text in (("offer.txt.md", OFFER), ("rechnung-88.pdf.md", INVOICE)):
        await kept.document(name, text)
    await kept.answer("answer.md", TWO_PRICES)
    found = (await kept.looked_into()).documents
    assert {quote.result for each in found for quote in each.quotes} == {"found", "calculated"}


async def test_named_documents_as_json() -> None:
    question = "How long is the warranty according to the offer and the invoice?"
    (entry,) = json.loads(await process(question, OFFER, INVOICE, output_format="json", named=True))
    assert (entry["not_said_in"], entry["answers"][0]["answer"]) == (["rechnung-88.pdf"], "2 years")
