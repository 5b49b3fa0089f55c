"""The most work that a regular expression may cause for each character of a text."""

import re
from typing import Final

MAX_LENGTH: Final = 1_000  # characters of a pattern
WIDE: Final = 4  # atoms, for an item that matches many characters, such as `\w`, `.` or `[^a]`
ENDLESS: Final = 1_000_000

_TOKEN: Final = re.compile(
    r"""(?P<opens>\((?:\?(?P<flags>[A-Za-z-]*):?|\?P?<\w+>)?)|(?P<closes>\))
    |\[(?P<class>(?:\\.|[^\]\\])+)\]|(?P<wide>\\[pP]\{[^}]*\}|\\[wWdDsS]|\.)
    |\{(?P<least>\d{1,6})(?:,(?P<most>\d{1,6})?)?\}|(?P<free>[*+?^$|])|(?P<atom>\\.|.)""",
    re.VERBOSE | re.DOTALL,
)
_INNER_CLASS: Final = re.compile(r"^\^$|(?<!\\)\[")


def pattern_cost(pattern: str) -> int:
    """The number of atoms, each counted as often as it is repeated: the most that a matcher has to follow at once."""
    if len(pattern) > MAX_LENGTH:
        return ENDLESS
    totals, last = [0], 0  # the cost of each open group; that of the last item in the innermost one
    for token in _TOKEN.finditer(pattern):
        if _is_tricky(token) or (token["closes"] and len(totals) == 1):
            return ENDLESS
        if token["opens"]:
            totals.append(0)
            last = 0
        elif token["closes"]:
            last = totals.pop()
            totals[-1] += last
        elif token["least"]:
            times = max(int(token["most"] or token["least"]), 1)
            totals[-1] += last * (times - 1)
            last *= times
        elif not token["free"]:
            last = _width(token)
            totals[-1] += last
    return sum(totals)


def _width(token: re.Match[str]) -> int:
    listed = token["class"] or ""
    return WIDE if token["wide"] or listed.startswith("^") or "\\" in listed else 1


def _is_tricky(token: re.Match[str]) -> bool:
    """Return whether the token would have to be parsed more closely to be counted."""
    return token["atom"] == "[" or "x" in (token["flags"] or "") or bool(_INNER_CLASS.search(token["class"] or ""))
