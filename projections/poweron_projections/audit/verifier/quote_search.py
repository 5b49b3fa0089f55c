"""Search a text for quoted words, regardless of case, markup and the kind of quotation marks."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

MOST_LEFT_OUT: Final = 1_000  # characters of the text that `…` may replace
MOST_BETWEEN_LINES: Final = 6  # characters, such as the number of an item
MOST_PARTS: Final = 20  # of one quote
SHORTEST_PART: Final = 15  # characters of a part next to `…`, unless it has enough words
FEWEST_WORDS: Final = 3

QUOTATION: Final = re.compile(r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|»([^«»]+)«|「([^「」]+)」|\"([^\"]+)\"", re.DOTALL)
"""A quote in an answer; one of its groups has the words."""

_LINK_TARGET: Final = re.compile(r"\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_FOOTNOTE: Final = re.compile(r"(?<=\S)\\?\[\d{1,3}\\?\]")
_MARKUP: Final = re.compile(r"[*_`#|\\\[\]<>~\xad\u200b-\u200d\u2060\ufeff]|^[ \t]*[-+]\s", re.MULTILINE)
_QUOTATION_MARKS: Final = re.compile("[\"'\u2018-\u201f\u2039\u203a\u00ab\u00bb\u300c-\u300f]")
_DASHES: Final = re.compile("[\u2010-\u2015\u2212]")
_BLANKS: Final = re.compile(r"\s+")
_LEFT_OUT: Final = re.compile(r"\.{3,}")
_JOINED: Final = re.compile(" · ")
_IN_A_NUMBER: Final = re.compile(r".?\d(?:\0[.,']|[.,']\0)\d.?", re.DOTALL)
_AROUND: Final = " .,;:!?-'"


def comparable(text: str) -> str:
    """Normalise a text for the search: its words and punctuation, without markup."""
    plain = _MARKUP.sub("", _FOOTNOTE.sub("", _LINK_TARGET.sub("]", text)))
    plain = unicodedata.normalize("NFKC", plain).casefold()
    return _BLANKS.sub(" ", _DASHES.sub("-", _QUOTATION_MARKS.sub("'", plain))).strip()


def occurs(quote: str, text: str) -> bool:
    """Return whether a quote occurs in a `comparable` text.

    Of a quote with `…`, each part must occur, in order; the lines or cells that a `·` joins must follow one another.
    """
    phrase = comparable(quote)
    if any(_places(phrase.strip(_AROUND), text)):
        return True
    parts = _parts(_LEFT_OUT, phrase)  # single words occur in any long text and prove nothing
    return (all(map(_is_telling, parts)) and _all_occur(parts, text, MOST_LEFT_OUT)) or _all_occur(
        _parts(_JOINED, phrase), text, MOST_BETWEEN_LINES
    )


def _parts(separator: re.Pattern[str], phrase: str) -> list[str]:
    return [part for part in (part.strip(_AROUND) for part in separator.split(phrase)) if part]


def _all_occur(parts: list[str], text: str, gap: int) -> bool:
    """Return whether the parts occur in this order, with at most this many characters between them."""
    if not 2 <= len(parts) <= MOST_PARTS:
        return False
    ends = [end for _, end in _places(parts[0], text)]
    for part in parts[1:]:
        ends = [end for begin, end in _places(part, text) if _is_near(begin, ends, gap)]
    return bool(ends)


def _is_telling(part: str) -> bool:
    return len(part) >= SHORTEST_PART or len(part.split()) >= FEWEST_WORDS


def _is_near(begin: int, ends: list[int], gap: int) -> bool:
    """Return whether one of the ends, which are in order, lies before this place and close to it."""
    last = bisect_right(ends, begin) - 1
    return last >= 0 and begin - ends[last] <= gap


def _places(phrase: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each place where the text contains the phrase as whole words."""
    begin = text.find(phrase) if phrase else -1
    while begin >= 0:
        end = begin + len(phrase)
        if not (_are_joined(text[max(begin - 2, 0) : begin], phrase) or _are_joined(phrase, text[end : end + 2])):
            yield begin, end
        begin = text.find(phrase, begin + 1)


def _are_joined(before: str, after: str) -> bool:
    """Return whether two neighbours belong to one number, or to one word in a script that puts blanks between words."""
    if _IN_A_NUMBER.fullmatch(before[-2:] + "\0" + after[:2]):
        return True
    return bool(before and after) and all(
        character.isalnum() and unicodedata.category(character) != "Lo" for character in (before[-1], after[0])
    )
