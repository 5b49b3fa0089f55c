"""Detection of values of a kind in a text: a date, a sum of money, a person's name."""

import re
from collections.abc import Collection, Sequence
from typing import Final, Literal

Kind = Literal["uuid", "email", "phone", "address", "percent", "amount", "count", "date", "person", "done", "thing"]

TELLTALE: Final[frozenset[Kind]] = frozenset({"uuid", "email", "phone", "address"})
"""Kinds whose values are recognisable on their own."""

_MONTH = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|okt(?:ober)?|nov(?:ember)?|dec(?:ember)?|dez(?:ember)?"
    r"|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre)"
)
_WEEKDAY = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)s?)"
)
_NUMBER_WORD = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|billion|half"
    r"|none|zero|once|twice|anderthalb|eineinhalb|zweieinhalb|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)"
)
_ORDINAL = r"(?:first|second|third|fourth|fifth|sixth|last|next|every|each|end of|ersten|zweiten|dritten|letzten|ende)"
_SEASON = (
    r"(?:winter|summer|autumn|(?:in|during|until|since|every|each|this|next|last) (?:the )?(?:spring|fall)"
    r"|frühling|frühjahr|sommer|herbst|hiver|automne|(?:en|l['\u2019])\s?été|(?:au|le) printemps"
    r"|invierno|verano|otoño|primavera|inverno|(?:in |[dlt]['\u2019])estate|autunno)"
)
_UNIT = (
    r"(?:minutes?|hours?|days?|weeks?|months?|quarters?|years?|minuten?|stunden?|tage?n?|wochen?|monate?n?|jahre?n?)"
)
_MONEY = (
    r"(?:us\$|[$€£¥]|\b(?:usd|eur|chf|gbp)\b)\s?[-+]?\d"
    r"|\d\s?(?:(?:thousand|million|billion|tausend|millionen|milliarden|mio\.?|mrd\.?)\s)?"
    r"(?:[$€£¥]|(?:usd|eur|euros?|chf|gbp|dollars?|cents?|francs?|franken)\b)"
)
_STREET = r"(?:street|st|avenue|ave|boulevard|blvd|road|rd|lane|ln|drive|dr|way|close|court|square|broadway)"
_PATTERNS: Final[dict[Kind, str]] = {
    "uuid": r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{7,12}\b",
    "email": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "phone": r"(?<![\w$€./-])(?!\d{4}-\d\d-\d\d)(?:\+\d|\(\d|\d{3,4}[\s./-](?=\d))[\d\s()./-]{4,}\d(?!\w)"
    r"|(?<![\w-])\d{3}-\d{4}\b",
    "address": rf"\b\d+\w?\s(?:[\w.'-]+\s){{0,4}}?{_STREET}\b|\b(?:one|two) [\w ]{{2,30}} way\b"
    r"|\b[\w.-]+(?:straße|strasse|str\.|weg|platz|gasse|allee)\s?\d+",
    "percent": r"\d\s?(?:%|(?:percent|prozent)\b)",
    "amount": r"\d",
    "count": rf"\d|\b{_NUMBER_WORD}\b",
    "date": r"\b\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b|\b\d{1,2}/\d{1,2}\b|\b\d{4}-\d\d-\d\dT|\b(?:1[5-9]|20)\d\ds?\b"
    rf"|\b{_MONTH}\b\.?,?\s*\d|\d(?:\.|st|nd|rd|th|er)?\s+(?:of\s+)?{_MONTH}\b|\b{_WEEKDAY}\b"
    r"|\b\d{1,2}:\d\d\b|\b\d{1,2}\s?(?:am|pm|a\.m|p\.m|uhr)\b"
    rf"|\b{_SEASON}\b"
    rf"|\b(?:{_ORDINAL}|within|after|before|in|innerhalb|nach|vor|binnen)\b.{{0,20}}\b{_UNIT}\b",
}
MEASURED: Final = re.compile(
    rf"(?:\d|\b{_NUMBER_WORD})[\s-]?(?:{_UNIT}|min|h|hrs?|s|secs?|seconds?|sekunden?|jours?|mois|ans?|heures?"
    r"|meters?|metres?|metern?|m|cm|km|feet|ft|inch(?:es)?|miles?)\b",
    re.IGNORECASE,
)
"""A duration or a length."""
LASTS: Final = re.compile(
    rf"{MEASURED.pattern}|\b(?:until|till|unlimited|indefinitely|permanent(?:ly)?|forever|for life)\b"
    r"|\b(?:bis|unbefristet|jusqu)\b",
    re.IGNORECASE,
)
"""A duration, a length, or how long something remains valid."""
_VALUES: Final = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _PATTERNS.items()}
_IN_NAME: Final = re.compile(r"(?:\A(?:19|20)\d\d|\b(?:Spring|Summer|Autumn|Winter)) (?=[A-Z])")
"""A year or a season at the beginning of a name, such as that of a car or a colour."""
MONEY: Final = re.compile(_MONEY, re.IGNORECASE)
"""A sum of money."""
_ADDRESS = re.compile(rf"\\?[<(]?{_PATTERNS['email']}\\?[>)]?")
_WORD = re.compile(r"[\w'\u2019.-]+")
SHORT = 5  # words; a text this short is a name as a whole, or not at all


def holds(kind: Kind, text: str, question: str) -> bool:
    """Return whether a text contains a value of the kind that the question does not already contain."""
    if kind == "person":
        return _names_somebody(text, question)
    pattern = _VALUES.get(kind)
    if pattern is None:
        return True
    question_text = question.casefold()
    if kind == "date":
        text = _IN_NAME.sub("", text)
    return any(match[0].casefold() not in question_text or len(match[0]) < 2 for match in pattern.finditer(text))


def _names_somebody(text: str, question: str) -> bool:
    """Return whether a text names a person: all words of a short text, or any word of a sentence but the first.

    An email address beside a name does not matter.
    """
    text = _ADDRESS.sub("", text).strip() or text
    question_words = {word.strip(".") for word in _WORD.findall(question.casefold())}
    words = _WORD.findall(text)
    if len(words) > SHORT:
        return _names_in(words[1:], question_words)
    if not all(word[0].isupper() or not word[0].isascii() for word in words):
        return text.endswith(".") and _names_in(words[1:], question_words)
    return _names_in(words, question_words)


def names_within(text: str, question: str) -> bool:
    """Return whether a sentence of any length names a person after its first word."""
    question_words = {word.strip(".") for word in _WORD.findall(question.casefold())}
    return _names_in(_WORD.findall(text)[1:], question_words)


def _names_in(words: Sequence[str], question_words: Collection[str]) -> bool:
    return any(_is_name(word) and word.strip(".").casefold() not in question_words for word in words)


def _is_name(word: str) -> bool:
    if any(character.isdigit() for character in word) or not word[0].isalpha():
        return False
    return not word[0].islower() and (len(word) < 3 or not word.isupper() or not word.isascii())
