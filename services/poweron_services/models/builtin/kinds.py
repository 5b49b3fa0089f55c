"""What kind of thing a question asks for."""

import re
from typing import Final, Literal

Kind = Literal[
    "uuid",
    "email",
    "phone",
    "url",
    "address",
    "contact",
    "percent",
    "amount",
    "duration",
    "count",
    "age",
    "date",
    "person",
    "place",
    "identifier",
    "done",
    "reason",
    "definition",
    "thing",
]

TELLTALE: Final[frozenset[Kind]] = frozenset({"uuid", "email", "phone", "url", "address", "contact"})
"""Kinds whose values show by themselves what they are."""

_PASSIVE = r"(?:was|were|has been|have been|had been|got|is being)"
_ASKS: Final[tuple[tuple[Kind, tuple[str, ...]], ...]] = (
    ("person", (r"^\W*(?:to |by |for |with |from |an |von |mit )?(?:who|whom|whose|wer|wem|wen|wessen)\b",)),
    ("date", (r"^\W*(?:since |until |by |seit |bis )?(?:when|wann)\b",)),
    ("place", (r"^\W*(?:where|wo|woher|wohin)\b",)),
    ("reason", (r"^\W*(?:why|warum|wieso|weshalb)\b",)),
    ("uuid", (r"\b(?:uuid|guid)s?\b",)),
    ("email", (r"\be-?mails?\b", r"\be-?mail-?adress\w*")),
    ("phone", (r"\b(?:phone|telephone|telefon\w*|fax)\b",)),
    ("url", (r"\b(?:web ?sites?|webseite|url|homepage|web address|link)\b",)),
    (
        "contact",
        (
            r"\bhow (?:can|do|could|may) (?:i|we|you|one|people|customers) (?:reach|contact|call|get in touch)\b",
            r"\bwie (?:erreiche|kann ich) .*\berreiche?n?\b",
        ),
    ),
    ("address", (r"\b(?:address|adresse|anschrift)\b",)),
    (
        "percent",
        (
            r"\b(?:tax|interest|growth|accuracy) rate\b",
            r"\b(?:steuersatz|zinssatz)\b",
            r"\b(?:percent\w*|prozent\w*|what share|welcher anteil)\b",
            "%",
        ),
    ),
    ("age", (r"\bhow (?:many years )?old\b", r"\bwie alt\b")),
    (
        "duration",
        (
            r"\bhow (?:long|far in advance|early|soon)\b",
            r"\bwie lange\b",
            r"\bhow (?:many|much) (?:days?|weeks?|months?|hours?|minutes?)\b",
            r"\bwie ?viele (?:tage|wochen|monate|stunden|minuten|jahre)\b",
            r"\b(?:duration|period|runtime|laufzeit|dauer)\b",
        ),
    ),
    (
        "date",
        (
            r"\b(?:when|wann)\b",
            r"\b(?:which|what) (?:\w+ )?(?:date|day|year|month|time)s?\b",
            r"\b(?:welche[msr]) (?:datum|jahr|tag)\b",
            r"\bum wie viel uhr\b",
            r"\b(?:dates?|datum|deadline|frist)\b",
        ),
    ),
    (
        "count",
        (
            r"\bhow many\b",
            r"\bwie ?viele\b",
            r"\b(?:the|die) (?:number|anzahl|zahl) (?:of|der|von)\b",
            r"\banzahl\b",
        ),
    ),
    (
        "amount",
        (
            r"\bhow (?:much|large|high|big)\b",
            r"\bwie ?viel\b",
            r"\bwie hoch\b",
            r"\bwhat (?:does|did|do|will|would) .+ cost\b",
            r"\bwhat (?:was|were|is|did .+|does .+|do .+) (?:spent|paid|pay|charged?|owed?)\b",
            r"\bwas kostet\b",
            r"\b(?:price|cost|fee|amount|subtotal|total|sum|salary|rent|deposit|deductible)\b",
            r"\b(?:preis|kosten|betrag|summe|gesamtbetrag|gesamtsumme|endbetrag|miete|gehalt|zwischensumme)\b",
        ),
    ),
    ("person", (r"\b(?:who|whom|whose|wer|wem|wen|wessen)\b",)),
    ("place", (r"\b(?:where|wo|woher|wohin)\b", r"\bin welche[rmn]? (?:stadt|land|ort)\b")),
    ("reason", (r"\b(?:why|warum|wieso|weshalb)\b",)),
    (
        "done",
        (
            rf"^\W*what {_PASSIVE} (?:\w+ ){{0,2}}?\w+(?:ed|en|ne|lt|nt|pt|ght|id)\W*$",
            r"^\W*what work (?:was|were|has been) done\b",
            r"\bwas wurde\b",
            r"\bwelche arbeiten\b",
        ),
    ),
    ("identifier", (r"\b(?:number|id|code|identifier|nummer|reference|kennung|vin)\b",)),
    (
        "definition",
        (
            r"^\W*(?:what|who) (?:is|are) (?:an? |the )?[\w-]+\W*$",
            r"^\W*was (?:ist|sind) (?:\w+ )?[\w-]+\W*$",
        ),
    ),
)
_COMPILED = tuple((kind, re.compile("|".join(patterns), re.IGNORECASE)) for kind, patterns in _ASKS)
_COMPARED = re.compile(r"\bhow much (?:more|less|cheaper)\b|\bwie viel (?:mehr|weniger)\b", re.IGNORECASE)
_YES_OR_NO = re.compile(
    r"^\W*(?:is|are|was|were|does|do|did|can|may|must|should|has|have|will|ist|sind|darf|muss|kann|hat)\b",
    re.IGNORECASE,
)
_INTERROGATIVE = re.compile(r"\b(?:who|what|when|where|which|how|why|wer|was|wann|wo|wie|welche\w?)\b", re.IGNORECASE)
_PRICE = re.compile(
    r"\b(?:costs?|prices?|pay|paid|fees?|charged?|expensive|spend|spent|kostet|kosten|preise?|bezahlt|gebühr\w*)\b",
    re.IGNORECASE,
)


def kind_of(question: str) -> Kind:
    """What a question asks for; whoever asks whether something is so asks for no value."""
    if _YES_OR_NO.match(question) and not _INTERROGATIVE.search(question):
        return "thing"
    return next((kind for kind, pattern in _COMPILED if pattern.search(question)), "thing")


def asks_for_money(question: str) -> bool:
    """Whether a question is about a price, not just any amount."""
    return _PRICE.search(question) is not None and not _COMPARED.search(question)
