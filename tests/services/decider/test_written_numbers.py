"""Numbers as documents write them: what a cell is worth, and that no cell takes long to be read."""

from decimal import Decimal

import pytest
from processor_time import within

from poweron_services.text.numbers import column_numbers, number


@pytest.mark.parametrize(
    ("cell", "mark", "value", "unit"),
    [
        ("$1,980.84", ".", "1980.84", "$"),
        ("- 5 %", ".", "-5", "%"),
        ("EUR -1.234,50", ",", "-1234.50", "EUR"),
        ("\u22121'234.5 CHF", ".", "-1234.5", "CHF"),
        ("3753100", None, "3753100", ""),
        ("2 220,00 €", ",", "2220.00", "€"),
        ("1 234 567 kr", None, "1234567", "kr"),
        ("12 000", None, "12000", ""),
    ],
)
def test_a_cell_is_worth_what_its_document_writes(cell: str, mark: str | None, value: str, unit: str) -> None:
    read = number(cell, mark)
    assert read is not None
    assert (read.value, read.unit) == (Decimal(value), unit)


@pytest.mark.parametrize(
    "cell", ["1,234", "0815", "12 of 30", "2025-03-14", "1.2.3", "1234567890123456", "732 829 320", "044 123"]
)
def test_what_may_mean_two_things_is_worth_nothing(cell: str) -> None:
    assert number(cell, None) is None


def test_the_decimals_of_a_column_tell_what_groups_its_thousands() -> None:
    assert [one and one.value for one in column_numbers(["1.234", "12,50", "-"])] == [
        Decimal(1234),
        Decimal("12.5"),
        None,
    ]


@pytest.mark.parametrize("cell", ["-" + " " * 20_000 + "x", "$" + " " * 20_000 + "x", "1" + ",234" * 20_000 + "x"])
def test_a_hostile_cell_is_read_in_no_time(cell: str) -> None:
    with within(0.5):
        assert number(cell, ".") is None
