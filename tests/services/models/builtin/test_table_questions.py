"""What is asked of whole tables: all rows, those beyond a bound, how many, a total; never of words they do not explain."""

import json

import pytest
from asked import process

STOCK = """# stock.csv

<!-- text/csv -->

| sku | product | shelf | quantity | reorder_level | unit_price |
| --- | --- | --- | --- | --- | --- |
| A-1 | Tent for two | North | 19 | 25 | $349.00 |
| A-2 | Tent for four | North | 80 | 30 | $429.00 |
| A-3 | Gas stove | South | 12 | 20 | $45.00 |
| A-4 | Lamp | South | 40 | 12 | $100.00 |
| TOTAL |  |  | 151 |  |  |
"""
FEES = """# Fees

<!-- text/markdown -->

## section Gebühren

| Kurs | Dauer | Gebühr |
| --- | --- | --- |
| Töpfern | 10 Abende | 148 Euro |
| Spanisch | 12 Abende | 96 Euro |
| Imkerei | 6 Samstage | 115 Euro |
"""
NAMES = ("Tent for two", "Tent for four", "Gas stove", "Lamp")
REFUSED = ("The documents do not say", "These passages come closest")


def rows(answer: str) -> list[tuple[str, ...]]:
    """The rows of the answer's table, below its head."""
    lines = [line for line in answer.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which products are below their reorder level?", ("Tent for two", "Gas stove")),
        ("Which items are below their reorder level?", ("Tent for two", "Gas stove")),
        ("Which products cost more than $100?", ("Tent for two", "Tent for four")),
        ("Which products cost at least $100?", ("Tent for two", "Tent for four", "Lamp")),
        ("Which products have a quantity of at most 19?", ("Tent for two", "Gas stove")),
        ("List all products on the south shelf.", ("Gas stove", "Lamp")),
        ("Please list every product with its unit price.", ("Tent for two", "Tent for four", "Gas stove", "Lamp")),
    ],
)
async def test_rows_are_listed_that_are_asked_for(question: str, names: tuple[str, ...]) -> None:
    answer = await process(question, STOCK)
    assert "| product |" in answer
    assert tuple(name for name in NAMES if any(name in row for row in rows(answer))) == names
    assert answer.endswith("— stock.csv")


async def test_a_list_shows_the_columns_that_it_names() -> None:
    answer = await process("List all products with their unit price.", STOCK)
    assert rows(answer)[0] == ("Tent for two", "$349.00")
    assert "TOTAL" not in answer


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How many products are there?", "**products: 4 (Tent for two; Tent for four; Gas stove; Lamp)** — stock.csv"),
        ("How many products are below their reorder level?", "**products: 2 (Tent for two; Gas stove)** — stock.csv"),
        (
            "What is the average unit price?",
            "**unit_price, Ø 4: $230.75** = ($349.00 + $429.00 + $45.00 + $100.00) / 4 (rows 1-4) — stock.csv",
        ),
        (
            "What is the average price of the tents?",
            "**unit_price, Ø 2: $389.00** = ($349.00 + $429.00) / 2 (rows 1-2) — stock.csv",
        ),
        ("Which product is the cheapest?", "**A-3, Gas stove, unit_price: $45.00** — stock.csv"),
        ("Which product has the highest quantity?", "**A-2, Tent for four, quantity: 80** — stock.csv"),
    ],
)
async def test_numbers_are_worked_out_of_the_rows(question: str, said: str) -> None:
    assert await process(question, STOCK) == said


async def test_rows_that_say_how_many_there_are_of_each_are_not_counted() -> None:
    assert rows(await process("How many tents are there?", STOCK)) == [("Tent for two", "19"), ("Tent for four", "80")]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Wie viele Kurse gibt es?", "**Kurse: 3 (Töpfern; Spanisch; Imkerei)**"),
        ("Welcher Kurs ist der teuerste?", "**Töpfern, Gebühr: 148 Euro**"),
        ("Welche Kurse kosten weniger als 120 Euro?", "| Imkerei | 6 Samstage | 115 Euro |"),
        ("Liste alle Kurse mit ihrer Gebühr auf.", "| Spanisch | 96 Euro |"),
        ("Wie viele Samstage dauert Imkerei?", "**Imkerei, Dauer: 6 Samstage**"),
    ],
)
async def test_german_tables_are_asked_in_german(question: str, said: str) -> None:
    assert said in await process(question, FEES)


@pytest.mark.parametrize(
    "question",
    [
        "List all products that were recalled.",
        "How many products are made of steel?",
        "Which product is the heaviest?",
        "How many employees are there?",
        "What is the average discount?",
    ],
)
async def test_a_word_that_no_table_explains_is_no_question_for_tables(question: str) -> None:
    assert (await process(question, STOCK)).startswith(REFUSED)


async def test_a_cell_that_is_no_number_makes_no_total() -> None:
    odd = STOCK.replace("$45.00", "on request")
    assert "Ø" not in await process("What is the average unit price?", odd)


@pytest.mark.parametrize(
    ("output_format", "said"),
    [
        ("csv", "product,unit_price\nTent for two,$349.00\nTent for four,$429.00\n"),
        (
            "json",
            [
                {"product": "Tent for two", "unit_price": "$349.00"},
                {"product": "Tent for four", "unit_price": "$429.00"},
            ],
        ),
    ],
)
async def test_rows_are_written_as_the_data_that_was_asked_for(output_format: str, said: object) -> None:
    question = f"Give me the tents with their unit price as a {output_format.upper()} file"
    answer = await process(question, STOCK, output_format=output_format)
    assert (json.loads(answer) if output_format == "json" else answer) == said


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What is the price per unit of the gas stove?", "**A-3, Gas stove, unit_price: $45.00** — stock.csv"),
        ("Which shelf is the lamp on?", "South"),
        ("What is the total quantity of all products?", "**TOTAL, quantity: 151** — stock.csv"),
        ("Where is the gas stove kept?", "shelf: South"),
    ],
)
async def test_a_cell_is_found_by_its_row_and_its_column(question: str, said: str) -> None:
    assert said in await process(question, STOCK)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What are the make, the colour and the VIN of the car?", ["Make: Volvo", "Color: Green", "VIN: YV1-77"]),
        ("When was the car repaired?", ["Repaired on: May 2, 2026"]),
        ("What is the licence plate?", ["License plate: ABC 123"]),
    ],
)
async def test_what_a_form_says_of_one_thing_is_found_in_other_spelling_and_together(
    question: str, said: list[str]
) -> None:
    form = (
        "# form.txt\n\n<!-- text/plain -->\n\nCar: 2021 Volvo Estate\nMake: Volvo\nColor: Green\nVIN: YV1-77\n"
        "License plate: ABC 123\nRepaired on: May 2, 2026\n"
    )
    answer = await process(question, form)
    assert [one for one in said if one not in answer] == []


async def test_the_year_that_a_cars_name_begins_with_is_no_date() -> None:
    form = "# form.txt\n\n<!-- text/plain -->\n\nCar: 2021 Volvo Estate\nRepaired on: May 2, 2026\n"
    assert "2021" not in await process("When was the car repaired?", form)
