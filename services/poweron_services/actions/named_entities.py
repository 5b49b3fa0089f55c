"""Names, dates and amounts in a text, found by rules."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from poweron_services.models.builtin.vocabulary import STOP_WORDS

MAX_ENTITIES: Final = 10
MAX_ENTITY: Final = 100  # characters
MAX_TEXT: Final = 30_000  # characters that are searched

_MONTH: Final = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|okt(?:ober)?|nov(?:ember)?|dec(?:ember)?|dez(?:ember)?)"
)
_CURRENCY: Final = r"(?:US\$|[$€£¥]|(?:USD|EUR|CHF|GBP)\b)"
_NUMBER: Final = r"\d[\d.,'\u2019]{0,20}"
_SCALE: Final = r"(?:\s(?:million|billion|thousand|Mio\.?|Mrd\.?|Millionen|Milliarden))?"
_UNIT: Final = r"(?:%|percent\b|prozent\b|euros?\b|dollars?\b|francs?\b|franken\b|(?:km|kg|kWh|MW|GW|kW|m²|ha)\b)"
_DATES: Final = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}\.\s?\d{1,2}\.\s?\d{4}\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"
    rf"|\b\d{{1,2}}(?:\.|st|nd|rd|th)?\s(?:of\s)?{_MONTH}\b\.?(?:,?\s\d{{4}})?"
    rf"|\b{_MONTH}\b\.?\s\d{{1,2}}(?:st|nd|rd|th)?,\s\d{{4}}|\b{_MONTH}\b\.?\s\d{{4}}\b",
    re.IGNORECASE,
)
_AMOUNTS: Final = re.compile(
    rf"{_CURRENCY}\s?{_NUMBER}{_SCALE}|\b{_NUMBER}{_SCALE}\s?(?:{_CURRENCY}|{_UNIT})", re.IGNORECASE
)
_NAMES: Final = re.compile(
    r"\b[^\W\d_a-z][\w'\u2019.-]{0,40}"
    r"(?: (?:(?:of|the|de|la|von|van|der|für|and|&) ){0,2}[^\W\d_a-z][\w'\u2019-]{0,40}){1,4}"
)
_SMALL: Final = frozenset().union(*STOP_WORDS.values())


def entities(text: str) -> tuple[str, ...]:
    """Return the most frequent names, dates and amounts in a text, some of each kind."""
    looked_at = text[:MAX_TEXT]
    dates, amounts = (_most(_values(pattern, looked_at)) for pattern in (_DATES, _AMOUNTS))
    numbers = "\n".join([*dates, *amounts])
    names = [name for name in _most(_names(looked_at)) if name not in numbers]
    in_turn = (each for turn in zip_longest(names, dates, amounts) for each in turn if each)
    return tuple(dict.fromkeys(in_turn))[:MAX_ENTITIES]


def _most(found: Iterator[str]) -> list[str]:
    """Return the most frequent values; those that come first win ties."""
    return [value for value, _ in Counter(found).most_common(MAX_ENTITIES)]


def _values(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for found in pattern.finditer(text):
        yield " ".join(found[0].split()).strip(".,'\u2019 ")[:MAX_ENTITY]


def _names(text: str) -> Iterator[str]:
    """Yield adjacent capitalised words; a stop word that only begins a sentence is not part of the name."""
    for found in _NAMES.finditer(text):
        words = found[0].strip(".'\u2019- ").split()
        while words and words[0].casefold() in _SMALL:
            words.pop(0)
        if len(words) > 1:
            yield " ".join(words)[:MAX_ENTITY]
