"""Cells that a spreadsheet would take for formulas: they are text, and what is a number stays one (S21)."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poweron_services.text.spreadsheet_text import as_text, begins_formula, csv_as_text

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=20)


@pytest.mark.req("S21")
@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "+1+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "\u00a0=1",
        "\uff1d1+1",
        "\uff0b1",
        "\uff0dcmd",
        "\uff20SUM",
        "-cmd|' /C calc'!A0",
        "+49 (0) 30 123",
    ],
)
def test_what_begins_like_a_formula_is_marked_as_text(cell: str) -> None:
    assert as_text(cell) == f"'{cell}"


@pytest.mark.req("S21")
@pytest.mark.parametrize(
    "cell", ["-5", "+3.5", "-1,234.50", "-5 %", "-$12.00", "-12,00 €", "", "a=b", "a@b.example", "'=1", "-", "---"]
)
def test_numbers_and_other_texts_stay_as_they_are(cell: str) -> None:
    assert as_text(cell) == cell


@pytest.mark.req("S21")
def test_csv_with_formulas_is_written_anew_in_its_own_way_and_all_other_csv_byte_for_byte() -> None:
    assert csv_as_text('a;b\r\n"=1;2";-5\r\n') == 'a;b\r\n"\'=1;2";-5\r\n'
    assert csv_as_text("a,b\n@x,1\n") == "a,b\n'@x,1\n"
    quoted = 'a,b\n"x","-5"\n'
    assert csv_as_text(quoted) == quoted


@pytest.mark.req("S21")
def test_neither_a_long_cell_nor_a_mark_of_the_byte_order_hides_a_formula() -> None:
    long = "x" * 200_000
    assert csv_as_text(f"a,b\n=1+1,{long}\n") == f"a,b\n'=1+1,{long}\n"
    assert csv_as_text('\ufeff"=1+1",b\n') == "\ufeff'=1+1,b\n"


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1))
def test_no_cell_of_any_csv_is_a_formula_afterwards_and_doing_it_twice_changes_nothing(rows: list[list[str]]) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([["a", "b"], *rows])
    once = csv_as_text(written.getvalue())
    assert csv_as_text(once) == once
    assert not any(begins_formula(cell) for row in csv.reader(io.StringIO(once, newline="")) for cell in row)
