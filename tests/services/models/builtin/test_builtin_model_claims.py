"""What the built-in model must not claim: comparisons that nobody made, values of another kind, labels of others."""

import pytest
from asked import process

STOCK = """# stock.csv

<!-- text/csv -->

| sku | product | quantity | reorder_level | unit_price |
| --- | --- | --- | --- | --- |
| A-1 | Tent | 19 | 25 | 349.00 |
| A-2 | Stove | 80 | 30 | 45.00 |
| A-3 | Lamp | 12 | 12 | 100.00 |
"""
MEMBER = "# r.txt\n\n<!-- text/plain -->\n\nSarah Mitchell\nID: TM-44\nTotal Points: 3,247\nNext Reward: $50 card\n"


REFUSED = ("The documents do not say", "These passages come closest")


async def test_a_comparison_that_nothing_makes_is_refused():
    question = "Which items are heavier or older than their predecessor?"
    assert (await process(question, STOCK)).startswith(REFUSED)


async def test_a_comparison_that_a_sentence_makes_is_quoted():
    said = "Orders of more than $100 are sent free of charge."
    assert await process("Which orders of more than $100 are sent free?", said) == f"“{said}” — invoice.pdf"


async def test_a_superlative_names_the_row_and_leaves_out_the_others():
    assert await process("Which item is the most expensive?", STOCK) == "**A-1, Tent, unit_price: 349.00** — stock.csv"


async def test_points_are_no_money_that_was_paid():
    answer = await process("How much did Sarah Mitchell pay in total?", MEMBER)
    assert answer.startswith("These passages come closest")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Who is the supplier, and when does the ferry stop?", "The ferry stops in winter."),
        ("When does the ferry stop?", "The ferry stopped last autumn."),
        ("When is the kiosk open?", "The kiosk is open during the summer."),
        ("Wann hält die Fähre?", "Die Fähre hält nur im Winter."),
        ("Quand ferme le kiosque ?", "Le kiosque ferme en hiver."),
    ],
)
async def test_a_season_is_a_time(question: str, said: str) -> None:
    answer = await process(question, f"# a.txt\n\n<!-- text/plain -->\n\nSupplier: Ada Berg\n\n{said}\n")
    assert answer.split("\n\n")[-1] == f"“{said}” — a.txt"
    assert "closest" not in answer


async def test_a_spring_of_steel_is_no_time() -> None:
    assert "“" not in (await process("When was the valve opened?", "The valve is opened by a spring.")).split("\n")[0]


MAIL = """# offer.eml

<!-- message/rfc822 -->

From: Lena Vogt <lena@vogt.example>
To: Folake Adeyemi <folake@adeyemi.example>
Subject: Your greenhouse
Date: Mon, 16 Jun 2025 10:24:00 +0200

Dear Ms. Adeyemi,

thank you for your inquiry. We can deliver in week 31.
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who sent the mail?", "**From: Lena Vogt"),
        ("Who wrote the email?", "**From: Lena Vogt"),
        ("Who is the sender of the message?", "**From: Lena Vogt"),
        ("To whom was the mail sent?", "**To: Folake Adeyemi"),
        ("Wer hat die E-Mail geschickt?", "**From: Lena Vogt"),
    ],
)
async def test_who_sent_a_mail_stands_in_its_head(question: str, answer: str) -> None:
    assert (await process(question, MAIL)).startswith(answer)
