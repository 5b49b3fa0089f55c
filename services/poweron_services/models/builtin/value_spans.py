"""Values in a text, each with its exact words: sums of money, dates, deadlines, persons, addresses and others.

Persons and organisations are recognised by their form: a title, a common first name, a label such as “Contact”, a legal
form such as “Ltd”. No other knowledge of the world is built in.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

from poweron_services.models.builtin.given_names import GIVEN_NAMES
from poweron_services.models.builtin.passages import Passage
from poweron_services.text.numbers import looks_numeric, number

ValueKind = Literal[
    "money",
    "date",
    "deadline",
    "duration",
    "time",
    "percent",
    "person",
    "organisation",
    "address",
    "email",
    "phone",
    "website",
]

BY_FORM: Final[frozenset[ValueKind]] = frozenset({"person", "organisation"})
"""Kinds that are recognised by their form alone, so that some may be missed or mistaken."""
EXACT: Final[frozenset[ValueKind]] = frozenset({"percent", "email", "phone", "website"})
"""Kinds that no text can name in other words."""

_AMOUNT: Final = r"\d{1,3}(?:[.,'\u2019\u00a0\u202f ]\d{3})+(?:[.,]\d{1,2})?(?!\d)|\d+(?:[.,]\d{1,2})?(?![.,]?\d)"
_SCALE: Final = r"(?:\s(?:thousand|million|billion|tausend|millionen?|milliarden?|mio\.?|mrd\.?|tsd\.?))?"
_BEFORE: Final = r"(?:US\$|R\$|[$€£¥₹]|(?:USD|EUR|CHF|GBP|SFr\.?|Fr\.)(?=\s?[-\d]))"
_AFTER: Final = (
    r"(?:[$€£¥]|(?:USD|EUR|CHF|GBP|euros?|dollars?|US-Dollars?|pounds?|francs?|franken|pfund|cents?|rappen|fr\.|kr|zł"
    r"|yen)(?!\w))"
)
_SPAN: Final = r"\s?(?:-|\u2013|to|bis)\s?"
_MONTH: Final = (
    r"(?:Jan(?:uary|uar|\.)?|Jänner|Feb(?:ruary|ruar|\.)?|Mar(?:ch|\.)?|März|Mrz\.?|Apr(?:il|\.)?|May|Mai|June?|Juni"
    r"|July?|Juli|Aug(?:ust|\.)?|Sept?(?:ember|\.)?|O[ck]t(?:ober|\.)?|Nov(?:ember|\.)?|De[cz](?:ember|\.)?)(?!\w)"
)
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_YEAR: Final = r"(?:,?\s\d{4}(?![\d.,]?\d))"
_DATE: Final = (
    rf"(?:{_DAY}(?:{_SPAN}|\s?/\s?))?{_DAY}\s(?:of\s)?{_MONTH}{_YEAR}?"
    rf"|{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?!\d|[.:]\d)(?:{_SPAN}\d{{1,2}}(?!\d))?{_YEAR}?|{_MONTH}\s\d{{4}}(?!\d)"
    r"|\d{4}-\d\d-\d\d(?!\d)|\d{1,2}\.\s?\d{1,2}\.\s?(?:\d{4}|\d\d)(?![\d.])|\d{1,2}/\d{1,2}/(?:\d{4}|\d\d)(?![\d/])"
)
_NUMBER: Final = (
    r"(?:\d+(?:[.,]\d+)?|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fourteen|thirty|sixty|ninety"
    r"|ein(?:e[nrms]?)?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|vierzehn|dreißig|dreissig|sechzig|neunzig)"
)
_UNIT: Final = (
    r"(?:(?:working|business|calendar|full|volle[nr]?)\s)?(?:(?:arbeits|werk|kalender|bank)?tage?n?|minutes?|hours?|days?"
    r"|weeks?|months?|quarters?|years?|minuten?|stunden?|wochen?|monate?n?|quartale?n?|jahre?n?)(?!\w)"
)
_LENGTH: Final = rf"(?:{_NUMBER}(?:\s\(\d+\))?(?:{_SPAN}{_NUMBER})?[\s-]{_UNIT})"
_NTH: Final = r"(?:(?:\d{1,2}(?:st|nd|rd|th|\.)|\w+(?:ten|st|nd|rd|th))\s(?:working\s)?(?:day|werktag\w*|tag\w*)(?!\w))"
_END: Final = rf"(?:(?:the\s)?(?:end|middle|beginning)\sof\s|ende\s|mitte\s|anfang\s)(?:(?i:{_UNIT})|{_MONTH}{_YEAR}?)"
_LIMIT: Final = (
    r"(?:until|till|within|no later than|not later than|at the latest|due(?: on| in)?|bis|binnen|innerhalb(?: von)?"
    r"|spätestens|fällig(?: am)?|(?:notice )?period of|notice of|deadline of|\w*frist (?:von|beträgt)"
    r"|deadline (?:is|on))"
)
_LIMIT_OF_DATES: Final = (
    r"(?:by|before|due by|expires?(?: on)?|ends?(?: on)?|vor|endet am|läuft (?:bis|am)|stichtag (?:ist )?(?:der|am))"
)
_ARTICLES: Final = r"(?:\s(?:on|at|in|the|a|an|zum|am|spätestens|dem|den|der|des|einer|von|jeweils|latest))*"
_STREET: Final = (
    r"(?:Street|St|Avenue|Ave|Boulevard|Blvd|Road|Rd|Lane|Ln|Drive|Dr|Way|Close|Court|Square|Parkway|Terrace)"
)
_CITY: Final = r"(?:[A-Z]{1,2}-)?\d{4,5}\s[^\W\d_a-z][\w.-]+(?:\s(?:am|an|im|bei|[^\W\d_a-z])[\w./-]*){0,2}"
_WORD: Final = r"[^\W\d_a-z][\w'\u2019-]*"
_TITLES: Final = r"(?:(?:Mr|Mrs|Ms|Miss|Dr|Prof|Sir|Herrn?|Frau)\.?\s)"
_TITLE: Final = re.compile(_TITLES)
_POSSESSIVE: Final = re.compile(r"['\u2019]s\b.*", re.DOTALL)
_LEGAL_FORM: Final = (
    r"(?:GmbH(?: & Co\. KG)?|AG|KG|OHG|GbR|UG|SE|e\.\s?V\.|eG|Ltd\.?|Limited|LLC|LLP|Inc\.?|Corp\.?|Corporation|plc"
    r"|PLC|S\.?A\.?|SARL|S\.?r\.?l\.?|B\.?V\.?)(?![\w])"
)
_PATTERNS: Final[dict[ValueKind, re.Pattern[str]]] = {
    "money": re.compile(
        rf"(?<![\w.,]){_BEFORE}\s?[-+]?(?:{_AMOUNT})(?:\.?[-\u2013\u2014](?!\w))?{_SCALE}"
        rf"|(?<![\w.,])(?:(?:{_AMOUNT}){_SPAN})?(?:{_AMOUNT})(?:,[-\u2013])?{_SCALE}\s?{_AFTER}",
        re.IGNORECASE,
    ),
    "date": re.compile(rf"(?<![\w/.-])(?:{_DATE})"),
    "deadline": re.compile(
        rf"(?<!\w)(?i:{_LIMIT}{_ARTICLES})\s(?:{_DATE}|(?i:{_LENGTH})|(?i:{_NTH})|{_END})"
        rf"|(?<!\w)(?i:{_LIMIT_OF_DATES}{_ARTICLES})\s(?:{_DATE}|(?i:{_NTH})|{_END})"
        rf"|(?<![\w.])(?i:{_LENGTH}['\u2019]?\s(?:notice|(?:of|from|after|before|nach|vor|ab|following|zum)\s\w+))"
        rf"|(?<![\w.])(?i:{_NTH}\s(?:of|des)\s(?:the|each|every|jeden|following|folgenden)?\s?\w+)",
    ),
    "duration": re.compile(rf"(?<![\w.,]){_LENGTH}", re.IGNORECASE),
    "time": re.compile(
        r"(?<![\w.,:])(?:\d{1,2}:\d\d(?::\d\d)?(?!\d)(?:\s?(?:[ap]\.?m\.?|uhr)(?!\w))?"
        r"|\d{1,2}(?:\.\d\d)?\s?(?:[ap]\.?m\b\.?|uhr(?!\w)))",
        re.IGNORECASE,
    ),
    "percent": re.compile(r"(?<![\w.,])[-+]?\d+(?:[.,]\d+)?\s?(?:%|(?:percent|per cent|prozent)\b)", re.IGNORECASE),
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "website": re.compile(r"(?:https?://|www\.)[^\s<>()\"“”]*[\w/]"),
    "phone": re.compile(r"(?<![\w$€£./:-])(?:\+\d|\(\d|0\d|\d{3}[\s./-](?=\d))[\d\s()./-]{5,18}\d(?![\w-])"),
    "address": re.compile(
        rf"(?:[^\W\d_a-z][\w.-]*(?:stra(?:ß|ss)e|str\.|weg|platz|gasse|allee|ring|ufer|damm)"
        rf"|(?:{_WORD}\s){{1,3}}(?:{_STREET}|Stra(?:ß|ss)e|Platz|Weg|Gasse|Allee))\s\d+\s?[a-z]?(?!\w)(?:,\s{_CITY})?"
        rf"|(?<![\w.,-])\d+[A-Za-z]?\s(?:{_WORD}\.?\s){{1,4}}?{_STREET}\b\.?(?:,?\s(?:Suite|Apt|Unit|Floor)\.?\s[\w#-]+)?"
        rf"(?:,\s{_WORD}(?:\s{_WORD}){{0,2}})?(?:,\s[A-Z]{{2}}(?:\s\d{{5}}(?:-\d{{4}})?)?"
        rf"|,?\s[A-Z]{{1,2}}\d[\dA-Z]?\s\d[A-Z]{{2}})?(?:,\s{_CITY})?"
    ),
    "organisation": re.compile(rf"(?:[^\W\d_a-z][\w&.'\u2019-]*\s(?:(?:&|and|und|für|of|der)\s)?){{1,4}}{_LEGAL_FORM}"),
    "person": re.compile(
        rf"(?<![\w-]){_TITLES}+(?:(?:von|van|de|zu)\s)?{_WORD}(?:\s(?:[A-Z]\.\s)?(?:(?:von|van|de|zu)\s)?{_WORD}){{0,2}}"
        rf"|(?<![\w-])(?P<first>{_WORD})(?:\s[A-Z]\.|\s{_WORD})?\s(?:(?:von|van|de|zu|der)\s){{0,2}}{_WORD}(?![\w-])"
    ),
}
_LABELS: Final[dict[ValueKind, re.Pattern[str]]] = {
    "money": re.compile(
        r"(?:cost|price|amount|fee|rent|salary|wage|deposit|betrag|preis|kosten|gebühr|miete|lohn|gehalt|honorar|kaution"
        r"|entgelt|euros?|dollars?|franken|eur|chf|usd|revenue|turnover|sales|income|expense|budget|profit|payment|umsatz|umsätze|erlös|einnahme|ausgabe|aufwand|ertrag"
        r"|gewinn|zahlung|prix|montant|importe|importo)s?n?\b",
        re.IGNORECASE,
    ),
    "deadline": re.compile(
        r"\b(?:due|deadline|until|expir\w*|valid|latest|payable)\b|frist|fällig|stichtag|gültig|\bbis\b|zahlungsziel",
        re.IGNORECASE,
    ),
    "address": re.compile(r"\baddress|adresse|anschrift|wohnort|\bresidence", re.IGNORECASE),
    "person": re.compile(
        r"\b(?:contact|customer|client|author|manager|owner|tenant|landlord|landlady|signed|prepared by|approved by"
        r"|from|to|buyer|seller|insured|employee|patient|teacher|cashier|clerk|estimator|driver|guest|members?|attendees?"
        r"|participants?|present|excused|absent|lead|head|director|agent|supervisor|witness|notary)\b|(?:mieter|käufer|verkäufer|kund"
        r"|vertreter|partner|leiter|autor|inhaber|eigentümer|teilnehmer|mitarbeiter|lehrer|patient|verfasser)(?:in(?:nen)?|e[nr]?)?\b"
        r"|kontakt|leitung|anwesend|entschuldigt|abwesend|unterschrift|\bvon\b|\ban\b",
        re.IGNORECASE,
    ),
}
"""The labels that make a value one of a kind although its words do not show it."""
_TOTAL: Final = re.compile(r"total|sum|tax|balance|net|gross|summe|gesamt|steuer|netto|brutto|saldo", re.IGNORECASE)
_NO_NAME: Final = re.compile(
    rf"\d|@|{_LEGAL_FORM}|\b{_STREET}\b|(?:stra(?:ß|ss)e|weg|platz)\b|\b(?:The|Der|Die|Das|And|Und)\b"
)
_NAME: Final = re.compile(rf"{_TITLES}*{_WORD}\.?(?:\s(?:(?:von|van|de|zu|der)\s)?(?:{_WORD}|[A-Z]\.)){{1,3}}")
_LABELLED: Final = re.compile(r"(?P<label>[^\W\d_][^:|.]{1,40}): (?P<value>\S.*)", re.DOTALL)
_BESIDE: Final = re.compile(r"\s*[<(\[].*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"\s*(?:,|;|\band\b|\bund\b|&)\s*")
_CENTS: Final = re.compile(r"[.,]\d\d$")
_OF_TIME: Final[tuple[ValueKind, ...]] = ("date", "duration")
_DIGIT: Final = re.compile(r"\d")
FEWEST_DIGITS: Final = 7  # of a phone number


def values_of(kind: ValueKind, passage: Passage) -> list[str]:
    """Return the values of a kind in a passage, in its words and order."""
    labelled = list(_by_label(kind, passage))
    return labelled or [text for text in spans(kind, passage.value) if _fits(kind, text)]


def spans(kind: ValueKind, text: str) -> Iterator[str]:
    """Yield the words of each value of a kind in a text."""
    at = 0
    while match := _PATTERNS[kind].search(text, at):
        at = match.end()
        if kind == "person" and match["first"] and match["first"].casefold() not in GIVEN_NAMES:
            at = match.end("first")  # the next word may be a first name
        else:
            yield _POSSESSIVE.sub("", match[0]).strip(" ,;")


def _by_label(kind: ValueKind, passage: Passage) -> Iterator[str]:
    """Yield the values of a labelled passage if its label is that of the kind and their form allows it."""
    pattern = _LABELS.get(kind)
    label, value = passage.label, passage.value.strip()
    if passage.kind in ("sentence", "line") and (match := _LABELLED.fullmatch(value)):
        label, value = match["label"], match["value"]
    if pattern is None or not label:
        return
    match kind:
        case "money":
            plain = number(value, ".") or number(value, ",")
            is_of_money = pattern.search(label) or (_TOTAL.search(label) and _CENTS.search(value))
            if is_of_money and looks_numeric(value) and plain is not None and plain.unit != "%":
                yield value
        case "person":
            names = [_BESIDE.sub("", name).strip(" .") for name in _SEPARATOR.split(value)]
            if pattern.search(label) and _is_name(names[0]):
                yield from filter(_is_name, names)
        case "deadline":
            if pattern.search(label) and any(next(spans(kind, value), "") for kind in _OF_TIME):
                yield value
        case _:
            if pattern.search(label) and "@" not in value and not value.startswith(("http", "www.")):
                yield value


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and not _NO_NAME.search(_TITLE.sub("", text))


def _fits(kind: ValueKind, text: str) -> bool:
    """Return whether the words that a pattern matches can be a value of the kind."""
    if kind == "person":
        return not _NO_NAME.search(_TITLE.sub("", text))
    if kind == "phone":
        return len(_DIGIT.findall(text)) >= FEWEST_DIGITS and not any(True for _ in spans("date", text))
    return True
