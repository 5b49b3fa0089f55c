"""What `poweron sources` says of calculated values: the cells behind each, from which it is calculated again."""

import pytest
from asked import process
from cited_answers import Kept, cited

SALES = """# sales.csv

<!-- text/csv -->

| Region | Quarter | Revenue | Visitors |
| --- | --- | --- | --- |
| North | Q1 | 1200.50 | 30 |
| North | Q2 | 900.00 |  |
| South | Q1 | 2000.00 | 41 |
| South | Q2 | 900.00 | 44 |
"""
GEHAELTER = """# lohn.md

<!-- text/markdown -->

## page 1

| Name | Lohn |
| --- | --- |
| Ada | 4.100,50 Euro |
| Ben | 3.900,00 Euro |

## page 2

| Name | Lohn |
| --- | --- |
| Cem | 4.000,25 Euro |
"""


@pytest.mark.req("C-04", "D-03")
@pytest.mark.parametrize(
    ("question", "document", "cells"),
    [
        ("What is the sum of the revenue in the North?", SALES, ("North, Revenue: 1200.50", "North, Revenue: 900.00")),
        ("What is the average revenue in the South?", SALES, ("South, Revenue: 2000.00", "South, Revenue: 900.00")),
        (
            "What is the average number of visitors?",
            SALES,
            ("North, Visitors: 30", "South, Visitors: 41", "South, Visitors: 44"),
        ),
        (
            "Wie hoch ist die Summe der Löhne?",
            GEHAELTER,
            ("Ada, Lohn: 4.100,50 Euro", "Ben, Lohn: 3.900,00 Euro", "Cem, Lohn: 4.000,25 Euro"),
        ),
        ("How many regions have a revenue of at least 1000?", SALES, ("North", "South")),
    ],
)
async def test_what_the_built_in_model_calculates_is_calculated_again_from_the_cells(
    question: str, document: str, cells: tuple[str, ...]
) -> None:
    kept = Kept()
    name = document.splitlines()[0].removeprefix("# ")
    await kept.document(f"{name}.md", document)
    answer = await process(question, document)
    await kept.answer("answer.md", answer)
    found = (await kept.looked_into()).documents
    quotes = [quote for each in found for quote in each.quotes]
    assert {(quote.result, quote.cells) for quote in quotes} == {("calculated", cells)}, answer
    assert quotes[0].cell_count == len(cells)


@pytest.mark.req("C-04", "D-03")
async def test_of_many_cells_the_rows_are_named_and_calculated_again() -> None:
    rows = "".join(f"| T-{number} | {number}.50 |\n" for number in range(1, 61))
    document = f"# long.csv\n\n<!-- text/csv -->\n\n| Part | Price |\n| --- | --- |\n{rows}"
    kept = Kept()
    await kept.document("long.csv.md", document)
    answer = await process("What is the average price of the parts?", document)
    counted = await process("How many parts cost more than 20?", document)
    assert answer == "**Price, Ø 60: 31.00** = Ø (rows 1-60) — long.csv"
    assert counted == "**parts cost: 41 (rows 20-60)** — long.csv"
    await kept.answer("answer.md", answer)
    await kept.answer("count.md", counted)
    quotes = (await kept.looked_into()).documents[0].quotes
    assert [(quote.result, quote.cell_count, quote.cells[0]) for quote in quotes] == [
        ("calculated", 60, "T-1, Price: 1.50"),
        ("calculated", 41, "T-20"),
    ]


@pytest.mark.req("C-04")
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("**Revenue, Σ 2: 2900.00** = 2000.00 + 900.00 (rows 3-4) — sales.csv", "calculated"),
        ("**Revenue, Σ 2: 2900.00** = 2000.00 + 900.00 (Zeilen 3-4) — sales.csv", "calculated"),
        ("**Visitors, Ø 2: 42.50** = (41 + 44) / 2 (rows 3-4) — sales.csv", "calculated"),
        ("**Visitors, Ø 3: 38.33** = (30 + 41 + 44) / 3 (rows 1, 3-4) — sales.csv", "calculated"),
        ("**Revenue, difference: 1100.00** = 2000.00 - 900.00 — sales.csv", "calculated"),
        ("**Revenue, Σ 2: 2900.01** = 2000.00 + 900.00 (rows 3-4) — sales.csv", "not found"),
        ("**Revenue, Σ 2: 2900.00** = 2000.00 + 900.00 (rows 1-2) — sales.csv", "not found"),
        ("**Revenue, Σ 2: 3000.00** = 2000.00 + 1000.00 (rows 3-4) — sales.csv", "not found"),
        ("**Visitors, Σ 2: 2900.00** = 2000.00 + 900.00 (rows 3-4) — sales.csv", "not found"),
        ("**Revenue, Σ 4: 5000.50** = Σ (rows 1-5) — sales.csv", "not found"),
        ("**Revenue, difference: 1000.00** = 2000.00 - 1000.00 — sales.csv", "not found"),
        ("**Revenue, Σ 2: 2900.00** = rather a lot — sales.csv", "not found"),
        ("**Region: 3 (North; South; West)** — sales.csv", "not found"),
        ("**Region: 3 (North; South)** — sales.csv", "not found"),
    ],
)
async def test_a_calculation_counts_only_if_its_cells_are_there_and_give_the_value(text: str, result: str) -> None:
    kept = Kept()
    await kept.document("sales.csv.md", SALES)
    await kept.answer("answer.md", text)
    ((_, _, quotes),) = cited(await kept.looked_into())
    assert quotes[-1][1] == result
