"""What is found in pages before anybody reads them: their relevance, key points and entities."""

import asyncio

import pytest
from event_loop import longest_gap
from processor_time import within

from poweron_services.actions.page_findings import Said, entities, found_in
from poweron_services.actions.page_relevance import passages, sentences

MUSEUM = Said(
    "City Museum",
    "# City Museum\n\nThe museum stands at the harbour.\n\n## Opening hours\n\n"
    "It is open on Mondays from 10 to 17. It is closed on Tuesdays.\n\n"
    "| Ticket | Price |\n|---|---|\n| Adults | 12 euros |\n| Children | free |\n",
)
FERRY = Said("Ferries", "The ferry leaves the harbour every hour. A ticket for adults costs 4 euros.")
RECIPE = Said("Bread", "Mix flour and water. Bake it for an hour.")
BATTERIES = Said(
    "Batterieverordnung",
    "Die Batterieverordnung gilt seit dem 18. Februar 2024. Hersteller müssen Altbatterien zurücknehmen.",
)


@pytest.mark.req("C-07")
@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("When is the museum open?", "City Museum"),
        ("What does a ticket for the ferry cost?", "Ferries"),
        ("How long is bread baked?", "Bread"),
        ("Seit wann gilt die Verordnung über Batterien, die Batterieverordnung?", "Batterieverordnung"),
    ],
)
def test_the_page_that_says_most_of_what_is_asked_comes_first(question: str, best: str) -> None:
    found = found_in([RECIPE, FERRY, BATTERIES, MUSEUM], question, None)
    assert found[0].title == best
    scores = [page.findings.relevance_score for page in found]
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[0] <= 1000


@pytest.mark.req("C-07")
def test_a_page_that_says_nothing_of_it_has_no_relevance_and_comes_last_in_its_place() -> None:
    found = found_in([RECIPE, MUSEUM, BATTERIES], "Which museum is open on Mondays?", "en")
    assert [(page.title, page.findings.relevance_score > 0) for page in found] == [
        ("City Museum", True),
        ("Bread", False),
        ("Batterieverordnung", False),
    ]


@pytest.mark.req("C-07")
def test_key_points_are_sentences_or_rows_of_the_page_with_the_heading_they_stand_under() -> None:
    points = found_in([MUSEUM], "Is it open on Mondays?", "en")[0].findings.key_points
    assert points[0] == "It is open on Mondays from 10 to 17. (Opening hours)"
    rows = [sentence.text for sentence in sentences(MUSEUM.text, "en")]
    assert rows[-2:] == ["Ticket: Adults; Price: 12 euros", "Ticket: Children; Price: free"]


@pytest.mark.req("C-07")
def test_a_page_without_headings_names_its_paragraphs_and_without_a_question_its_first_sentences() -> None:
    points = found_in([FERRY], "", "en")[0].findings.key_points
    assert points == (
        "The ferry leaves the harbour every hour. (paragraph 1)",
        "A ticket for adults costs 4 euros. (paragraph 1)",
    )


@pytest.mark.req("C-07")
def test_sentences_of_one_heading_are_weighed_together_and_those_of_another_apart() -> None:
    read = sentences("First one.\n\nSecond one.\n\n## Prices\n\nIt is free.", "en")
    assert [*passages(read)] == [" First one. Second one.", "Prices It is free."]


@pytest.mark.req("C-07")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "Signed by Ada Lovelace of the Analytical Society on 10 December 2025. It costs $1,200.50 or 15 %.",
            {"Ada Lovelace of the Analytical Society", "10 December 2025", "$1,200.50", "15 %"},
        ),
        (
            "Die Stadtwerke Bad Säckingen zahlten am 3. März 2026 rund 2 Millionen Euro an Erika Mustermann.",
            {"Stadtwerke Bad Säckingen", "3. März 2026", "2 Millionen Euro", "Erika Mustermann"},
        ),
        ("On 2026-11-23 the EU Battery Regulation took effect.", {"2026-11-23", "EU Battery Regulation"}),
        ("nothing of that kind stands here", set()),
    ],
)
def test_names_dates_and_amounts_are_found_by_rule(text: str, named: set[str]) -> None:
    assert {*entities(text)} == named


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "A" * 1_000_000,
        "A.A." * 250_000,
        "Ab " * 300_000,
        "1." * 500_000,
        "# " * 500_000,
        "| " * 500_000,
        "a\n\n" * 300_000,
        "https://" * 100_000,
        "\u202e" * 500_000,
    ],
    ids=lambda text: text[:4],
)
def test_a_text_made_to_be_slow_is_looked_at_in_bounded_time(text: str) -> None:
    with within(5):
        found_in([Said("Page", text)], "When is it open?", "en")


@pytest.mark.req("X-04")
@pytest.mark.parametrize("unit", ["`", "\u201c", "`a` ", "[", "[a", "[a](", "# [a", "- [", "[`"])
async def test_the_event_loop_goes_on_while_a_text_made_to_be_slow_is_looked_at(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    assert await longest_gap(asyncio.to_thread(found_in, [Said("Page", text)], "When is it open?", "en")) < 0.1
