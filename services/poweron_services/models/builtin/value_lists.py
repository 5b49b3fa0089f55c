"""Questions for all values of a kind, such as “Which sums does the contract name?” and “List all dates”.

A list names every value in the words of the documents, each with the statement that holds it. Words of the question
that say more than the kind and the document must be in the statement or around it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from poweron_services.models.builtin.passages import Library, Passage
from poweron_services.models.builtin.question import Question, Term
from poweron_services.models.builtin.value_spans import BY_FORM, EXACT, ValueKind, values_of

_SUMS: Final = "(?:geld)?beträge|(?:geld)?summen|preise|kosten|gebühren|entgelte"
_NOUNS: Final[dict[ValueKind, tuple[str, str]]] = {
    "email": (r"e-?mail address|e-?mail|e-?mail-?adresse", r"e-?mail addresses|e-?mails|e-?mail-?adressen"),
    "website": (
        r"website|url|web address|link|internetadresse|webadresse",
        r"web ?sites|urls|web addresses|internet addresses|links|internetadressen|webadressen|webseiten",
    ),
    "phone": (
        r"(?:tele)?phone number|fax number|telefonnummer|rufnummer|handynummer",
        r"(?:tele)?phone numbers|phones|fax numbers|telefonnummern|rufnummern|handynummern|telefone",
    ),
    "deadline": (
        r"deadline|time limit|due date|notice period|frist|\w+frist|stichtag",
        r"deadlines|time limits|due dates|notice periods|cut-?off dates|fristen|\w+fristen|stichtage|fälligkeiten",
    ),
    "money": (
        r"(?:monetary )?amount|sum|price|fee|charge|betrag|geldbetrag|summe|preis|gebühr",
        r"(?:monetary )?amounts(?: of money)?|sums(?: of money)?|prices|costs|fees|charges|" + _SUMS,
    ),
    "date": (r"(?:calendar )?date|datum|termin", r"(?:calendar )?dates|kalenderdaten|datumsangaben|daten|termine"),
    "duration": (
        r"duration|time span|zeitraum",
        r"durations|time spans|periods(?: of time)?|time periods|zeiträume|dauern",
    ),
    "time": (r"time of day|uhrzeit", r"times(?: of (?:the )?day)?|uhrzeiten"),
    "percent": (
        r"percentage|prozentsatz",
        r"percentages|percentage rates|prozentsätze|prozentwerte|prozentangaben|prozente",
    ),
    "person": (
        r"person|individual|name",
        r"persons|people|individuals|names|personen|leute|menschen|personennamen|namen",
    ),
    "organisation": (
        r"company|organi[sz]ation|firma|gesellschaft|organisation",
        r"companies|firms|organi[sz]ations|businesses|firmen|unternehmen|gesellschaften|organisationen",
    ),
    "address": (
        r"(?:postal |street )?address|anschrift|adresse",
        r"(?:postal |street )?addresses|anschriften|adressen|postadressen",
    ),
}
"""The words for one and for several values of each kind; an earlier kind overrides a later one."""
_ONE: Final = "|".join(f"(?P<one_{kind}>{one})" for kind, (one, _) in _NOUNS.items())
_MANY: Final = "|".join(f"(?P<{kind}>{many})" for kind, (_, many) in _NOUNS.items())
_ADJECTIVE: Final = r"(?:(?!(?:and|or|und|oder|of|for|the|is|are|was|do|does)\b)[\w-]+\s+)"
_POLITE: Final = r"^\W*(?:(?:please|bitte|(?:can|could|would) you|(?:kannst|könntest) du|können sie)\s+)*"
_VERB: Final = (
    r"(?:list|enumerate|name|show|give|find|extract|collect|tell|identify|state|liste|nenne|zeige?|gib|zähle?|finde"
    r"|extrahiere|sammle|such\w*|ermittle)(?:\s+(?:out|up|me|us|mir|uns))*"
)
_EVERY: Final = r"(?:all|every|each|any|alle[nr]?|sämtliche\w*|jede[nrms]?)"
_THE: Final = rf"(?:{_EVERY}\s+)?(?:of\s+)?(?:the\s+|die\s+|den\s+)?"
_HEADS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_POLITE}(?:which|what|welche\w*|was für)\s+(?:all\s+|alle\s+)?{_ADJECTIVE}{{0,2}}?(?:{_MANY})\b",
        rf"{_POLITE}(?:what|which|was|welches)\s+(?:are|were|sind|waren)\s+{_THE}{_ADJECTIVE}{{0,2}}?(?:{_MANY})\b",
        rf"{_POLITE}{_VERB}\s+{_THE}{_ADJECTIVE}{{0,2}}?(?:{_MANY})\b",
        rf"{_POLITE}{_VERB}\s+{_EVERY}\s+{_ADJECTIVE}{{0,2}}?(?:{_ONE})\b",
        rf"^\W*{_EVERY}\s+(?:the\s+|die\s+)?{_ADJECTIVE}{{0,1}}?(?:{_MANY})\b",
        rf"^\W*(?:who|wer)\s+(?:are|were|sind|waren)\s+{_THE}{_ADJECTIVE}{{0,2}}?(?:{_MANY})\b",
        r"^\W*(?P<who>who)\s+(?:all\s+)?(?:is|are|was|were|gets?)\s+(?:\w+\s+)?(?:mentioned|named|listed)\b",
        r"^\W*(?P<wer>wer|wen)\s+(?:\w+\s+){1,6}?(?:genannt|erwähnt|aufgeführt|vor)\W*$|^\W*(?P<wen>wen)\s+(?:nennt|erwähnt)\b",
    )
)
_FURTHER: Final = re.compile(
    rf"\s*(?:,|/|&|\band\b|\bund\b|\bsowie\b|\bor\b|\boder\b)\s*(?:(?:which|what|welche\w*|all|alle|the|die)\s+)?(?:{_MANY})\b",
    re.IGNORECASE,
)
_NO_MATTER: Final = re.compile(
    r"\b(?:mention\w*|named?|names|stated?|states|contain\w*|given?|gives|listed|lists?|appears?|occurs?|found|finds?|included?"
    r"|includes|say|says|said|specif\w+|cited|cites?|shown?|shows|there|presen\w*|exists?|agreed|set|out|use[sd]?|read|within"
    r"|overall|altogether|different|various|individual|concrete|respective\w*|together|context|source\w*|nennt|nennen|genannt\w*"
    r"|erwähn\w*|enthält|enthalten\w*|steh\w*|vorkomm\w*|komm\w*|aufgeführt\w*|aufgelistet\w*|angegeben\w*|gibt|geben|vereinbart\w*"
    r"|festgelegt\w*|find\w*|auftauch\w*|tauchen|vorhanden\w*|einzeln\w*|verschieden\w*|jeweil\w*|darin|drin|hierin|dort|therein|here|quelle\w*|auf|insgesamt)\b",
    re.IGNORECASE,
)
DOCUMENT: Final = (
    r"(?:documents?|files?|texts?|letters?|contracts?|agreements?|leases?|invoices?|bills?|offers?|quotes?|quotations?"
    r"|estimates?|reports?|e-?mails?|mails?|messages?|memos?|minutes|protocols?|orders?|receipts?|statements?|polic(?:y|ies)"
    r"|handbooks?|manuals?|tables?|spreadsheets?|sheets?|lists?|pages?|slides?|presentations?|articles?|forms?"
    r"|certificates?|notices?|reminders?|workbooks?|proposals?|brochures?|attachments?|flyers?|leaflets?"
    r"|\w*dokument(?:en?|s)?|\w*datei(?:en)?|\w*text(?:en?|es)?|\w*brief(?:en?|s|es)?|\w*schreiben\w?|\w*vertr[aä]g(?:en?|s|es)?"
    r"|\w*rechnung(?:en)?|\w*angebot(?:en?|s|es)?|\w*offerten?|\w*bericht(?:en?|s|es)?|\w*nachricht(?:en)?|\w*protokoll(?:en?|s)?"
    r"|\w*bestellung(?:en)?|quittung(?:en)?|policen?|\w*handb[uü]ch(?:er)?|\w*tabellen?|\w*listen?|\w*seiten?|\w*präsentation(?:en)?"
    r"|\w*folien?|artikeln?|\w*formular(?:en?|s)?|\w*bescheid(?:en?|s)?|\w*mahnung(?:en)?|\w*aufträgen?|\w*auftrags?"
    r"|kostenvoranschl[aä]g(?:en?|s)?|unterlagen|\w*ordnung(?:en)?|\w*prospekt(?:en?|s)?|\w*broschüren?|anh[aä]ng(?:en?|s)?)"
)
"""The pattern of a word for a kind of document."""
_OF_THINGS: Final = re.compile(r"names?|namen", re.IGNORECASE)
_OF: Final = re.compile(
    r"\s+(?:of|for|von|der|des)\b(?!\s+(?:all\s+|the\s+)*(?:people|persons|individuals|personen))", re.IGNORECASE
)
"""Names of something else than persons, such as “names of the columns”."""
_FILE_NAME: Final = re.compile(
    r"[\w-]+\.(?:pdf|docx?|xlsx?|txt|md|csv|html?|pptx?|eml|msg|od[tsp]|rtf|json|xml|ics|zip)\b", re.IGNORECASE
)
_DOCUMENT: Final = re.compile(rf"\b{DOCUMENT}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListedValue:
    """A value, and the passage that holds it."""

    value: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class ValueRequest:
    """The kinds of values that a question asks for, and the part of it that says more."""

    kinds: tuple[ValueKind, ...]
    rest: str

    @property
    def certainty(self) -> Literal["exact", "recognised", "by form"]:
        """How sure it is that a list of these values is complete."""
        if all(kind in EXACT for kind in self.kinds):
            return "exact"
        return "by form" if any(kind in BY_FORM for kind in self.kinds) else "recognised"


def requested_values(question: str) -> ValueRequest | None:
    """Return which values a question asks for; None if it does not ask for all values of a kind."""
    for pattern in _HEADS:
        if head := pattern.search(question):
            break
    else:
        return None
    kinds, end = [_kind(head)], head.end()
    while further := _FURTHER.match(question, end):
        kinds.append(_kind(further))
        end = further.end()
    noun = next(text for text in head.groupdict().values() if text)
    before = head[0].rpartition(noun)[0]
    if _OF_THINGS.fullmatch(noun) and (_leading(before).strip() or _OF.match(question, end)):
        return None
    rest = _NO_MATTER.sub(" ", _FILE_NAME.sub(" ", f"{_leading(before)} {question[end:]}"))
    return ValueRequest(tuple(dict.fromkeys(kinds)), _DOCUMENT.sub(" ", rest))


def listed_values(library: Library, request: ValueRequest, terms: Sequence[Term]) -> list[ListedValue]:
    """Return the values of the requested kinds in document order.

    Args:
        library: the passages.
        request: the kinds.
        terms: the words that the statement of a value must have, itself or around it.
    """
    candidates = [passage for passage in _statements(library.passages) if _has_all(library, passage, terms)]
    values: list[ListedValue] = []
    for kind in request.kinds:
        of_kind = [ListedValue(value, passage) for passage in candidates for value in values_of(kind, passage)]
        values += _distinct(of_kind) if kind in BY_FORM else of_kind
    return values


def significant(question: Question) -> list[Term]:
    """Return the words of a question that mean something of their own."""
    return [term for term in question.terms if term.weight == 1]


def _kind(match: re.Match[str]) -> ValueKind:
    names = {name.removeprefix("one_") for name, text in match.groupdict().items() if text}
    return next((kind for kind in _NOUNS if kind in names), "person")


def _leading(before: str) -> str:
    """Return the adjectives before a noun, without the words that ask and articles."""
    return re.sub(
        rf"{_POLITE}(?:{_VERB}|which|what|was für|was|welche\w*|who|wer|wen)?\b\s*(?:are|were|sind|waren)?\s*{_THE}",
        " ",
        before,
        flags=re.IGNORECASE,
    )


def _has_all(library: Library, passage: Passage, terms: Iterable[Term]) -> bool:
    titles = library.around[passage.place].titles
    return all(term.in_(passage.own) or term.in_(passage.near) or term.in_(titles) for term in terms)


def _statements(passages: Sequence[Passage]) -> Iterator[Passage]:
    """Yield the passages that may hold a value, each text once: cells and sentences, not rows and blocks."""
    for at, passage in enumerate(passages):
        if passage.kind == "fact":
            parts = _parts(passages, at)
            if len(parts) < 2:
                yield passage
        elif (passage.kind == "sentence" and not _repeats_fact(passages, at)) or passage.kind in ("line", "cell"):
            yield passage


def _parts(passages: Sequence[Passage], at: int) -> list[Passage]:
    """Return the sentences of the block that a fact repeats."""
    result: list[Passage] = []
    for index in range(at + 1, len(passages)):
        passage, fact = passages[index], passages[at]
        if passage.kind != "sentence" or passage.place != fact.place or passage.value not in fact.statement:
            break
        result.append(passage)
    return result


def _repeats_fact(passages: Sequence[Passage], at: int) -> bool:
    """Return whether a sentence is all that the fact before it says."""
    before = passages[at - 1] if at else None
    return before is not None and before.kind == "fact" and len(_parts(passages, at - 1)) == 1


def _distinct(values: Sequence[ListedValue]) -> list[ListedValue]:
    """Return each name once, in its longest form: “Mr Weber” is “Mr Paul Weber” if no other person has that name."""
    result: list[ListedValue] = []
    by_last_word = defaultdict[str, list[int]](list)
    for value in values:
        words = _name_words(value.value)
        alike = by_last_word[words[-1] if words else ""]
        same = next((at for at in alike if _is_one(words, _name_words(result[at].value))), None)
        if same is None:
            alike.append(len(result))
            result.append(value)
        elif len(words) > len(_name_words(result[same].value)):
            result[same] = value
    return result


def _name_words(name: str) -> list[str]:
    titles = ("mr", "mrs", "ms", "miss", "dr", "prof", "sir", "herr", "herrn", "frau")
    return [word for word in re.findall(r"[^\W\d_]+", name.casefold()) if word not in titles]


def _is_one(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two names with the same last word have no other words that differ."""
    return set(first) <= set(second) or set(second) <= set(first)
