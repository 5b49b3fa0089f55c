"""How recent search results must be, according to the words of the criteria (D-02).

The words are English, German, French, Italian, Spanish, Portuguese and Dutch. Names do not count: a word in quotation
marks, or with a capital letter inside a sentence.
"""

import re
from collections.abc import Iterable
from typing import Final

from poweron_events.catalog import TimeRange

MOST_READ = 2_000  # characters of a criterion

_DAYS: Final[dict[TimeRange, int]] = {"day": 1, "week": 7, "month": 31, "year": 366}
_NAME = re.compile(r"\"[^\"]*\"|“[^“”]*”|„[^“”„]*[“”]|«[^«»]*»|`[^`]*`|\bhttps?://\S+")
_LATEST_IS_A_LIMIT = re.compile(r"\bat (?:the (?:very )?)?latest\b|\blatest by\b|\bau plus tard\b", re.IGNORECASE)
_NOUN = (  # nouns after which "current" does not mean recent
    r"(?!\ (?:accounts?|assets?|liabilit(?:y|ies)|ratio|density|transformers?|limiters?|flow|strength|draw|rating)\b)"
)
_FRESH = re.compile(
    rf"""\b(?:
    latest(?!\ (?:possible|permitted|allowed|(?:delivery\ )?date)\b) | newest | (?:most\ )?recent(?:ly)?
    | (?<!direct\ )(?<!alternating\ )(?<!electric\ )(?<!electrical\ )(?<!eddy\ )current{_NOUN}
    | currently | up[- ]to[- ]date | nowadays
    | neueste[nrsm]? | jüngste[nrsm]? | aktuell(?:e[nrsm]?|ste[nrsm]?)? | derzeit(?:ig\w*)? | gegenwärtig\w*
    | récente?s? | récemment | actuelle?s? | actuels | actuellement | dernières?\ (?:nouvelles|informations)
    | recent[ei] | recentemente | attual[ei] | attualmente
    | recientes? | actualmente | (?:el|la|los|las)\ \w+\ actual(?:es)?
    | atual | atuais | atualmente
    | recente | actuele? | huidige? | nieuwste | momenteel
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_TODAY = re.compile(
    r"\b(?:today(?:'s|\u2019s)?|this morning|tonight|heute|heutige[nrsm]?|aujourd['\u2019]hui|oggi|hoy|hoje|vandaag)\b",
    re.IGNORECASE,
)
_UNITS: Final = {
    "hours?|stunden?|heures?|or[ae]|horas?|uren|uur": 1 / 24,
    "days?|tag(?:e[ns]?)?|jours?|giorn[oi]|d[ií]as?|dagen|dag": 1,
    "weeks?|wochen?|semaines?|settiman[ae]|semanas?|weken|week": 7,
    "months?|monate?[ns]?|mois|mes[ei]|mes(?:es)?|m[eê]s(?:es)?|maanden|maand": 30,
    "quarters?|quartale?n?|trimestres?|trimestr[ei]|kwartaal": 92,
    "years?|jahre?[ns]?|ann[éê]es?|ans?|ann[oi]|años?|anos?|jaar|jaren": 365,
}
_THIS_OR_LAST = (
    r"(?:this|last|past|previous|diese[nrsm]?|letzte[nrsm]?|vergangene[nrsm]?"
    r"|cette|cet|ce|ces|dernière?s?|derniers?|quest[oaie]|quest['\u2019]|ultim[oaie]|est[eao]s?|últim[oa]s?|deze|dit|afgelopen)"
)
_NUMBERS: Final = {
    word: number
    for number, words in enumerate(
        (
            "two zwei deux due dos dois duas twee",
            "three drei trois tre tres três drie",
            "four vier quatre quattro cuatro quatro",
            "five fünf cinq cinque cinco vijf",
            "six sechs sei seis zes",
            "seven sieben sept sette siete sete zeven",
        ),
        start=2,
    )
    for word in words.split()
}
_SPAN = re.compile(
    rf"\b{_THIS_OR_LAST}(?:\s+(?P<count>\d{{1,4}}|{'|'.join(_NUMBERS)}))?\s*(?:"
    + "|".join(f"(?P<u{number}>{unit})" for number, unit in enumerate(_UNITS))
    + r")\b(?!\s+(?:of\s+(?:an?|the|its|their|our|my)|des)\b)",  # "the last day of a lease" asks for nothing recent
    re.IGNORECASE,
)
_NAME_OF_A_FIRM = re.compile(r"\s+(?:Ltd|Inc|LLC|Corp|GmbH|AG|SE|SA|Co|Group)\b")


def time_range(criteria: Iterable[str]) -> TimeRange | None:
    """Return the time that a search must cover, or None if the criteria ask for nothing recent.

    The longest time given in days, weeks, months or other units counts; if the criteria only ask for something new, it
    is a month. A time longer than a year limits nothing.
    """
    texts = [_LATEST_IS_A_LIMIT.sub(" ", _NAME.sub(" ", criterion[:MOST_READ])) for criterion in criteria]
    spans = [days for text in texts for days in _spans(text)]
    if spans:
        return next((name for name, days in _DAYS.items() if max(spans) <= days), None)
    return "month" if any(_is_meant(match, text) for text in texts for match in _FRESH.finditer(text)) else None


def _spans(text: str) -> list[float]:
    """Every time that the text mentions, in days."""
    today = [1.0 for match in _TODAY.finditer(text) if _is_meant(match, text)]
    return today + [_days(match) for match in _SPAN.finditer(text) if _is_meant(match, text)]


def _days(match: re.Match[str]) -> float:
    unit = next(days for number, days in enumerate(_UNITS.values()) if match[f"u{number}"])
    count = (match["count"] or "1").casefold()
    return _NUMBERS.get(count, int(count) if count.isdigit() else 1) * unit


def _is_meant(match: re.Match[str], text: str) -> bool:
    """Return whether the words are meant as such and are not part of a name."""
    if _NAME_OF_A_FIRM.match(text, match.end()):
        return False
    before = text[: match.start()].rstrip()
    return match[0][0].islower() or not before or before[-1] in ".!?:;-\u2013"
