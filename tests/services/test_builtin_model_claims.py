"""What the built-in model must not claim: comparisons that do not hold, values of another kind, labels of others."""

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
TEAM = "# n.md\n\n<!-- text/markdown -->\n\nTeam: Petra leads the warehouse. Omar is the night guard.\n"
MEMBER = "# r.txt\n\n<!-- text/plain -->\n\nSarah Mitchell\nID: TM-44\nTotal Points: 3,247\nNext Reward: $50 card\n"


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        (
            "Which items are below their reorder level?",
            ["**A-1, Tent, quantity: 19 (reorder_level: 25)** — stock.csv"],
        ),
        ("Which items cost more than $100?", ["**A-1, Tent, unit_price: 349.00** — stock.csv"]),
        (
            "Which products have at least 19 units?",
            ["- **A-1, Tent, quantity: 19** — stock.csv", "- **A-2, Stove, quantity: 80** — stock.csv"],
        ),
    ],
)
async def test_a_comparison_lists_the_rows_for_which_it_holds(question, lines):
    assert (await process(question, STOCK)).splitlines() == lines


async def test_a_comparison_with_something_that_is_no_column_is_refused():
    answer = await process("Which items are heavier or older than their predecessor?", STOCK)
    assert answer.startswith("The documents do not say")


async def test_points_are_no_money_that_was_paid():
    answer = await process("How much did Sarah Mitchell pay in total?", MEMBER)
    assert answer.startswith("The documents do not say")


async def test_only_the_sentence_that_answers_is_quoted_without_a_heading_before_it():
    assert await process("Who leads the team?", TEAM) == "“Petra leads the warehouse.” — n.md"
