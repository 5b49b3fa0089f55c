"""The built-in model compares documents: what both name stands side by side, every number as its document writes it."""

import pytest
from asked import TEMPLATE, ask, plan

from poweron_services.models.prompts import MessagePrompt, ProcessPrompt, SourceText, TaskResult

HARBOR = """# harbor.pdf

<!-- application/pdf -->

## page 1

Date: March 14, 2025

| Description | Hours | Cost |
| --- | --- | --- |
| Bumper cover | 2.5 | $462.00 |
| Tail lamp |  | $1,318.50 |
| Clip \\| kit |  | $24.80 |

|  |  |
| --- | --- |
| GRAND TOTAL | $1,805.30 |
"""
MILL = """# mill.docx

<!-- application/vnd.openxmlformats-officedocument.wordprocessingml.document -->

Date: March 17, 2025

| Description | Cost |
| --- | --- |
| Tail lamp | $301.25 |
| bumper cover | $489.00 |
| Courtesy car | $120.00 |

Total: $910.25
"""
LETTER = "# letter.txt\n\n<!-- text/plain -->\n\nDear Ada, thank you for your photographs of the bridge.\n"


async def compared(*texts: str, request: str = "Write a report comparing the estimates", language: str = "en") -> str:
    documents = tuple(SourceText(f"docItem:{number}", "d", text) for number, text in enumerate(texts))
    prompt = ProcessPrompt(
        template=TEMPLATE,
        ai_prompt=request,
        custom_instructions="",
        language=language,
        output_format="markdown",
        documents=documents,
    )
    return await ask(prompt)


@pytest.mark.req("C-06")
async def test_amounts_of_one_name_stand_side_by_side_with_their_difference_and_others_below() -> None:
    assert await compared(HARBOR, MILL) == (
        "# Comparison of harbor.pdf and mill.docx\n\n"
        "**The total is $1,805.30 in harbor.pdf and $910.25 in mill.docx; the difference is -$895.05.**\n\n"
        "The amounts that the documents name, side by side; a dash stands where a document names none.\n\n"
        "## Amounts side by side\n\n"
        "| Item | harbor.pdf [1] | mill.docx [2] | Difference |\n"
        "| --- | --- | --- | --- |\n"
        "| Bumper cover | $462.00 | $489.00 | +$27.00 |\n"
        "| Tail lamp | $1,318.50 | $301.25 | -$1,017.25 |\n"
        "| Grand total | $1,805.30 | $910.25 | -$895.05 |\n\n"
        "## Only in harbor.pdf [1]\n\n"
        "| Item | Amount |\n| --- | --- |\n| Clip \\| kit | $24.80 |\n\n"
        "## Only in mill.docx [2]\n\n"
        "| Item | Amount |\n| --- | --- |\n| Courtesy car | $120.00 |\n\n"
        "## Further facts side by side\n\n"
        "| Fact | harbor.pdf [1] | mill.docx [2] |\n| --- | --- | --- |\n| Date | March 14, 2025 | March 17, 2025 |\n\n"
        "## Sources\n\n- [1] harbor.pdf, page 1\n- [2] mill.docx"
    )


async def test_amounts_of_different_money_have_no_difference_and_three_documents_have_none_at_all() -> None:
    euros = MILL.replace("$", "€").replace("mill.docx", "euros.docx")
    assert "| Grand total | $1,805.30 | €910.25 | \u2013 |" in await compared(HARBOR, euros)
    told = await compared(
        HARBOR, MILL, euros, request="Schreib einen Bericht, der die Angebote vergleicht", language="de"
    )
    assert told.startswith("# Vergleich von harbor.pdf, mill.docx und euros.docx\n")
    assert "| Posten | harbor.pdf [1] | mill.docx [2] | euros.docx [3] |\n" in told
    assert "Differenz" not in told


@pytest.mark.req("C-06")
async def test_a_note_in_brackets_is_no_part_of_a_name_that_is_clear_without_it() -> None:
    harbor = HARBOR.replace(
        "| GRAND", "| Sales tax | $100.00 |\n| Paint (door) | $5.00 |\n| Paint (roof) | $9.00 |\n| GRAND"
    )
    mill = MILL.replace("| Courtesy", "| Sales tax (8.9%) | $80.10 |\n| Paint (roof) | $7.00 |\n| Courtesy")
    told = await compared(harbor, mill)
    assert "| Sales tax | $100.00 | $80.10 | -$19.90 |" in told
    assert "| Paint (roof) | $9.00 | $7.00 | -$2.00 |" in told
    assert "| Paint (door) | $5.00 |" in told
    assert "The total is" not in await compared(HARBOR, MILL.replace("Total:", "Total (net):"))


async def test_places_are_told_in_the_language_of_the_report() -> None:
    offer = MILL.replace("Date: March", "## section Angebot\n\nDate: March")
    told = await compared(HARBOR, offer, request="Schreib einen Bericht, der die Angebote vergleicht", language="de")
    assert told.endswith("- [1] harbor.pdf, Seite 1\n- [2] mill.docx, Abschnitt Angebot")
    assert (
        "**Die Gesamtsumme ist $1,805.30 in harbor.pdf und $910.25 in mill.docx; die Differenz ist -$895.05.**" in told
    )


@pytest.mark.req("L-08")
async def test_the_final_message_names_the_totals_and_their_difference() -> None:
    request = "Write a report comparing the estimates"
    found = TaskResult("Find out", "success", "-", await compared(HARBOR, MILL))
    prompt = MessagePrompt(
        template=TEMPLATE, user_prompt=request, language="en", results=(found,), documents=("report.md",)
    )
    assert await ask(prompt) == (
        "The report is done. The total is $1,805.30 in harbor.pdf and $910.25 in mill.docx; the difference is -$895.05."
    )


async def test_where_nothing_can_be_compared_the_documents_are_summed_up() -> None:
    assert (await compared(HARBOR, LETTER)).startswith("# Summary of harbor.pdf, letter.txt")


@pytest.mark.req("L-08")
async def test_a_request_for_a_pdf_ends_with_a_step_that_makes_one() -> None:
    tasks = await plan("Summarise the letters and save the result as PDF")
    assert [task.expected_formats for task in tasks] == [(), ("markdown",)]
    tasks = await plan("What is the total? Give it to me as a PDF.")
    assert [task.task_type for task in tasks] == ["lookup", "report"]
