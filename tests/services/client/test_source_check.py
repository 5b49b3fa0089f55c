"""What `poweron sources` tells: every page that an answer cites, and whether the quoted words stand in it."""

import pytest
from cited_answers import HOURS, PRICES, Kept, cited, results
from pages import BOATS, CLOCKS
from processor_time import within

from poweron_events.event import CitedSource
from poweron_services.client.source_check import CheckedQuote, Source
from poweron_services.text.citations import document_sources


@pytest.mark.req("C-04")
async def test_every_source_is_told_with_its_statements_and_whether_their_words_stand_in_it() -> None:
    kept = Kept()
    clocks, boats = await kept.source(1, PRICES, CLOCKS), await kept.source(2, HOURS, BOATS)
    says = "Clocks is closed: “on Mondays it is closed” [1]. Boats is “always open” [2]. A ticket is 9.50 € [1]."
    await kept.answer("answer.md", says, clocks, boats)
    first, second = await kept.sources()
    assert first == Source(
        n=1,
        url="https://clocks.example/visit",
        title="Museum of Clocks",
        fetched_at="2026-11-23T10:00:00Z",
        sha256=PRICES.sha256,
        statements=("Clocks is closed: “on Mondays it is closed”.", "A ticket is 9.50 €."),
        quotes=(
            CheckedQuote(
                quote="on Mondays it is closed",
                result="found",
                statement="Clocks is closed: “on Mondays it is closed”.",
                documents=("docItem:answer.md:answer.md",),
                cited_as=(1,),
            ),
            CheckedQuote(
                quote=None,
                result="not quoted",
                statement="A ticket is 9.50 €.",
                documents=("docItem:answer.md:answer.md",),
                cited_as=(1,),
            ),
        ),
    )
    assert (second.n, second.statements, results(second)) == (
        2,
        ("Boats is “always open”.",),
        [("always open", "not found")],
    )


@pytest.mark.req("C-06")
async def test_a_statement_that_a_report_repeats_is_told_once_with_both_documents() -> None:
    kept = Kept()
    clocks, boats = await kept.source(1, PRICES, CLOCKS), await kept.source(1, HOURS, BOATS)
    await kept.answer("a.md", "It is closed [1].", clocks)
    await kept.answer("b.md", "It is open [1].", boats)
    both = (clocks, boats.model_copy(update={"n": 2}))
    await kept.answer("report.md", "# Hours\n\nIt is closed [1].\n\nIt is open [2].", *both)
    told = [
        (each.n, each.title, each.statements, each.quotes[0].documents, each.quotes[0].cited_as)
        for each in await kept.sources()
    ]
    assert told == [
        (1, "Museum of Clocks", ("It is closed.",), ("docItem:a.md:a.md", "docItem:report.md:report.md"), (1, 1)),
        (2, "Museum of Boats", ("It is open.",), ("docItem:b.md:b.md", "docItem:report.md:report.md"), (1, 2)),
    ]


@pytest.mark.req("C-04")
async def test_words_of_one_of_two_sources_are_not_held_against_the_other() -> None:
    kept = Kept()
    clocks, boats = await kept.source(1, PRICES, CLOCKS), await kept.source(2, HOURS, BOATS)
    await kept.answer("answer.md", "“Open daily”, it says [1][2]. “Closed always” [1][2].", clocks, boats)
    first, second = await kept.sources()
    assert results(first) == [(None, "not quoted"), ("Closed always", "not found")]
    assert results(second) == [("Open daily", "found"), ("Closed always", "not found")]


@pytest.mark.req("C-04", "D-03")
@pytest.mark.parametrize(
    ("mime_type", "text"),
    [
        ("application/json", '{"n": [1], "said": "“Open daily” [1]"}'),
        ("text/csv", 'museum,said\nBoats,"“Open daily” [1]"\n'),
    ],
)
async def test_answers_in_json_and_csv_are_looked_into_too(mime_type: str, text: str) -> None:
    kept = Kept()
    await kept.answer("answer", text, await kept.source(1, HOURS, "We are OPEN\n**daily**."), mime_type=mime_type)
    (only,) = await kept.sources()
    assert results(only) == [("Open daily", "found")]


@pytest.mark.req("C-04")
async def test_words_are_looked_for_in_the_text_that_was_shown_where_a_page_was_read_twice() -> None:
    kept = Kept()
    short, whole = await kept.source(1, HOURS, "We are open."), await kept.source(2, HOURS, BOATS)
    await kept.answer("answer.md", "“We are open.” [1] “Entry is free” [2].", short, whole)
    assert [(one.url, results(one)) for one in await kept.sources()] == [
        ("https://boats.example/visit", [("We are open.", "found")]),
        ("https://boats.example/visit", [("Entry is free", "found")]),
    ]


@pytest.mark.req("C-04")
async def test_what_was_erased_is_named_and_nothing_is_found_in_it() -> None:
    kept = Kept()
    gone = CitedSource(n=1, page=HOURS, text="0" * 64)
    await kept.answer("answer.md", "“Open daily” [1].", gone)
    found = await kept.looked_into()
    assert found.missing == ("https://boats.example/visit",)
    assert results(found.sources[0]) == [("Open daily", "missing")]


@pytest.mark.req("C-04")
async def test_a_number_that_means_nothing_is_no_citation() -> None:
    kept = Kept()
    await kept.answer("note.md", "By bus [1].")
    assert await kept.sources() == ()


READ = """# estimate.pdf

<!-- application/pdf -->

## page 1

| Labour | $1,200.00 |
| **GRAND TOTAL** | $1,980.84 |

## page 2

The vehicle was ready on *September 12*.
"""


@pytest.mark.req("C-04")
async def test_a_quote_from_a_document_is_looked_up_in_the_place_that_is_cited() -> None:
    kept = Kept()
    await kept.document("estimate.pdf", "%PDF", "application/pdf")
    await kept.document("estimate.pdf.md", READ)
    await kept.answer(
        "answer.md",
        "**GRAND TOTAL: $1,980.84** — estimate.pdf, page 1\n\n"
        "It was “ready on September 12” (estimate.pdf, page 2). It was “ready on September 13” (estimate.pdf, p. 2). "
        "Labour is “$1,200.00” (estimate.pdf, page 2). It was repaired (estimate.pdf, page 7).",
    )
    found = await kept.looked_into()
    assert (found.sources, found.missing) == ((), ())
    assert cited(found) == [
        ("estimate.pdf", ("page 1",), [("GRAND TOTAL", "found"), ("$1,980.84", "found")]),
        (
            "estimate.pdf",
            ("page 2",),
            [
                ("ready on September 12", "found"),
                ("ready on September 13", "not found"),
                ("$1,200.00", "not found"),
            ],
        ),
        ("estimate.pdf", ("page 7",), [(None, "not quoted")]),
    ]
    first = found.documents[0]
    assert (first.n, first.texts) == (1, ("docItem:estimate.pdf.md:estimate.pdf.md",))
    assert first.statements == ("“GRAND TOTAL”: “$1,980.84”",)
    assert first.quotes[0].documents == ("docItem:answer.md:answer.md",)


@pytest.mark.req("C-04")
@pytest.mark.parametrize(
    ("text", "places", "result"),
    [
        ("It says “$1,980.84” — estimate.pdf, Seite 1.", ("page 1",), "found"),
        ("On page 1 of estimate.pdf it says “$1,980.84”.", ("page 1",), "found"),
        ("estimate.pdf (page 1) says “$1,980.84”.", ("page 1",), "found"),
        ("ESTIMATE.PDF says “$1,980.84”.", (), "found"),
        ("| Total | “$1,980.84” | estimate.pdf, page 2 |", ("page 2",), "not found"),
        ("- **GRAND TOTAL: $1,980.85** — estimate\\.pdf, page 1", ("page 1",), "not found"),
        ("“$1,980.84” [1].\n\n## Sources\n\n- [1] estimate.pdf, page 1, page 2\n", ("page 1", "page 2"), "found"),
    ],
)
async def test_a_document_is_cited_in_the_ways_in_which_people_do(
    text: str, places: tuple[str, ...], result: str
) -> None:
    kept = Kept()
    await kept.document("estimate.pdf.md", READ)
    await kept.answer("answer.md", text)
    ((document, at, quotes),) = cited(await kept.looked_into())
    assert (document, at, quotes[-1][1]) == ("estimate.pdf", places, result)


@pytest.mark.req("C-04")
async def test_a_document_that_no_step_has_kept_as_text_is_read_again() -> None:
    kept = Kept()
    await kept.document("estimate.pdf", "It is ready.", "application/pdf")
    await kept.answer("answer.md", "“It is ready” (estimate.pdf, page 1). “It is red” (estimate.pdf, page 1).")
    assert cited(await kept.looked_into()) == [
        ("estimate.pdf", ("page 1",), [("It is ready", "found"), ("It is red", "not found")])
    ]


@pytest.mark.req("C-04")
async def test_a_document_that_was_lost_is_named_and_nothing_is_found_in_it() -> None:
    kept = Kept()
    await kept.document("estimate.pdf.md", None)
    await kept.answer("answer.md", "“It is ready” (estimate.pdf, page 1).")
    found = await kept.looked_into()
    assert found.missing == ("estimate.pdf.md",)
    assert cited(found) == [("estimate.pdf", ("page 1",), [("It is ready", "missing")])]


@pytest.mark.req("C-04")
async def test_pages_of_the_web_come_first_and_documents_after_them() -> None:
    kept = Kept()
    await kept.document("hours.txt.md", "# hours.txt\n\n<!-- text/plain -->\n\nOpen on Mondays.\n")
    says = "“Open daily” [1], but “open on Mondays” (hours.txt). No more is said of hours.txt. And data-hours.txt is “another”."
    await kept.answer("answer.md", says, await kept.source(1, HOURS, BOATS))
    found = await kept.looked_into()
    assert [(each.n, results(each)) for each in (*found.sources, *found.documents)] == [
        (1, [("Open daily", "found")]),
        (2, [("open on Mondays", "found")]),
    ]


TABLES = """# stock.csv

<!-- text/csv -->

| sku | stock, counted | Until 2025 | Until 2025 |
| Item | Ratio 1: 2 | Bought | Used |
|---|---|---|---|
| TR-1040, long | 126 | Oslo; Bergen | yes |
| TR-1065 | 48 | Rome |  |

| Labour | 300 |
| Parts | 2,100 |

1. Sweep the yard
2. Lock the gate
"""


@pytest.mark.req("C-04", "D-03")
@pytest.mark.parametrize(
    ("statement", "result"),
    [
        ("“sku: TR-1040, long; stock, counted: 126”", "found"),
        ("“sku: TR-1040, long; stock, counted: 48”", "not found"),
        (
            "“sku Item: TR-1040, long; stock, counted Ratio 1: 2: 126; Until 2025 Bought: Oslo; Bergen; Until 2025 Used: yes”",
            "found",
        ),
        ("“sku Item: TR-1065; stock, counted Ratio 1: 2: 48; Until 2025 Bought: Oslo; Bergen”", "not found"),
        ("**TR-1065, stock, counted: 48**", "found"),
        ("**TR-1065, stock, counted Ratio 1: 2: 48**", "found"),
        ("**TR-1040, long, Until 2025 Bought: Oslo; Bergen**", "found"),
        ("**TR-1040, long, 126, Until 2025 Used: yes**", "found"),
        ("“TR-1065, stock, counted”: “48”", "found"),
        ("**TR-1040, long, stock, counted: 48**", "not found"),
        ("**TR-1065, Until 2025 Used: Rome**", "not found"),
        ("**TR-1065, price: 48**", "not found"),
        ("**300: Labour**", "found"),
        ("**TR-1065: 48 · Rome**", "found"),
        ("“Sweep the yard · Lock the gate”", "found"),
        ("“Sweep the yard · Burn the gate”", "not found"),
        ("“Lock the gate · Sweep the yard”", "not found"),
    ],
)
async def test_cells_of_a_table_are_found_if_one_row_has_them_below_the_named_column(
    statement: str, result: str
) -> None:
    kept = Kept()
    await kept.document("stock.csv.md", TABLES)
    await kept.answer("answer.md", f"- {statement} — stock.csv")
    ((_, _, quotes),) = cited(await kept.looked_into())
    assert (result == "found") == all(found == "found" for _, found in quotes), quotes


@pytest.mark.req("C-04")
async def test_a_citation_below_a_table_is_one_of_each_of_its_rows() -> None:
    kept = Kept()
    await kept.document(
        "file.docx.md",
        "# file.docx\n\n<!-- x -->\n\n## section Parts\n\n| item | price |\n|---|---|\n| seals | 22.50 |\n",
    )
    await kept.answer(
        "a.md", "| item | price |\n|---|---|\n| seals | 22.50 |\n| oil | 7.00 |\n\n— file.docx, section Parts\n"
    )
    (document,) = (await kept.looked_into()).documents
    assert (document.places, document.statements) == (("section Parts",), ("seals | 22.50", "oil | 7.00"))
    assert results(document) == [("seals", "found"), ("22.50", "found"), ("oil", "not found"), ("7.00", "not found")]


@pytest.mark.parametrize(
    "note",
    [
        "About the reading of estimate.pdf: Not read: pictures (page 1, page 2).",
        "Nicht alles wurde gelesen von estimate.pdf: Das Blatt „Kosten“ fehlt.",
        "Not everything was read for this answer: 1 of 2 pages of estimate.pdf were read, the rest was not.",
    ],
)
async def test_a_note_about_the_reading_of_a_document_is_no_statement_of_it(note: str) -> None:
    kept = Kept()
    await kept.document("estimate.pdf.md", READ)
    await kept.answer("answer.md", f"**GRAND TOTAL: $1,980.84** — estimate.pdf, page 1\n\n> {note}")
    assert cited(await kept.looked_into()) == [
        ("estimate.pdf", ("page 1",), [("GRAND TOTAL", "found"), ("$1,980.84", "found")])
    ]


@pytest.mark.req("C-04")
async def test_a_block_quote_that_cites_a_document_is_looked_up_in_it() -> None:
    kept = Kept()
    await kept.document("estimate.pdf.md", READ)
    says = "estimate.pdf says:\n\n> The vehicle was ready\n\n> The vehicle was red (estimate.pdf, page 2)"
    await kept.answer("answer.md", says)
    assert cited(await kept.looked_into()) == [
        ("estimate.pdf", (), [("The vehicle was ready", "found")]),
        ("estimate.pdf", ("page 2",), [("The vehicle was red", "not found")]),
    ]


NAMES = (
    *("a; b.pdf", "; a.pdf", "a;b", "a, b.pdf", "a.pdf, page 2", "a & b.pdf", "a (1), page 2.pdf", "a — b.pdf"),
    *("page 1 of a.pdf", "a “b”.pdf", "[1].pdf", "_a_ *b*.pdf", "a|b.pdf", "a\\b.pdf", "a  b.pdf", "a;\u00a0b.pdf"),
)


@pytest.mark.req("C-04", "X-06")
@pytest.mark.parametrize("name", NAMES)
async def test_separators_in_the_names_of_documents_and_places_end_no_citation(name: str) -> None:
    for place in ("page 1", "section Rights, duties; and more", "sheet 1, 2"):
        await separators_end_no_citation(name, place)


async def separators_end_no_citation(name: str, place: str) -> None:
    kept = Kept()
    await kept.document(f"{name}.md", READ.replace("page 1", place), document_id="long")
    await kept.document("b.pdf.md", "# b.pdf\n\n<!-- x -->\n\nNothing.\n")
    listed = document_sources([f"{name}, {place}, page 2"], "en")
    await kept.answer(
        "answer.md",
        f"- **GRAND TOTAL: $1,980.84** — {name}, {place}; {name}, page 2\n"
        f"- “$1,200.00” — b.pdf; {name}, {place}\n- “ready on *September 12*” ({name}, page 2)",
    )
    await kept.answer("list.md", f"It was “ready on September 12” [1], for “$1,980.84” [1].\n\n{listed}")
    found = cited(await kept.looked_into())
    assert {(document, places) for document, places, _ in found} >= {(name, (place,)), (name, (place, "page 2"))}
    assert {result for _, _, quotes in found for _, result in quotes} <= {"found", "not quoted"}


@pytest.mark.req("X-06")
@pytest.mark.parametrize(
    "piece",
    [
        " ",
        "\n",
        "#",
        "# #",
        "**",
        "(",
        " — ",
        "estimate.pdf",
        "estimate.pdf, page 1; ",
        "page 1 of ",
        "“a” ",
        "\n## section\n",
    ],
)
async def test_no_answer_takes_long_to_look_into(piece: str) -> None:
    kept = Kept()
    await kept.document("estimate.pdf.md", f"{READ}{piece * 100_000}x")
    await kept.answer("answer.md", f"{piece * (200_000 // len(piece))}x estimate.pdf\n")
    with within(6):
        await kept.looked_into()


@pytest.mark.req("C-04", "X-06")
async def test_letters_that_only_a_pattern_takes_for_the_same_are_no_name() -> None:
    kept = Kept()
    await kept.document("bill.pdf.md", READ.replace("estimate", "bill"))
    await kept.answer("answer.md", "It says “$1,980.84” (b\u0131ll.pdf, page 1), and bill.pdf says “$1,200.00”.")
    ((name, _, quotes),) = cited(await kept.looked_into())
    assert (name, quotes) == ("bill.pdf", [("$1,980.84", "found"), ("$1,200.00", "found")])
