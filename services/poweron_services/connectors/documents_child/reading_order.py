"""The reading order of texts on one line, in left-to-right and right-to-left scripts."""

import re
from collections.abc import Sequence
from itertools import groupby

_FROM_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]")  # letters of right-to-left scripts
_AT_THE_LEFT = re.compile(r"^([.,:;!?]+)((?:[^\W_]|[+%-]).*)")  # where a right-to-left sentence ends with a number


def in_reading_order(texts: Sequence[str]) -> list[str]:
    """Put the words or cells of one line, which are given from left to right, into reading order.

    Texts of a right-to-left script are reversed; left-to-right texts among them, such as a name in Latin letters,
    are not.
    """
    shown = " ".join(texts)
    if shown.isascii() or not _FROM_RIGHT.search(shown):
        return list(texts)
    sides = _sides(texts)
    ends = [side for side in sides if side is not None]
    whole = ends.count(True) > ends.count(False) or (ends[0] and ends[-1])
    line = list(zip(texts, sides, strict=True))
    runs = groupby(line[::-1] if whole else line, key=lambda one: one[1] is not None and one[1] != whole)
    found = [text for turned, run in runs for text, _ in (list(run)[::-1] if turned else run)]
    return [_AT_THE_LEFT.sub(r"\2\1", text) for text in found] if whole else found


def _sides(texts: Sequence[str]) -> list[bool | None]:
    """Return for each text whether it is right-to-left; None for numbers and signs, which occur in both directions.

    A number to the right of a left-to-right word belongs to it ("iPhone 15"); one between two right-to-left words
    belongs to those.
    """
    sides = [_is_from_right(text) for text in texts]
    for place, text in enumerate(texts):
        if sides[place] is None and any(map(str.isdigit, text)) and place > 0:
            after = sides[place + 1] if place + 1 < len(sides) else None
            if sides[place - 1] is False or (sides[place - 1] and after):
                sides[place] = sides[place - 1]
    return sides


def _is_from_right(text: str) -> bool | None:
    if _FROM_RIGHT.search(text):
        return True
    return False if any(map(str.isalpha, text)) else None
