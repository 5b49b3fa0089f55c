"""A question as the built-in model understands it: its parts, what it asks for, and the words that matter."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Final, Literal

from poweron_services.models.builtin import kinds
from poweron_services.models.builtin.kinds import Kind
from poweron_services.models.builtin.values import is_number
from poweron_services.models.builtin.vocabulary import SOFT, words_in
from poweron_services.models.builtin.words import is_small, language_of, meanings, stem, token_terms, tokens

MAX_QUESTION = 2_000  # characters of a request that are read as questions
MAX_PARTS = 8

_IMPERATIVE = re.compile(
    r"^\W*(?:please\s+|bitte\s+|kindly\s+)*(?:can you |could you |würdest du |kannst du )?"
    r"(?:tell me|give me|show me|find out|find|extract|list|name|identify|state|get|return|look up|answer|determine"
    r"|provide|nenne mir|nenne|finde heraus|finde|suche|zeige mir|zeige|gib mir|extrahiere|liste|sag mir|ermittle"
    r"|compare|analy[sz]e|vergleiche|analysiere)\s+",
    re.IGNORECASE,
)
_ASKING = (
    r"(?:what|who|whom|whose|when|where|which|how|why|is|are|was|were|does|do|did"
    r"|wer|wann|wo|wie|welche[rsnm]?|warum|wem|wen)"
)
_WITH = r"(?:at|by|for|from|in|on|of|to|under|until|with|an|auf|bei|bis|für|in|mit|seit|um|von|zu)"
_PREFACE = re.compile(
    r"^\W*(?:please\s+|bitte\s+)?"
    r"(?:compare|look (?:at|through)|go through|read|check|use|analy[sz]e|vergleiche|lies|prüfe|nimm|analysiere)\s+"
    r"(?:(?:all|both|two|of|the|these|those|this|earlier|previous|other"
    r"|alle|beiden?|zwei|die|das|diese|dieses|früheren?|vorigen?|anderen?)\s+)*"
    rf"(?:documents?|files?|dokumente?|dateien?)\s*:\s+(?={_ASKING}\b)",
    re.IGNORECASE,
)
"""Tells where to look, and nothing that would tell one document from another."""
_CLAUSES = re.compile(
    rf"\?+\s+|\n+|;\s+|,?\s+(?:and|und|sowie|as well as)\s+(?:also\s+|auch\s+)?"
    rf"(?=(?:{_WITH}\s+(?={_ASKING}\s+\w))?{_ASKING}\b)|,\s+(?={_ASKING}\b)",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"^(?P<head>\W*(?:(?:what|which|who|was|wie|wer)\s+(?:is|are|was|were|ist|sind|war|waren|lautet|lauten)\s+)?)"
    r"(?P<list>.+?)(?P<tail>\s+(?:of|for|on|in|from|at|der|des|von|für|im|auf)\s+.+)?$",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"\s*,\s*(?:and\s+|und\s+)?|\s+(?:and|und|sowie|as well as)\s+", re.IGNORECASE)
_LOCATOR = re.compile(
    r"\b(?P<kind>page|slide|sheet|seite|folie|tabellenblatt|blatt)\s+[\"'\u201c]?(?P<name>[\w-]+)", re.IGNORECASE
)
_COUNTED = re.compile(
    r"\b(?:how many|wie ?viele|number of|anzahl (?:der|von))\s+(?:the |of the )?([\w-]+)", re.IGNORECASE
)
_TAKES_PLACE = re.compile(r"\b(?:takes?|took|taken|taking) (?:it )?place\b|\bfinde[tn] statt\b", re.IGNORECASE)
_ORDINAL_PART = re.compile(
    r"\b(first|second|third|fourth|fifth|ersten?|zweiten?|dritten?) (page|slide|seite|folie)\b", re.IGNORECASE
)
_QUARTER = re.compile(
    r"\b(first|second|third|fourth|ersten?|zweiten?|dritten?|vierten?) (?:quarter|quartal)\b", re.IGNORECASE
)
_ORDINALS: Final = {"fir": 1, "sec": 2, "thi": 3, "fou": 4, "vie": 4, "fif": 5, "ers": 1, "zwe": 2, "dri": 3}
_TITLE = re.compile(r"\b(?:title|titel|headline|überschrift)\b", re.IGNORECASE)
_COLUMN_NAMES = re.compile(
    r"\bcolumns\b|\bcolumn (?:names?|headers?|headings?|titles?)\b|\bspalten\b|\bspaltennamen\b", re.IGNORECASE
)
_SUBJECT = re.compile(
    r"^\W*(?:what|who|was|wer) (?:is|are|was|were|ist|sind) (?:an? |the |ein |eine |der |die |das )?"
    r"((?:[\w.-]+ ){0,2}?[\w.-]+)(?: used for| good for| for)?\W*$",
    re.IGNORECASE,
)
_ALL = re.compile(r"\b(?:all|every|list|alle|sämtliche|liste)\b", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:tables?|rows?|columns?|cells?|tabellen?|zeilen?|spalten?|zellen?)\b", re.IGNORECASE)
_AGENT = re.compile(r"(?:er|or)s?$")
_FINAL_VERB = re.compile(
    r"^\W*(?:\w+ )?(?:what|which) (?!is\b|are\b|was\b|were\b|does\b|do\b|did\b)\w.*"
    r"\b(?:does|do|did|is|are|was|were|has|have|had|been|be)\b.*?(\w+)\W*$",
    re.IGNORECASE,
)
_LOCATOR_WORDS: Final = {"seite": "page", "folie": "slide", "tabellenblatt": "sheet", "blatt": "sheet"}

GENERIC: Final = words_in(
    """document documents file files page pages text texts article paper post blog letter pdf table tables sheet
    spreadsheet workbook slide slides presentation attachment data information info detail details fact facts value
    values content row rows column columns cell entry field line figure reading level count dokument dokumente datei
    dateien seite text tabelle folie angabe angaben wert werte informationen zeile spalte
    title digit digits shop shops company firm business organisation organization institution
    told raise raised version key important appear appears quantity qty units amount years took went gave came got
    ask asks need must far early soon
    grand overall entire whole full complete kind name names number numbers exact current currently often oft
    question following different main there person people someone
    work works working cover covers use used uses usage take takes taken happen happens happened make makes made
    provide provides include includes included contain contains apply applies exist exists stand stands
    written listed belong belongs charge charged show
    shows shown live lives hold holds held keep keeps kept run runs go goes need needs allow allowed come comes look
    looks read reads put set offer offers consist consists deal deals mean means concern concerns refer refers relate
    relates locate located situated become became begin receive received bring describe described explain
    gehört gehören liegt beträgt betragen befindet gibt enthält enthalten kommt macht gemacht verwendet benutzt"""
)
"""Words that say little about which passage answers."""

KIND_WORDS: Final[dict[Kind, frozenset[str]]] = {
    "amount": words_in(
        """much amount cost price charge pay paid money dollar save saved owe owed bill billed spend spent
        betrag preis kosten kostet hoch viel bezahlt"""
    ),
    "count": words_in("many number count anzahl viele zahl amount total"),
    "date": words_in("date day year month time deadline latest start starts begin begins datum tag jahr uhr"),
    "duration": words_in("long duration period last lasts time lange dauer take takes day week month hour minute year"),
    "percent": words_in("percent percentage rate share prozent anteil quote"),
    "person": words_in("person people someone name"),
    "place": words_in("place location located locate address city country based situated befindet liegt ort adresse"),
    "address": words_in("street location place postal straße"),
    "phone": words_in("number nummer call reach contact"),
    "email": words_in("address contact adresse mail reach"),
    "contact": words_in("reach contact call touch get erreichen erreiche"),
    "url": words_in("address site page web link adresse"),
    "identifier": words_in("number id code identifier nummer"),
    "age": words_in("old alt age alter"),
    "reason": words_in("reason grund cause"),
    "done": words_in("work done"),
}
"""Words that the kind of the question already stands for."""

GENERIC_WEIGHT = 0.2
KIND_WEIGHT = 0.3
ORDER_WEIGHT = 0.25
FEW_SAY: Final = words_in("first last next latest second third final previous recent recently erste letzte nächste")
"""Words of order: a passage often says the same without them."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question: its stem, what means the same, and how much it matters."""

    stem: str
    word: str
    same: frozenset[str]
    weight: float  # 1 for a word with a meaning of its own
    is_name: bool  # a proper name, a number or an id: it must occur


@dataclass(frozen=True, slots=True)
class Question:
    """One question and what is known about it before any document is read."""

    text: str
    kind: Kind
    terms: tuple[Term, ...]
    language: str
    locator: str | None = None  # "page 2": the question is about this part alone
    asks_for: Literal["title", "columns", "value"] = "value"
    subject: str = ""  # of "what is …"
    in_table: bool = False
    wants_all: bool = False
    bigrams: frozenset[tuple[str, str]] = frozenset()


def clauses(request: str) -> list[str]:
    """The questions that a request consists of."""
    parts = [part.strip(" \t.?!,;:") for part in _CLAUSES.split(_PREFACE.sub("", request[:MAX_QUESTION]))]
    return [part for part in parts if part and any(not is_small(token, "en") for token in tokens(part))][:MAX_PARTS]


def listed(clause: str) -> list[str]:
    """A clause that asks for several things at once, one by one; else nothing."""
    bare = _IMPERATIVE.sub("", clause)
    match = _LISTED.match(bare)
    if match is None:
        return []
    items = [item.strip() for item in _SEPARATOR.split(match["list"]) if item.strip()]
    if len(items) < 2 or any(len(item.split()) > 5 for item in items):
        return []
    return [f"{match['head']}{item}{match['tail'] or ''}".strip() for item in items][:MAX_PARTS]


def understand(text: str, language: str | None = None) -> Question:
    """A question's kind and words."""
    bare = _IMPERATIVE.sub("", text)
    spoken = language or language_of(text)
    kind = kinds.kind_of(bare)
    bare = _QUARTER.sub(lambda match: f"Q{_ORDINALS[match[1][:3].casefold()]}", _TAKES_PLACE.sub(" ", bare))
    locator, bare = _located(bare)
    found: dict[str, Term] = {}
    sequence: list[str] = []
    counted = _COUNTED.search(bare) if kind == "count" else None
    final = _FINAL_VERB.search(bare)
    verb = final[1] if final and kind in ("thing", "identifier", "amount", "percent", "duration") else ""
    for position, token in enumerate(tokens(bare)):
        for term in _terms_of(token, position, kind, spoken):
            if counted and token in counted[1].split() and token not in SOFT:
                term = replace(term, weight=1.0)  # noqa: PLW2901 - what is counted always matters
            if token == verb and term.weight == 1 and not term.is_name and _says_more(found.values()):
                term = replace(term, weight=GENERIC_WEIGHT)  # noqa: PLW2901 - the noun behind "which" is what is asked
            sequence.append(term.stem)
            found.setdefault(term.stem, term)
    defined = _SUBJECT.match(bare)
    return Question(
        text,
        kind,
        tuple(found.values()),
        spoken,
        locator=locator,
        bigrams=frozenset(pairwise(sequence)),
        asks_for=_asks_for(bare, found.values()),
        subject=defined[1] if defined else "",
        in_table=_TABLE.search(bare) is not None,
        wants_all=_ALL.search(text) is not None,
    )


def _says_more(terms: Iterable[Term]) -> bool:
    return any(term.weight == 1 and not term.is_name for term in terms)


def _asks_for(bare: str, found: Iterable[Term]) -> Literal["title", "columns", "value"]:
    """Whether a question is about the form of the documents and about nothing in them."""
    if any(term.weight == 1 for term in found):
        return "value"
    if _COLUMN_NAMES.search(bare):
        return "columns"
    return "title" if _TITLE.search(bare) else "value"


def _located(text: str) -> tuple[str | None, str]:
    """The part of the documents that a question names, such as "page 2", and the question without it."""
    text = _ORDINAL_PART.sub(lambda match: f"{match[2]} {_ORDINALS[match[1][:3].casefold()]}", text)
    match = _LOCATOR.search(text)
    if match is None:
        return None, text
    word = match["kind"].casefold()
    locator = f"{_LOCATOR_WORDS.get(word, word)} {match['name']}".casefold()
    return locator, f"{text[: match.start()]} {text[match.end() :]}"


def _terms_of(token: str, position: int, kind: Kind, language: str) -> list[Term]:
    stems = token_terms(token, language)
    if not stems:
        return []
    digits = any(character.isdigit() for character in stems[0])
    kept = stems[:1] if digits else stems[:2] if len(stems) == 3 and stems[2] not in stems[:2] else stems
    return [_term(one, token, position, kind, language) for one in kept]


def _term(found: str, token: str, position: int, kind: Kind, language: str) -> Term:
    word = token.casefold()
    weight = 1.0
    if word in GENERIC or word in SOFT or (found in _generic(language) and not _AGENT.search(word)):
        weight = GENERIC_WEIGHT
    elif (is_number(word) and word.isalpha()) or word in FEW_SAY:
        weight = ORDER_WEIGHT
    elif word in KIND_WORDS.get(kind, ()) or found in KIND_WORDS.get(kind, ()):
        weight = KIND_WEIGHT
    capital = token[0].isupper() and position > 0 and language != "de"
    named = any(character.isdigit() for character in token) or (capital and weight == 1.0) or _foreign(token)
    return Term(found, token, meanings(language).get(found, frozenset()), weight, named)


@cache
def _generic(language: str) -> frozenset[str]:
    return frozenset(stem(word, language) for word in GENERIC)


def _foreign(token: str) -> bool:
    return any(ord(character) > 0x2FF for character in token)
