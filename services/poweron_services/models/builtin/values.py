"""Whether a text holds a value of a kind: a date, a sum of money, somebody's name."""

import re
from typing import Final

from poweron_services.models.builtin.kinds import Kind

_MONTH = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|okt(?:ober)?|nov(?:ember)?|dec(?:ember)?|dez(?:ember)?)"
)
_WEEKDAY = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)s?)"
)
_NUMBER_WORD = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|billion|half"
    r"|none|zero|once|twice|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)"
)
_ORDINAL = r"(?:first|second|third|fourth|fifth|sixth|last|next|every|each|end of|ersten|zweiten|dritten|letzten|ende)"
_UNIT = (
    r"(?:seconds?|minutes?|mins?|hours?|hrs?|h|days?|weeks?|months?|quarters?|years?|lifetime"
    r"|sekunden?|minuten?|stunden?|tage?n?|wochen?|monate?n?|jahre?n?|werktage?n?)"
)
_MONEY = (
    r"(?:us\$|[$€£¥]|\b(?:usd|eur|chf|gbp)\b)\s?[-+]?\d"
    r"|\d\s?(?:[$€£¥]|(?:usd|eur|euros?|chf|gbp|dollars?|cents?|francs?|franken)\b)"
)
_STREET = (
    r"(?:street|st|avenue|ave|boulevard|blvd|road|rd|lane|ln|drive|dr|way|close|court|square|plaza|highway|broadway)"
)

_PATTERNS: Final[dict[Kind, tuple[str, ...]]] = {
    "uuid": (r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{7,12}\b",),
    "email": (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",),
    "phone": (
        r"(?<![\w$€./-])(?!\d{4}-\d\d-\d\d)(?:\+\d|\(\d|\d{3,4}[\s./-](?=\d))[\d\s()./-]{4,}\d(?!\w)",
        r"(?<![\w-])\d{3}-\d{4}\b",
    ),
    "url": (r"https?://\S+", r"\bwww\.\S+", r"\b[\w-]+\.(?:com|org|net|de|ch|at|io|example|gov|edu)\b"),
    "address": (
        rf"\b\d+\w?\s(?:[\w.'-]+\s){{0,4}}?{_STREET}\b",
        r"\b(?:one|two|\d+) [\w ]{2,30} way\b",
        r"\b[\w.-]+(?:straße|strasse|str\.|weg|platz|gasse|allee)\s?\d+",
    ),
    "percent": (r"\d\s?%", r"\d\s?(?:percent|prozent)\b"),
    "amount": (_MONEY, r"\d"),
    "duration": (
        rf"(?:\d|\b(?:{_NUMBER_WORD}|an?|as long|eine?n?|solange)\b).{{0,30}}?\b{_UNIT}\b",
        r"\b(?:as long as|forever|unlimited|unbefristet|unbegrenzt)\b",
        r"\b\d{1,2}:\d\d\b",
        r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\s*[-\u2013]\s*\d",
    ),
    "count": (r"\d", rf"\b{_NUMBER_WORD}\b"),
    "age": (r"\b\d{1,3}[- ]years?\b", r"\bage[d ]+\d", r"\b\d{1,3} jahre\b"),
    "date": (
        r"\b\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b",
        r"\b\d{1,2}/\d{1,2}\b",
        r"\b\d{4}-\d\d-\d\dT",
        r"\b(?:1[5-9]|20)\d\ds?\b",
        rf"\b{_MONTH}\b\.?,?\s*\d",
        rf"\d(?:\.|st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}\b",
        r"\b\d{1,2}:\d\d\b",
        r"\b\d{1,2}\s?(?:am|pm|a\.m|p\.m|uhr)\b",
        rf"\b{_WEEKDAY}\b",
        r"\b(?:today|tomorrow|yesterday|heute|morgen|gestern)\b",
        rf"\b{_ORDINAL}\b.{{0,20}}\b{_UNIT}\b",
        rf"\b(?:within|after|before|every|in|innerhalb|nach|vor|binnen)\b.{{0,20}}\b(?:\d+|{_NUMBER_WORD})\s(?:\w+\s)?{_UNIT}\b",
    ),
    "identifier": (
        r"\b[a-z][\w-]*\d[\w-]*",
        r"\b\d[\d-]*[a-z][\w-]*",
        r"\b\d{5,}\b",
        r"\b\d+(?:[-/.]\d+)+\b",
    ),
}
_PATTERNS["contact"] = (*_PATTERNS["email"], *_PATTERNS["phone"])
_VALUES: Final = {kind: re.compile("|".join(patterns), re.IGNORECASE) for kind, patterns in _PATTERNS.items()}
_IS_NUMBER = re.compile(rf"\d[\d,.]*(?:k|m|bn)?$|{_NUMBER_WORD}$", re.IGNORECASE)
_COUNT = re.compile(rf"\D{{0,3}}\d[\d,.']*(?![\d/:-])(?:\s|$|[a-z(%+])|{_NUMBER_WORD}\b", re.IGNORECASE)
_CALENDAR = re.compile(
    rf"\d{{1,4}}[./-]\d{{1,2}}[./-]\d{{1,4}}|\b{_MONTH}\b\.?,?\s*\d|\d\.?\s+{_MONTH}\b", re.IGNORECASE
)
_CONTAINS_MONEY = re.compile(_MONEY, re.IGNORECASE)

_WHERE = re.compile(
    r"\b(?:beside|near|behind|under|outside|inside|at|on|in|to) (?:the|our|your|its|his|her|a)\b"
    r"|\b(?:neben|hinter|unter|vor|im|am|in der|an der)\b",
    re.IGNORECASE,
)
SHORT = 5  # words; so few are a name or none
_PARTICLES: Final = frozenset({"of", "the", "and", "de", "da", "van", "von", "der", "den", "und", "di", "la"})

TYPED: Final = frozenset(_VALUES) | {"person"}
"""Kinds whose values can be told from other text: where none stands, nothing answers."""


def holds(kind: Kind, text: str, question: str) -> bool:
    """Whether a text holds a value of the kind that the question does not itself bring."""
    if kind == "person":
        return _names_somebody(text, question)
    pattern = _VALUES.get(kind)
    if pattern is None:
        return True
    asked = question.casefold()
    return any(match[0].casefold() not in asked or len(match[0]) < 2 for match in pattern.finditer(text))


def holds_money(text: str) -> bool:
    """Whether a text names a sum of money."""
    return _CONTAINS_MONEY.search(text) is not None


def names_a_place(text: str, question: str) -> bool:
    """Whether a text says where: by a name that the question does not bring, an address, or a word such as `beside`."""
    return bool(_WHERE.search(text)) or holds("address", text, question) or _names_anything(text, question)


def holds_calendar_date(text: str) -> bool:
    """Whether a text names a day, not just a span of time."""
    return _CALENDAR.search(text) is not None


def is_number(word: str) -> bool:
    """Whether a word is a number, in digits or letters."""
    return _IS_NUMBER.match(word) is not None


def is_count(cell: str) -> bool:
    """Whether a value begins with a number that is no date."""
    return _COUNT.match(cell) is not None and not holds_money(cell) and not re.fullmatch(r"\D*\d+\.\d\d", cell)


def _names_somebody(text: str, question: str) -> bool:
    asked = set(re.findall(r"\w+", question.casefold()))
    words = re.findall(r"[\w'\u2019.-]+", text)
    names = [word for word in words if _is_name(word) and word.strip(".").casefold() not in asked]
    if len(words) <= SHORT:
        return bool(names) and all(word[0].isupper() or not word[0].isascii() or word in _PARTICLES for word in words)
    return _names_anything(text, question)


def _names_anything(text: str, question: str) -> bool:
    asked = set(re.findall(r"\w+", question.casefold()))
    words = re.findall(r"[\w'\u2019.-]+", text)
    return any(_is_name(word) and word.strip(".").casefold() not in asked for word in words[1:])


def _is_name(word: str) -> bool:
    if any(character.isdigit() for character in word) or not word[0].isalpha():
        return False
    return not word[0].islower() and (len(word) < 3 or not word.isupper() or not word.isascii())
