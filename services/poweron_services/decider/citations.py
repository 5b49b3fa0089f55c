"""Citations: the `[n]` of a text in markdown, found and given other numbers. What stands in code is none.

`[1, 3]` and `[1-3]` cite several; brackets behind a backslash are no citation but text.
"""

import re
from collections.abc import Mapping
from typing import Final

MOST_IN_A_RANGE: Final = 20

_GAP: Final = r"\s{0,3}"
_PART: Final = rf"\d{{1,3}}(?:{_GAP}[-\u2013]{_GAP}\d{{1,3}})?"
MARK: Final = rf"\[{_GAP}{_PART}(?:{_GAP}[,;]{_GAP}{_PART})*{_GAP}\]"
"""What a citation looks like, as a pattern."""

_FENCED: Final = r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)|\Z)"
_IN_TICKS: Final = r"(?P<ticks>`{1,9})(?!`)[^`\n]{1,500}(?P=ticks)(?!`)"
_CODE_OR_MARK: Final = re.compile(rf"{_FENCED}|{_IN_TICKS}|(?<!\\)(?P<mark>{MARK})", re.DOTALL | re.MULTILINE)
_PARTS: Final = re.compile(r"(\d+)(?:\s*[-\u2013]\s*(\d+))?")


def numbers_of(mark: str) -> tuple[int, ...]:
    """The numbers that one citation means: of `[1, 4-6]` they are 1, 4, 5 and 6."""
    found: list[int] = []
    for first, last in _PARTS.findall(mark):
        begin, end = int(first), int(last or first)
        found += range(begin, min(end, begin + MOST_IN_A_RANGE) + 1) if end >= begin else (begin, end)
    return tuple(dict.fromkeys(found))


def cited_numbers(text: str) -> tuple[int, ...]:
    """All numbers that a text cites, each once, in the order in which they come."""
    marks = (found["mark"] for found in _CODE_OR_MARK.finditer(text))
    return tuple(dict.fromkeys(number for mark in marks if mark for number in numbers_of(mark)))


def renumbered(text: str, numbers: Mapping[int, int]) -> str:
    """The text with other numbers; what cites a number that has none becomes plain text, lest it mean another page."""

    def changed(found: re.Match[str]) -> str:
        mark: str | None = found["mark"]
        if mark is None:
            return found[0]
        return "".join(f"[{numbers[number]}]" if number in numbers else rf"\[{number}\]" for number in numbers_of(mark))

    return _CODE_OR_MARK.sub(changed, text)
