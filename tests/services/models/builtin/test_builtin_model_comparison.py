"""The built-in model compares documents: what both name stands side by side, every number as its document writes it."""

import pytest
from asked import TEMPLATE, ask, plan

from poweron_services.models.prompts import MessagePrompt, ProcessPrompt, SourceText, TaskResult
from poweron_services.text.format_wishes import wished_formats

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


async def compared(
    *texts: str, request: str = "Write a report comparing the estimates", language: str | None = "en"
) -> str:
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
@pytest.mark.parametrize("nothing", ["-", "\u2013", "\u2014", "n/a"])
async def test_a_sign_for_nothing_is_no_amount_and_keeps_no_column_of_amounts_from_being_one(nothing: str) -> None:
    said = await compared(HARBOR, MILL.replace("| Courtesy car | $120.00 |", f"| Courtesy car | {nothing} |"))
    assert "| Bumper cover | $462.00 | $489.00 | +$27.00 |" in said
    assert "Courtesy car" not in said


@pytest.mark.req("C-06")
async def test_amounts_of_one_name_stand_side_by_side_with_their_difference_and_others_below() -> None:
    assert await compared(HARBOR, MILL) == (
        "# Comparison of harbor.pdf and mill.docx\n\n"
        "**The total is $1,805.30 in harbor.pdf and $910.25 in mill.docx; the difference is -$895.05.**\n\n"
        "The amounts that the documents name, side by side; a dash means that a document names none.\n\n"
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
    told = await compared(HARBOR, euros)
    assert "| Grand total | $1,805.30 | €910.25 |\n" in told
    assert "Difference" not in told
    told = await compared(
        HARBOR, MILL, euros, request="Schreib einen Bericht, der die Angebote vergleicht", language="de"
    )
    assert told.startswith("# Vergleich von harbor.pdf, mill.docx und euros.docx\n")
    assert "| Posten | harbor.pdf [1] | mill.docx [2] | euros.docx [3] |\n" in told
    assert "Differenz" not in told


@pytest.mark.req("C-06")
async def test_no_amount_is_lost_where_a_name_stands_more_than_once() -> None:
    twice = HARBOR.replace("| Clip", "| Tail lamp |  | $99.00 |\n| Clip \\| kit |  | $24.80 |\n| Clip")
    told = await compared(twice, MILL)
    assert "| Tail lamp | $1,318.50 | $301.25 | -$1,017.25 |\n" in told
    assert "| Tail lamp (2) | $99.00 |\n| Clip \\| kit | $24.80 |\n| Clip \\| kit (2) | $24.80 |" in told


@pytest.mark.req("C-06")
async def test_what_finds_no_room_in_a_comparison_is_told() -> None:
    rows = "".join(f"| Part {number} | ${number}.00 |\n" for number in range(1, 71))
    long = f"# {{}}.csv\n\n<!-- text/csv -->\n\n| Item | Cost |\n| --- | --- |\n{rows}"
    told = await compared(long.format("a"), long.format("b"), LETTER)
    assert "Not compared here: letter.txt." in told
    assert "10 more rows are not shown." in told
    assert "Only in" not in told
    many = await compared(*(MILL.replace("mill", f"offer-{number}") for number in range(8)))
    assert "Not compared here: offer-6.docx and offer-7.docx." in many


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ("14'000.00", "45'000.00", "+31'000.00"),
        ("1.500,00 €", "14.000,50 €", "+12.500,50 €"),
        ("$500", "$350.50", "-$149.50"),
        ("700000", "350000", "-350000"),
    ],
)
async def test_a_difference_is_written_like_the_amounts_that_it_is_of(first: str, second: str, difference: str) -> None:
    text = "# {}.csv\n\n<!-- text/csv -->\n\n| Item | Cost |\n| --- | --- |\n| Desk | {} |\n| Chair | {} |\n"
    told = await compared(text.format("a", first, first), text.format("b", second, first))
    assert f"| Desk | {first} | {second} | {difference} |" in told


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


OFFER = """# {name}.pdf

<!-- application/pdf -->

| Item | {unit_price} | {price} |
| --- | --- | --- |
| Echo | {each} | {amount} |
| {total} |  | {amount} |
"""


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    ("words", "amounts"),
    [
        ("Unit price, Line total, Grand total", ("$18.50", "$2,220.00", "$2,064.00", "-$156.00")),
        ("Prix unitaire, Prix total, Total général", ("18,50 €", "2 220,00 €", "2 064,00 €", "-156,00 €")),
        ("Einzelpreis, Gesamtpreis, Gesamtsumme", ("18,50 €", "2.220,00 €", "2.064,00 €", "-156,00 €")),
        ("Prezzo, Importo, Totale", ("18,50 €", "2.220,00 €", "2.064,00 €", "-156,00 €")),
        ("السعر, المجموع, المجموع الكلي", ("$18.50", "$2,220.00", "$2,064.00", "-$156.00")),
    ],
)
async def test_rows_are_compared_by_what_they_come_to_in_the_words_of_many_languages(
    words: str, amounts: tuple[str, str, str, str]
) -> None:
    unit_price, price, total = words.split(", ")
    each, first, second, difference = amounts
    named = {"unit_price": unit_price, "price": price, "total": total, "each": each}
    told = await compared(
        OFFER.format(name="north", amount=first, **named), OFFER.format(name="south", amount=second, **named)
    )
    assert f"| Echo | {first} | {second} | {difference} |" in told
    assert f"**The total is {first} in north.pdf and {second} in south.pdf; the difference is {difference}.**" in told


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("fr", "Le total est de $1,805.30 dans harbor.pdf et $910.25 dans mill.docx ; la différence est de -$895.05."),
        ("es", "El total es de $1,805.30 en harbor.pdf y $910.25 en mill.docx; la diferencia es de -$895.05."),
        ("it", "Il totale è di $1,805.30 in harbor.pdf e $910.25 in mill.docx; la differenza è di -$895.05."),
    ],
)
async def test_the_totals_are_told_in_the_language_of_the_report(language: str, sentence: str) -> None:
    assert f"**{sentence}**" in await compared(HARBOR, MILL, language=language)


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


DEVIS = "# devis {n}\n\n<!-- text/plain -->\n\nDevis {n}\n\n| Poste | Prix |\n| --- | --- |\n| Toit | {a} |\n| Mur | {b} |\n"


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    ("request_", "title"),
    [
        ("Rédige un rapport qui compare les devis", "# Comparaison de "),
        ("Écris un rapport qui compare les devis, en PDF", "# Comparaison de "),
        ("Escribe un informe que compare los presupuestos", "# Comparación de "),
        ("Scrivi una relazione che confronti i preventivi, in formato PDF", "# Confronto di "),
        ("Schrijf een rapport dat de offertes vergelijkt", "# "),
        ("Napisz raport, który porównuje oferty", "# "),
    ],
)
async def test_a_comparison_is_asked_for_and_written_in_other_languages_too(request_: str, title: str) -> None:
    first, second = (DEVIS.format(n=n, a=a, b=b) for n, a, b in ((1, "120 EUR", "80 EUR"), (2, "130 EUR", "75 EUR")))
    written = await compared(first, second, request=request_, language=None)
    assert written.startswith(title)
    assert "| Toit | 120 EUR | 130 EUR |" in written
    assert [task.task_type for task in await plan(request_)] == ["report", "report"]


def test_a_format_is_wished_for_in_other_languages_too() -> None:
    assert wished_formats("Écris un rapport qui compare les devis, en PDF") == ["PDF"]
    assert wished_formats("Scrivi una relazione sulle offerte in formato PDF") == ["PDF"]
    assert wished_formats("Combien coûte le toit dans le devis en PDF ?") == []


async def test_what_comes_closest_in_french_documents_is_told_in_french() -> None:
    said = await compared(DEVIS.format(n=1, a="1", b="2"), request="Qui est le directeur du toit ?", language=None)
    assert said.startswith("Ces passages sont les plus proches de « Qui est le directeur du toit » ;")
