"""Reports of the built-in model: about what was asked for, and every table whole where a workbook is wanted."""

import pytest
from asked import process

HANDBOOK = """# handbook.html

<!-- text/html -->

## section Vacation

Every employee has 27 vacation days per year.

## section Travel expenses

Hand in receipts of expenses within 30 days. These limits hold:

| Expense | Limit |
| --- | --- |
| Hotel, per night | $180 |

## section Sick leave

Tell your manager before 9 a.m. on the first day.
"""
STOCK = "# stock.csv\n\n<!-- text/csv -->\n\n| product | price |\n| --- | --- |\n" + "".join(
    f"| Tent {number} | {number}.50 |\n" for number in range(1, 41)
)


@pytest.mark.req("C-06")
async def test_a_report_on_a_topic_holds_the_sections_about_it() -> None:
    report = await process("Write a report about what the handbook says about travel expenses.", HANDBOOK)
    assert "## Travel expenses" in report
    assert "| Hotel, per night | $180 |" in report
    assert "Vacation" not in report
    assert "Sick leave" not in report


@pytest.mark.req("C-06")
async def test_a_report_without_a_topic_holds_everything() -> None:
    report = await process("Write a report on the handbook.", HANDBOOK)
    assert [line for line in report.splitlines() if line.startswith("## ")] == [
        "## Vacation",
        "## Travel expenses",
        "## Sick leave",
    ]


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    "request_text", ["Give me the list as Excel.", "Export it as an Excel file", "Save everything as .xlsx"]
)
async def test_for_a_workbook_every_table_is_whole(request_text: str) -> None:
    answer = await process(request_text, STOCK)
    assert answer.startswith("## stock.csv\n\n| product | price |")
    assert answer.count("\n| Tent ") == 40


@pytest.mark.req("C-06")
async def test_a_workbook_holds_the_rows_that_were_asked_for() -> None:
    answer = await process("List all products that cost more than 38, as an Excel file.", STOCK)
    assert [line for line in answer.splitlines() if line.startswith("| Tent")] == [
        "| Tent 38 | 38.50 |",
        "| Tent 39 | 39.50 |",
        "| Tent 40 | 40.50 |",
    ]


@pytest.mark.parametrize(
    "request_text",
    [
        "Translate the handbook into German.",
        "Please rewrite it in simple words.",
        "Write a friendly reply to the sender.",
        "Übersetze das Handbuch.",
    ],
)
async def test_what_only_a_language_model_can_do_is_said_to_be_so(request_text: str) -> None:
    answer = await process(request_text, HANDBOOK)
    assert "POWERON_MODEL" in answer
    assert "27 vacation days" not in answer


@pytest.mark.parametrize(
    "request_text", ["Extract the text.", "Give me the whole text of the handbook", "Gib den Text wieder."]
)
async def test_the_text_of_a_document_is_returned_as_it_stands(request_text: str) -> None:
    answer = await process(request_text, HANDBOOK)
    assert answer.startswith("# handbook.html\n\n## section Vacation\n\nEvery employee has 27 vacation days per year.")
    assert "| Hotel, per night | $180 |" in answer
    assert "text/html" not in answer


@pytest.mark.parametrize(
    "request_text",
    ["Write a report about the handbook.", "Erstelle einen Bericht über das handbook", "Summarise the handbook"],
)
async def test_what_a_document_is_called_is_no_topic_within_it(request_text: str) -> None:
    answer = await process(request_text, HANDBOOK)
    assert "27 vacation days" in answer
    assert "9 a.m." in answer
