"""Sheets as people lay them out: each cell is found by the names of its row and of its column."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import xlsxwriter
from papers import with_part
from test_document_formats import text_at

from poweron_services.connectors.document_reader import extract
from poweron_services.connectors.documents_child.sheet_tables import SheetRow, sheet_blocks

pytestmark = pytest.mark.req("C-05")

Filled = Callable[[Any, Any], None]


async def sheet_of(fill: Filled) -> str:
    """What is read of a sheet that was filled with a library."""
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed) as book:
        fill(book.add_worksheet("Plan"), book)
    return text_at(await extract(packed.getvalue(), "plan.xlsx"), "sheet Plan")


def rows_of(*rows: str) -> str:
    return "\n".join(rows)


async def test_two_rows_of_names_become_one() -> None:
    def fill(sheet: Any, book: Any) -> None:
        sheet.merge_range("A1:A2", "Region", None)
        sheet.merge_range("B1:C1", "2025", None)
        sheet.merge_range("D1:E1", "2026", None)
        sheet.write_row("B2", ["Visits", "Nights", "Visits", "Nights"])
        sheet.write_row("A3", ["North", 12, 30, 14, 33])

    assert await sheet_of(fill) == rows_of(
        "| Region | 2025 Visits | 2025 Nights | 2026 Visits | 2026 Nights |",
        "| --- | --- | --- | --- | --- |",
        "| North | 12 | 30 | 14 | 33 |",
    )


async def test_names_of_groups_that_are_not_merged_reach_to_the_next_one() -> None:
    def fill(sheet: Any, book: Any) -> None:
        sheet.write_row("A1", ["", "Plan", "", "Actual", ""])
        sheet.write_row("A2", ["Item", "Hours", "Cost", "Hours", "Cost"])
        sheet.write_row("A3", ["Roof", 10, 900, 12, 1080])

    assert (await sheet_of(fill)).startswith("| Item | Plan Hours | Plan Cost | Actual Hours | Actual Cost |")


async def test_a_title_over_some_columns_stands_above_the_table() -> None:
    def fill(sheet: Any, book: Any) -> None:
        sheet.merge_range("A1:B1", "Stock in May", None)
        sheet.write_row("A3", ["Item", "Boxes", "Shelf"])
        sheet.write_row("A4", ["Nails", 4, "A"])

    assert await sheet_of(fill) == rows_of(
        "Stock in May", "", "| Item | Boxes | Shelf |", "| --- | --- | --- |", "| Nails | 4 | A |"
    )


async def test_rows_below_a_gap_have_the_names_of_the_table_above() -> None:
    def fill(sheet: Any, book: Any) -> None:
        sheet.write_row("A1", ["Item", "Count", "Place"])
        sheet.write_row("A3", ["Chair", 4, "Hall"])
        sheet.write_row("A4", ["Desk", 2, "Office"])
        sheet.write_row("A6", ["Lamp", 7, "Hall"])
        sheet.write_row("A8", ["Total", 13])

    text = await sheet_of(fill)
    head = "| Item | Count | Place |\n| --- | --- | --- |\n"
    assert f"{head}| Chair | 4 | Hall |\n| Desk | 2 | Office |" in text
    assert f"{head}| Lamp | 7 | Hall |" in text
    assert f"{head}| Total | 13 |  |" in text


async def test_another_table_below_a_gap_has_names_of_its_own() -> None:
    def fill(sheet: Any, book: Any) -> None:
        sheet.write_row("A1", ["Item", "Count"])
        sheet.write_row("A2", ["Chair", 4])
        sheet.write_row("A4", ["Person", "Room"])
        sheet.write_row("A5", ["Ada", 12])

    assert "| Person | Room |\n| --- | --- |\n| Ada | 12 |" in await sheet_of(fill)


async def test_tables_side_by_side_are_read_one_after_the_other() -> None:
    def fill(sheet: Any, book: Any) -> None:
        for column, title, name in (("A", "Income", "Rent"), ("D", "Expenses", "Power")):
            sheet.write(f"{column}1", title)
            sheet.write_row(f"{column}2", ["Source", "Amount"])
            sheet.write_row(f"{column}3", [name, 500])
            sheet.write_row(f"{column}4", [f"More {name}", 20])

    text = await sheet_of(fill)
    assert text.index("Income") < text.index("| Rent | 500 |") < text.index("Expenses") < text.index("| Power | 500 |")


async def test_an_empty_column_within_a_table_parts_nothing() -> None:
    def fill(sheet: Any, book: Any) -> None:
        sheet.write_row("A1", ["Month", "Rain", "", "Sun", "Wind"])
        sheet.write_row("A2", ["May", 12, "", 200, 3])

    assert "| May | 12 | 200 | 3 |" in await sheet_of(fill)


async def test_a_row_that_names_those_below_it_becomes_a_column() -> None:
    def fill(sheet: Any, book: Any) -> None:
        bold = book.add_format({"bold": True})
        sheet.write_row("A1", ["Position", "Price"])
        sheet.write("A2", "Kitchen", bold)
        sheet.write_row("A3", ["Sink", 300])
        sheet.write("A4", "Tap")  # its price is missing
        sheet.write_row("A5", ["Oven", 800])
        sheet.write("A6", "Bathroom", bold)
        sheet.write_row("A7", ["Tub", 650])

    assert await sheet_of(fill) == rows_of(
        "| Position | Price | section |",
        "| --- | --- | --- |",
        "| Sink | 300 | Kitchen |",
        "| Tap |  | Kitchen |",
        "| Oven | 800 | Kitchen |",
        "| Tub | 650 | Bathroom |",
    )


def test_a_row_whose_other_cells_are_empty_names_no_others() -> None:
    rows = [
        SheetRow([*cells, *[""] * (2 - len(cells))]) for cells in (["Name", "Age"], ["Ada", "36"], ["Bo"], ["Cy", "7"])
    ]
    assert "section" not in next(sheet_blocks(rows))


async def test_a_row_that_one_cell_fills_names_those_below_it() -> None:
    def fill(sheet: Any, book: Any) -> None:
        sheet.write_row("A1", ["Position", "Price"])
        sheet.write_row("A2", ["Door", 90])
        sheet.merge_range("A3:B3", "Kitchen", None)
        sheet.write_row("A4", ["Sink", 300])

    assert (await sheet_of(fill)).endswith("| Door | 90 |  |\n| Sink | 300 | Kitchen |")


async def test_comments_on_cells_are_told_with_their_places() -> None:
    def fill(sheet: Any, book: Any) -> None:
        sheet.write_row("A1", ["Item", "Count"])
        sheet.write_row("A2", ["Chair", 4])
        sheet.write_comment("B2", "One of them is broken.", {"author": "Ada"})

    assert (await sheet_of(fill)).endswith("- Comment on B2 by Ada: One of them is broken.")


async def test_a_program_that_calculates_nothing_stores_no_values() -> None:
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed) as book:
        sheet = book.add_worksheet("Sums")
        sheet.write_column("A1", ["Rent", "Power", "Total", "Twice"])
        sheet.write_column("B1", [120, 230])
        sheet.write_formula("B3", "=SUM(B1:B2)")
        sheet.write_formula("B4", "=B1*2", None, 240)
    for data in (
        packed.getvalue(),
        with_part(packed.getvalue(), "xl/worksheets/sheet1.xml", b"</f><v>0</v>", b"</f><v></v>"),
    ):
        document = await extract(data, "sums.xlsx")
        assert text_at(document, "sheet Sums").endswith(
            "| Rent | 120 |\n| Power | 230 |\n| Total | =SUM(B1:B2) |\n| Twice | 240 |"
        )
        assert document.notes[0].startswith("Sheet 'Sums' holds a formula without a value")


async def test_charts_on_a_sheet_are_told_as_not_read() -> None:
    packed = io.BytesIO()
    with xlsxwriter.Workbook(packed) as book:
        sheet = book.add_worksheet("Sums")
        sheet.write_column("A1", [1, 2])
        chart = book.add_chart({"type": "column"})
        chart.add_series({"values": "=Sums!$A$1:$A$2"})
        sheet.insert_chart("C1", chart)
        alone = book.add_chartsheet("Alone")
        again = book.add_chart({"type": "column"})
        again.add_series({"values": "=Sums!$A$1:$A$2"})
        alone.set_chart(again)

    document = await extract(packed.getvalue(), "sums.xlsx")
    assert document.notes == ("Not read: charts (sheet Alone, sheet Sums).",)
