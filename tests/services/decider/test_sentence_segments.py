"""Texts of any kind and length are cut into sentences, and none stops the service."""

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from poweron_services.text.statements import WINDOW, segments

PROSE = "Dr. Smith says that it is so [1, 3]. He asks: “Why? No.” It costs 9.50 francs! "


def test_a_long_text_is_cut_as_a_short_one_is() -> None:
    assert segments(PROSE * 100, "en") == sentencex.segment("en", PROSE) * 100


def test_a_sentence_too_long_to_be_looked_at_as_a_whole_is_cut_between_words_and_within_no_citation() -> None:
    cut = segments("so [1, 3] and " * 1_000, "en")
    assert max(map(len, cut)) <= WINDOW
    assert all(each.endswith(("and ", "so ", "] ")) for each in cut)


@pytest.mark.req("X-06")
@pytest.mark.parametrize("blank", ["\u3000", "\xa0", "\u2003", "\u2028", "\x85", "\t", "\n"])
def test_every_blank_is_a_plain_one(blank: str) -> None:
    assert segments(f"It is plan A{blank}. It{blank}is so.", "en") == ["It is plan A . ", "It is so."]


@pytest.mark.req("X-06")
@given(
    text=st.text(st.sampled_from("aA.!?,:;\"'`“”«»()[]1 \n\xa0\u3000。é😀")),
    language=st.sampled_from(["en", "de", "ja"]),
)
def test_nothing_of_a_text_is_lost(text: str, language: str) -> None:
    again = text * 40
    assert "".join(segments(again, language)).split() == again.split()
