"""What an answer's statements cite and quote, and whether the quoted words stand in a page."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pages import CLOCKS
from processor_time import within

from poweron_projections.audit.verifier.quote_search import comparable, occurs
from poweron_services.text.citations import cited_numbers, renumbered
from poweron_services.text.statements import Quote, Statement, statements


def said(text: str, mime_type: str = "text/markdown") -> list[tuple[str, tuple[int, ...]]]:
    return [(each.text, each.numbers) for each in statements(text, mime_type)]


def quoted(text: str) -> list[Quote]:
    return [quote for each in statements(text) for quote in each.quotes]


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("It is closed [1]. It costs 9.50 €.[2] Call them.", [("It is closed.", (1,)), ("It costs 9.50 €.", (2,))]),
        ("It is closed. [1] It opens at 10. [2]", [("It is closed.", (1,)), ("It opens at 10.", (2,))]),
        ("Dr. Smith says “No. Never.” [1] See p. 4.", [("Dr. Smith says “No. Never.”", (1,))]),
        ("Both say so [1, 3] and [5\u20137].", [("Both say so and.", (1, 3, 5, 6, 7))]),
        ("Both say so [2][1].", [("Both say so.", (2, 1))]),
        ("- **Clocks**: closed\n  on Mondays [1]\n- Boats: open\n", [("Clocks: closed on Mondays", (1,))]),
        ("| Museum | Price |\n|--|--|\n| Clocks | 9.50 [1] |\n| Boats | free |", [("Clocks | 9.50", (1,))]),
        (
            "# Prices [1]\n\n[Free](https://boats.example) [2](https://boats.example)",
            [("Prices", (1,)), ("Free", (2,))],
        ),
        ('See ![[2]](x.png) [the page](https://a.example/b_(c) "T") [1].', [("See the page.", (2, 1))]),
        ("`a[1]` and \\[2\\] are none.\n\n```\n[3]\n```\n", []),
        ("It is so [1].\n\n[1]: https://clocks.example/visit", [("It is so.", (1,))]),
        ("[1234] and [a] and [] and [1.5] are none", []),
        ("[*1*] and [1\\] and [`1`] and [&#49;] are none", []),
    ],
)
def test_a_statement_is_the_sentence_or_the_row_that_cites(text: str, cited: list[tuple[str, tuple[int, ...]]]) -> None:
    assert said(text) == cited


def test_json_cites_in_its_texts_and_csv_in_its_rows() -> None:
    assert said('{"a": [1], "b": ["Closed [2]. Open [3]."]}', "application/json") == [
        ("Closed.", (2,)),
        ("Open.", (3,)),
    ]
    assert said("museum,hours\nClocks,10-17 [1]\n", "text/csv") == [("Clocks | 10-17", (1,))]
    assert said("{", "application/json") == []


def test_quotes_are_of_the_number_that_follows_them_or_else_of_the_one_before() -> None:
    assert quoted('He says “A. B.” [1], she "C" [2][3]; as [4] has it: «D».') == [
        Quote("A. B.", (1,)),
        Quote("C", (2, 3)),
        Quote("D", (4,)),
    ]
    assert quoted("„Eins“ und »zwei« [1].") == [Quote("Eins", (1,)), Quote("zwei", (1,))]
    assert quoted("“Not cited.” And it is so [1].") == []


def test_a_block_quote_is_a_quote_of_what_it_cites_or_of_what_announces_it() -> None:
    assert quoted("> Closed on\n> Mondays. Always. [1]") == [Quote("Closed on Mondays. Always.", (1,))]
    assert quoted("The page says [2]:\n\n> Closed.\n\n> Not of the page.") == [Quote("Closed.", (2,))]
    assert quoted("It is closed [2].\n\n> Not everything was read.") == []


@pytest.mark.parametrize(
    "quote",
    [
        "The museum is open from Tuesday to Sunday",
        "open from *Tuesday* to Sunday",
        "[t]he Museum is open",
        "from Tuesday   to\nSunday, 10-5 pm",
        "on Mondays it is closed.",
        "“on Mondays it is closed”",
        "Adults 9.50 €",
        "The museum is open … on Mondays it is closed",
        "open from Tuesday [...] it is closed",
    ],
)
def test_words_that_stand_in_the_page_are_found_whatever_its_markup(quote: str) -> None:
    assert occurs(quote, comparable(CLOCKS))


@pytest.mark.parametrize(
    "quote",
    [
        "on Monday it is closed",
        "useum is open",
        "Adults 9.50 $",
        "Adults 19.50 €",
        "it is closed … The museum is open",
        "The museum is closed",
        "open from Tuesday … closed",
        "…",
        "“ ”",
        "",
    ],
)
def test_other_words_are_not(quote: str) -> None:
    assert not occurs(quote, comparable(CLOCKS))


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("500 francs", "It costs 1,500 francs."),
        ("500 francs", "It costs 1\u2019500 francs."),
        ("50 francs", "It costs 12.50 francs."),
        ("It costs 12", "It costs 12.50 francs."),
    ],
)
def test_a_part_of_a_number_is_another_number(quote: str, text: str) -> None:
    assert not occurs(quote, comparable(text))


@pytest.mark.parametrize("quote", ["in 2019", "500 came, in 2020"])
def test_a_number_ends_at_the_end_of_its_sentence(quote: str) -> None:
    assert occurs(quote, comparable("It opened in 2019.[4] 500 came, in 2020,"))
    assert occurs(quote, comparable("It opened in 2019.[\\[4\\]](#note) 500 came, in 2020[12]."))


@pytest.mark.parametrize(("between", "found"), [(900, True), (1_100, False)])
def test_what_is_left_out_of_a_quote_is_no_longer_than_a_paragraph(between: int, found: bool) -> None:
    text = f"The museum is open. {'More. ' * 300}The museum is open. {'x' * between}. On Mondays it is closed."
    assert occurs("The museum is open … on Mondays it is closed", comparable(text)) is found


def test_words_without_blanks_between_them_are_found() -> None:
    assert occurs("月曜日は休館", comparable("博物館は月曜日は休館です。"))


WORDS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="[]`~\\"), max_size=30)


@settings(max_examples=60)
@given(words=st.lists(WORDS, max_size=5), numbers=st.lists(st.integers(1, 99), max_size=5))
def test_numbers_change_and_nothing_else_does(words: list[str], numbers: list[int]) -> None:
    marks = [f"[{number}]" for number in numbers]
    text = "".join(map("".join, zip(words, marks, strict=False)))
    cited = cited_numbers(text)
    there = renumbered(text, {number: number + 100 for number in cited})
    assert cited_numbers(there) == tuple(number + 100 for number in cited)
    assert renumbered(there, {number + 100: number for number in cited}) == text


PIECES = st.sampled_from(
    [
        "[1]",
        "[2, 3]",
        "[4](x)",
        "[*5*]",
        "x",
        "A. ",
        "`",
        "``",
        "```",
        "~~~",
        "\\",
        "\n",
        "\n\n",
        "    ",
        "- ",
        "> ",
        "|-|\n",
    ]
)


@settings(max_examples=400)
@given(pieces=st.lists(PIECES, max_size=14))
@example(["```", "x", "```", "\n\n", "[1]"])
@example(["\\", "\\", "[1]"])
@example(["`", "x", "\n", "`", "[1]", "`"])
@example(["- ", "```", "\n", "    ", "```", "\n\n", "[1]"])
def test_what_cites_is_the_same_for_those_who_read_a_text_and_for_those_who_renumber_it(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert {number for each in statements(text) for number in each.numbers} == set(cited_numbers(text))
    assert statements(renumbered(text, {})) == []


@settings(max_examples=60)
@given(text=st.text(max_size=300))
def test_any_text_has_statements(text: str) -> None:
    assert all(isinstance(each, Statement) for each in statements(f"{text} [1]"))


@pytest.mark.parametrize(
    "unit",
    [
        "`" * 7 + " ``",
        "[1, ",
        "[1",
        "![",
        "[](",
        "*a_",
        "“",
        '"',
        "> ",
        "[1] ",
        "\\[",
        "- [1]. ",
        "|a [1]\n",
        f"[1{' ' * 300}",
        "\u3000\n",
        "\n",
        "„",
    ],
)
def test_hostile_text_takes_no_long_time(unit: str) -> None:
    text = f"{unit * (40_000 // len(unit))} [1]"
    with within(2):
        renumbered(text, {1: 2})
        statements(text)
        occurs(text[:100], comparable(text))
