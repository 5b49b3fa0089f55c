"""Agreement of answers from several documents: whether they name the same values, and by how much two sums differ."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from poweron_services.models.builtin.passage_search import Agreement, RankedStatement
from poweron_services.models.builtin.question import Question
from poweron_services.models.builtin.value_spans import ValueKind, spans
from poweron_services.models.builtin.values import Kind
from poweron_services.text.calculations import Calculation, is_result
from poweron_services.text.numbers import Number, column_numbers, decimal_mark, written

_KINDS: Final[dict[Kind, tuple[ValueKind, ...]]] = {
    "amount": ("money", "percent", "duration"),
    "percent": ("percent",),
    "date": ("date", "time", "duration"),
    "person": ("person",),
    "address": ("address",),
    "phone": ("phone",),
    "email": ("email",),
}
"""The kinds of values that are compared for each kind of question: the first that every answer names."""
_OF_NUMBERS: Final[frozenset[Kind]] = frozenset({"amount", "count", "percent"})
_DIGITS: Final = re.compile(r"(?<![\w.,])\d+(?:[.,'\u2019]\d+)*")
_MONTH_NAMES: Final = "jan jän, feb, mar mär mrz, apr, may mai, jun, jul, aug, sep, oct okt, nov, dec dez"
_MONTHS: Final = {name: at for at, names in enumerate(_MONTH_NAMES.split(","), start=1) for name in names.split()}
_LENGTHS: Final = {
    **dict.fromkeys(("day", "tag"), (1, "days")),
    **dict.fromkeys(("week", "woche"), (7, "days")),
    **dict.fromkeys(("month", "monat"), (1, "months")),
    **dict.fromkeys(("quarter", "quartal"), (3, "months")),
    **dict.fromkeys(("year", "jahr"), (12, "months")),
    **dict.fromkeys(("hour", "stunde"), (60, "minutes")),
    "minute": (1, "minutes"),
}
_NUMBER_WORDS: Final = (
    "a an one ein eine einem einen einer eines, two zwei, three drei, four vier, five fünf, six sechs, seven sieben"
    ", eight acht, nine neun, ten zehn, eleven elf, twelve zwölf"
)
_COUNTS: Final = {word: str(at) for at, words in enumerate(_NUMBER_WORDS.split(","), start=1) for word in words.split()}
_UNITS: Final = {"€": "eur", "euro": "eur", "euros": "eur", "$": "usd", "us$": "usd", "£": "gbp"}
_YEAR_FIRST: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_DOTTED: Final = re.compile(r"(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{2,4})")
_NAMED: Final = re.compile(
    r"(?P<before>\d{1,2})?\D*?(?P<month>[^\W\d_]{3})[^\W\d_]*\.?\s?(?P<after>\d{1,2}(?!\d))?\D*(?P<year>\d{4})?"
)
_CLOCK: Final = re.compile(r"(\d{1,2})(?:[:.](\d\d))?\s?([ap])?", re.IGNORECASE)

Answers = Sequence[Sequence[RankedStatement]]


def agreement(question: Question, answers: Answers, language: str) -> Agreement | None:
    """Return whether the answers name the same values; None if that is not clear.

    Answers that share some values, but not all, may be about different things, so nothing is said about them.
    """
    values = _comparable_values(question, answers, language)
    if not values or not all(values):
        return None
    if all(others == values[0] for others in values[1:]):
        return "same"
    shared = frozenset[object]().union(*values)
    return "different" if sum(map(len, values)) == len(shared) else None


def difference(question: Question, answers: Answers, language: str) -> RankedStatement | None:
    """Return by how much two answers differ if each names one sum of money; the statement has no label."""
    if len(answers) != 2 or any(len(answer) != 1 for answer in answers):
        return None
    if question.kind != "amount" and (question.kind != "thing" or _only_kind(answers, language) != "money"):
        return None
    sums = [list(spans("money", answer[0].value)) for answer in answers]
    if any(len(texts) != 1 for texts in sums):
        return None
    texts = [text for (text,) in sums]
    numbers = [(text, _number(text, language), answer[0]) for text, answer in zip(texts, answers, strict=True)]
    pairs = [(text, number, statement) for text, number, statement in numbers if number is not None]
    if len(pairs) < 2 or pairs[0][1].unit != pairs[1][1].unit:
        return None
    (large, first, one), (small, second, other) = sorted(pairs, key=lambda pair: -pair[1].value)
    mark = decimal_mark([large, small]) or _mark(language)
    value = written(first.value - second.value, first, max(first.decimals, second.decimals), mark)
    calculation = Calculation("difference", (large, small))
    places = tuple(dict.fromkeys((*one.places, *other.places)))
    return RankedStatement("", value, places, calculation=calculation) if is_result(value, calculation) else None


def _comparable_values(question: Question, answers: Answers, language: str) -> list[frozenset[object]]:
    """Return the values of each answer in a form that can be compared; [] if there are none of the same kind."""
    kinds: tuple[ValueKind, ...] = ("duration",) if question.asks_how_long else _KINDS.get(question.kind, ())
    for kind in kinds:
        values = [frozenset(_of_kind(kind, answer, language)) for answer in answers]
        if all(values):
            return _without_years(values) if kind == "date" else values
    if question.kind in _OF_NUMBERS:
        texts = [[text for each in answer for text in _DIGITS.findall(each.value)] for answer in answers]
        return [frozenset(_key(number) for text in side if (number := _number(text, language))) for side in texts]
    if question.kind == "thing" and (only := _only_kind(answers, language)):
        values = [frozenset(_of_kind(only, answer, language)) for answer in answers]
        return _without_years(values) if only == "date" else values
    if all(each.label for answer in answers for each in answer):
        return [frozenset(" ".join(each.value.casefold().split()) for each in answer) for answer in answers]
    return []


def _only_kind(answers: Answers, language: str) -> ValueKind | None:
    """Return the kind of which every answer names exactly one value; None if there is none, or several."""
    kinds: tuple[ValueKind, ...] = ("money", "percent", "date", "duration")
    found = [kind for kind in kinds if all(len(list(_of_kind(kind, answer, language))) == 1 for answer in answers)]
    return found[0] if len(found) == 1 else None


def _of_kind(kind: ValueKind, answer: Sequence[RankedStatement], language: str) -> Iterator[object]:
    for statement in answer:
        for text in spans(kind, statement.value):
            match kind:
                case "money":
                    number = _number(text, language)
                    yield _key(number) if number else text
                case "date":
                    yield _day(text) or text.casefold()
                case "time":
                    yield _minutes(text)
                case "duration":
                    yield _length(text) or text.casefold()
                case _:
                    yield " ".join(text.casefold().split())


def _number(text: str, language: str) -> Number | None:
    """Parse a number; the language decides what an ambiguous `38,400` means."""
    return column_numbers([text], _mark(language))[0]


def _key(number: Number) -> tuple[Decimal, str]:
    unit = number.unit.casefold()
    return number.value, _UNITS.get(unit, unit)


def _mark(language: str) -> str:
    return "." if language == "en" else ","


def _day(text: str) -> tuple[int, ...] | None:
    """Return year (0 if there is none), month and day of a date; None if it has another form."""
    if iso := _YEAR_FIRST.fullmatch(text):
        return int(iso[1]), int(iso[2]), int(iso[3])
    if dotted := _DOTTED.fullmatch(text):
        year = int(dotted[3])
        return year if year > 99 else 2000 + year, int(dotted[2]), int(dotted[1])
    named = _NAMED.search(text)
    month = _MONTHS.get(named["month"].casefold()) if named else None
    if named is None or month is None:
        return None
    return int(named["year"] or 0), month, int(named["before"] or named["after"] or 0)


def _without_years(values: Sequence[frozenset[object]]) -> list[frozenset[object]]:
    """Drop the years if one of the dates has none."""
    has_gaps = any(isinstance(day, tuple) and not day[0] for days in values for day in days)
    if not has_gaps:
        return [*values]
    return [frozenset(day[1:] if isinstance(day, tuple) else day for day in days) for days in values]


def _length(text: str) -> tuple[Decimal, str] | None:
    """Return a duration in days, months or minutes; None if it has another form."""
    words = re.findall(r"[^\W_]+(?:[.,]\d+)?", text.casefold())
    unit = next((unit for start, unit in _LENGTHS.items() if words[-1].startswith(start)), None)
    count = _COUNTS.get(words[0], words[0].replace(",", "."))
    if unit is None or len(words) != 2 or not re.fullmatch(r"\d+(?:\.\d+)?", count):
        return None
    return Decimal(count) * unit[0], unit[1]


def _minutes(text: str) -> int:
    """Return a time of day in minutes."""
    match = _CLOCK.match(text)
    if match is None:
        return -1
    hour, half = int(match[1]), (match[3] or "").casefold()
    hour = hour % 12 + 12 * (half == "p") if half else hour
    return hour * 60 + int(match[2] or 0)
