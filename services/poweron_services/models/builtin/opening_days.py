"""Opening days in text: the days of the week on which something is open or closed."""

import re
from collections.abc import Iterator
from typing import Final

Days = frozenset[int]  # 0 is Monday

ALL: Final[Days] = frozenset(range(7))
WEEKDAYS: Final[Days] = frozenset(range(5))
A_WEEK = 4  # days; if this many are named as open, the others are closed

_DAY_PATTERN = (
    r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch|donnerstag|freitag|samstag"
    r"|sonnabend|sonntag)s?|(?:mon|tues?|wed|thurs?|thu|fri|sat|sun)\b\.?|(?-i:\b(?:Mo|Di|Mi|Do|Fr|Sa|So)\b)\.?"
)
_FIRST_LETTERS: Final = {
    letters: day
    for day, names in enumerate(("mo", "tu di", "we mi", "th do", "fr", "sa", "su so"))
    for letters in names.split()
}
_DAY = re.compile(rf"\b(?:{_DAY_PATTERN})", re.IGNORECASE)
_RANGE = re.compile(
    rf"\b(?P<first>{_DAY_PATTERN})\s*(?:[-\u2013\u2014]|to|through|thru|until|till|bis)\s*(?P<last>{_DAY_PATTERN})",
    re.IGNORECASE,
)
_EVERY_DAY = re.compile(
    r"\b(?:daily|every ?day|each day|(?:seven|7) days|all week|täglich|jeden tag|alle tage)\b", re.IGNORECASE
)
_ON_WEEKDAYS = re.compile(r"\b(?:on weekdays|werktags|wochentags)\b", re.IGNORECASE)
_AT_WEEKENDS = re.compile(r"\bweekends?\b|\bwochenende\w*", re.IGNORECASE)
_BUT = re.compile(r"\b(?:except(?:ing)?(?: for)?|but|other than|außer|ausser|bis auf)\b", re.IGNORECASE)
_CLOSED = re.compile(
    r"\bclosed\b|\bcloses? (?:on|from)\b|\bshut\b|\brests? on\b|\bgeschlossen\b|\bschlie(?:ß|ss)t am\b|\bruhetag\b"
    r"|:\s*(?:no|nein|\u2013|-)(?=\W*$|,)",
    re.IGNORECASE,
)
_OPEN = re.compile(r"\bopen(?:s|ing)?\b|\bopened\b|\b(?:geöffnet|offen|öffnet|öffnungs\w*)\b|\bhours\b", re.IGNORECASE)
_CLOSE = re.compile(r"^clos\w+$|^schlie\w+$", re.IGNORECASE)
_TIME = re.compile(
    r"\b\d{1,2}(?:[:.]\d\d)?\s*(?:a\.?m|p\.?m|uhr|h)?\.?\s*(?:[-\u2013\u2014]|to|until|till|bis)\s*\d{1,2}",
    re.IGNORECASE,
)
_PIECE = re.compile(r"(?:;|,|\.(?=\s+[A-ZÄÖÜ])|\s+(?:and|und)\s+(?=(?:it |es )?(?:is|ist|closed|geschlossen)\b))\s*")


def asked_day(question: str) -> tuple[int, bool] | None:
    """Return the day of the week that a question about opening names, and whether it asks what is open then."""
    days = _days_of(question)
    is_closed = bool(_CLOSED.search(question))
    if len(days) != 1 or not (is_closed or _OPEN.search(question)):
        return None
    return next(iter(days)), not is_closed


def is_open(text: str, day: int, *, of_hours: bool = False) -> bool | None:
    """Return whether a text says that something is open on a day; None if it does not say.

    `of_hours` marks text below a heading such as “Opening hours”, where every time is an opening time.
    """
    opened, closed = set[int](), set[int]()
    for days, says_closed in _statements(text, of_hours=of_hours):
        (closed if says_closed else opened).update(days)
    if day in closed:
        return False
    if day in opened:
        return True
    return False if len(opened) >= A_WEEK else None


def is_about_opening(text: str) -> bool:
    """Return whether a text or a word is about opening: hours, days, or being closed."""
    return any(pattern.search(text) for pattern in (_OPEN, _CLOSED, _DAY, _CLOSE))


def names_day(text: str, day: int) -> bool:
    """Return whether a text names the day itself."""
    return any(_number(match[0]) == day for match in _DAY.finditer(text))


def _statements(text: str, *, of_hours: bool) -> Iterator[tuple[Days, bool]]:
    """Yield the days that each piece of a text names, and whether it says they are closed."""
    pending_days: Days = frozenset()
    is_about_opening = of_hours or bool(_OPEN.search(text))
    for piece in _PIECE.split(text):
        plain, _, but = piece.partition(match[0]) if (match := _BUT.search(piece)) else (piece, "", "")
        days = (pending_days | _days_of(plain)) - _days_of(but)
        pending_days = frozenset()
        if _CLOSED.search(plain):
            yield days, True
            yield _days_of(but), False
        elif _OPEN.search(plain) or (is_about_opening and (_TIME.search(plain) or _EVERY_DAY.search(plain) or but)):
            yield days, False
            yield _days_of(but), True
        else:
            pending_days = days
    if pending_days and is_about_opening:
        yield pending_days, False


def _days_of(text: str) -> Days:
    days = set[int]()
    for match in _RANGE.finditer(text):
        first, last = _number(match["first"]), _number(match["last"])
        days.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    days.update(_number(match[0]) for match in _DAY.finditer(text))
    days.update(ALL if _EVERY_DAY.search(text) else ())
    days.update(WEEKDAYS if _ON_WEEKDAYS.search(text) else ())
    days.update(ALL - WEEKDAYS if _AT_WEEKENDS.search(text) else ())
    return frozenset(days)


def _number(name: str) -> int:
    return _FIRST_LETTERS[name.casefold()[:2]]
