"""Numbers as documents write them: the value of a cell, the alignment of a column, and what is not a number."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

NUMERIC: Final = 0.8  # the share of a column's filled cells that makes it a column of numbers
MOST_DIGITS: Final = 15  # digits that a spreadsheet keeps

_NUMBER: Final = re.compile(
    r"(?P<sign>[-+\u2212\u2013]?)\s*+(?P<before>US\$|R\$|[$€£¥₹]|USD|EUR|CHF|GBP|Fr\.)?\s*+(?P<inner>[-+\u2212]?)"
    r"(?P<digits>\d{1,3}"
    r"(?:(?P<group>[.,'\u2019\u00a0\u2009\u202f ])\d{3})(?:(?P=group)\d{3})*(?:[.,]\d+)?|\d+(?:[.,]\d+)?)"
    r"\s*+(?P<after>%|US\$|[$€£¥₹]|USD|EUR|CHF|GBP|kr|zł|[Ee]uros?|dollars?|Franken|francs?)?"
)
_EMPTY: Final = frozenset({"", "-", "\u2013", "\u2014", "n/a"})
_GROUPS: Final = re.compile(r"\d{1,3}(?:(?P<mark>[.,'\u2019\u00a0\u2009\u202f ])\d{3})(?:(?P=mark)\d{3})*")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written in a cell."""

    value: Decimal
    unit: str = ""
    """A currency sign or name, or `%`."""
    unit_first: bool = False
    decimals: int = 0
    group: str = ""
    """The separator between thousands; empty if there is none."""


def is_empty(cell: str) -> bool:
    """Return whether a cell is blank or says that there is no value."""
    return cell.strip().casefold() in _EMPTY


def looks_numeric(cell: str) -> bool:
    return _NUMBER.fullmatch(cell.strip()) is not None


def is_numeric(cells: Iterable[str]) -> bool:
    """Return whether a column contains numbers, judged by most of its cells."""
    texts = [cell for cell in cells if not is_empty(cell)]
    return bool(texts) and sum(map(looks_numeric, texts)) >= NUMERIC * len(texts)


def decimal_mark(cells: Sequence[str]) -> str | None:
    """Return the decimal mark in these cells of one column, or None if it is unclear or they disagree.

    `1,234` alone is ambiguous: it may be one thousand or one.
    """
    marks = {mark for cell in cells if (match := _NUMBER.fullmatch(cell.strip())) for mark in _marks_of(match)}
    return marks.pop() if len(marks) == 1 else None


def number(cell: str, mark: str | None) -> Number | None:
    """Parse a cell, or return None if its value is in doubt; `mark` is the decimal mark of its column."""
    match = _NUMBER.fullmatch(cell.strip())
    if match is None:
        return None
    digits, unit = match["digits"], (match["before"] or match["after"] or "")
    if mark is None and re.search(r"[.,]", digits):
        return None
    integers, _, decimals = digits.partition(mark) if mark else (digits, "", "")
    groups = _GROUPS.fullmatch(integers)
    bare = re.sub(r"\D", "", integers)
    if not (groups or integers.isdigit()) or not (decimals.isdigit() or not decimals):
        return None
    if len(bare + decimals) > MOST_DIGITS or (len(bare) > 1 and bare.startswith("0")):
        return None  # an identifier in digits, such as an account number
    if integers.count(" ") > 1 and not (unit or decimals):
        return None  # also an identifier, such as a company's number
    negative = any(sign in "-\u2212\u2013" for sign in (match["sign"], match["inner"]) if sign)
    value = Decimal(f"{'-' if negative else ''}{bare}{'.' if decimals else ''}{decimals}")
    return Number(value, unit, bool(match["before"]), len(decimals), groups["mark"] if groups else "")


def column_numbers(cells: Sequence[str], hint: str | None = None) -> list[Number | None]:
    """Parse each cell of a column; `hint` is the decimal mark of the table's other columns."""
    mark = decimal_mark(cells) or hint
    return [number(cell, mark) for cell in cells]


def written(value: Decimal, like: Number, decimals: int, mark: str) -> str:
    """Format a value with the unit and the separators of another number."""
    digits = f"{abs(value):,.{decimals}f}".translate({ord(","): like.group, ord("."): mark})
    sign = "-" if value < 0 else ""
    space = " " if len(like.unit) > 1 else ""
    if like.unit_first:
        return f"{sign}{like.unit}{space}{digits}"
    return f"{sign}{digits}{' ' if like.unit else ''}{like.unit}"


def _marks_of(match: re.Match[str]) -> list[str]:
    digits = match["digits"]
    marks = re.findall(r"[.,]", digits)
    if not marks:
        return []
    last, behind = marks[-1], len(digits) - digits.rindex(marks[-1]) - 1
    if len(set(marks)) == 2:
        return [last]
    if len(marks) > 1:
        return [{".": ",", ",": "."}[last]]  # a mark that separates thousands is not the decimal mark
    if re.search(r"['\u2019\u00a0\u2009\u202f ]", digits) or behind != 3 or digits.startswith(f"0{last}"):
        return [last]
    return []
