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


@pytest.mark.parametrize(
    "question",
    [
        "Which items are below their reorder level?",
        "Which items cost more than $100?",
        "Which products have at least 19 units?",
        "Which items are heavier or older than their predecessor?",
    ],
)
async def test_a_comparison_that_no_sentence_makes_is_refused(question):
    assert (await process(question, STOCK)).startswith("The documents do not say")


async def test_a_comparison_that_a_sentence_makes_is_quoted():
    said = "Orders of more than $100 are sent free of charge."
    assert await process("Which orders of more than $100 are sent free?", said) == f"“{said}” — invoice.pdf"


async def test_a_superlative_names_the_row_and_leaves_out_the_others():
    assert await process("Which item is the most expensive?", STOCK) == "**A-1, Tent, unit_price: 349.00** — stock.csv"


async def test_points_are_no_money_that_was_paid():
    answer = await process("How much did Sarah Mitchell pay in total?", MEMBER)
    assert answer.startswith("The documents do not say")
