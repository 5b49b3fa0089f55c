"""The differences of two texts: line by line with a few equal lines around, and word by word within changed lines."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import Final, Literal, NamedTuple

CONTEXT: Final = 2  # equal lines around a difference
MAX_CHARACTERS: Final = 60_000  # of each text that are compared
MOST_ROWS: Final = 2_000  # that are returned
MANY: Final = 3_000  # lines, or words of a line, from which on frequent ones are no places to align the rest by
_WORDS: Final = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")
"""Words with the spaces after them: spaces of their own would be compared each with each."""

Kind = Literal["equal", "changed", "only_a", "only_b", "left_out", "cut"]
Piece = tuple[bool, str]
"""A part of a line: whether it differs, and the text."""


class DifferenceLine(NamedTuple):
    """A line of both texts; of `left_out`, how many equal lines are hidden; of `cut`, how many rows come before it."""

    kind: Kind
    a: Sequence[Piece] = ()
    b: Sequence[Piece] = ()
    hidden: int = 0


def differences(a: str, b: str) -> list[DifferenceLine]:
    """Return the differences of two texts; of long ones, of their beginnings."""
    rows = [*islice(_rows(a[:MAX_CHARACTERS].splitlines(), b[:MAX_CHARACTERS].splitlines()), MOST_ROWS + 1)]
    return rows if len(rows) <= MOST_ROWS else [*rows[:MOST_ROWS], DifferenceLine("cut", hidden=MOST_ROWS)]


def _rows(first: Sequence[str], second: Sequence[str]) -> Iterator[DifferenceLine]:
    blocks = _opcodes(first, second)
    for number, (kind, start, end, other_start, other_end) in enumerate(blocks):
        if kind == "equal":
            yield from _equal(first[start:end], is_first=number == 0, is_last=number == len(blocks) - 1)
        else:
            yield from _changed(first[start:end], second[other_start:other_end])


def _opcodes(first: Sequence[str], second: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, first, second, autojunk=len(second) > MANY).get_opcodes()


def _equal(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[DifferenceLine]:
    before, after = (0 if is_first else CONTEXT), (0 if is_last else CONTEXT)
    hidden = len(lines) - before - after
    if hidden <= 1:
        before, hidden, after = len(lines), 0, 0
    for line in lines[:before]:
        yield DifferenceLine("equal", [(False, line)], [(False, line)])
    if hidden:
        yield DifferenceLine("left_out", hidden=hidden)
    for line in lines[len(lines) - after :] if after else ():
        yield DifferenceLine("equal", [(False, line)], [(False, line)])


def _changed(first: Sequence[str], second: Sequence[str]) -> Iterator[DifferenceLine]:
    for a, b in zip_longest(first, second):
        if b is None:
            yield DifferenceLine("only_a", [(True, a)])
        elif a is None:
            yield DifferenceLine("only_b", b=[(True, b)])
        else:
            yield DifferenceLine("changed", *_words(a, b))


def _words(a: str, b: str) -> tuple[list[Piece], list[Piece]]:
    first, second = _WORDS.findall(a), _WORDS.findall(b)
    left, right = list[Piece](), list[Piece]()
    for kind, start, end, other_start, other_end in _opcodes(first, second):
        differs = kind != "equal"
        if end > start:
            left.append((differs, "".join(first[start:end])))
        if other_end > other_start:
            right.append((differs, "".join(second[other_start:other_end])))
    return left, right
