"""A question as the built-in model understands it: its parts, the kind of its answer, and the words that matter."""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from poweron_services.models.builtin import vocabulary
from poweron_services.models.builtin.values import Kind

MAX_QUESTION = 2_000  # characters of a request that are read as questions
MAX_PARTS = 8
LITTLE = 0.2  # the weight of a word that says little

_ASKING = (
    r"(?:what|who|whom|whose|when|where|which|how|why|is|are|was|were|does|do|did|wer|wen|wem|wann|wo|wie|welche\w?)"
)
_WITH = r"(?:at|by|for|from|in|on|of|to|under|until|with|an|auf|bei|bis|für|in|mit|seit|um|von|zu)"
_CLAUSES = re.compile(
    rf"\?+\s+|\n+|;\s+|,?\s+(?:and|und|sowie|as well as)\s+(?:also\s+|auch\s+)?"
    rf"(?=(?:{_WITH}\s+(?={_ASKING}\s+\w))?{_ASKING}\b)|,\s+(?={_ASKING}\b)",
    re.IGNORECASE,
)
_ALTERNATIVES = re.compile(
    r"(?:which|what|who|welche\w*|was|wer)(?P<asked>\s[^:,?]{3,120})[:,]\s+(?P<first>[^:?]{3,120}?),?\s+(?:or|oder)\s+"
    r"(?P<second>[^:?]{3,120})\?*",
    re.IGNORECASE,
)
"""A choice between two: `Which costs more: the rent or the cleaning?`"""
_ATTRIBUTES = re.compile(
    r"(?P<lead>\b(?:what|was)\s+(?:is|are|was|were|ist|sind)\s+(?:the|its|die|der|das)|\b(?:give|tell) me the)\s+"
    r"(?P<names>[\w-]+(?: [\w-]+){0,2}(?:,\s+(?:the )?[\w-]+(?: [\w-]+){0,2})*,?\s+(?:and|und)\s+(?:the )?"
    r"[\w-]+(?: [\w-]+)??)\s+"
    r"(?P<of>(?:of|for|von|des)\s+[^?,;]{2,80})",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|does|do|did|has|have|had|can|will|ist|sind|war|waren|hat|haben|wird|wurden?|kann|est|sont)\b",
    re.IGNORECASE,
)
_PREFACE = re.compile(
    r"^[^:?]{0,80}\b(?:documents?|files?|dokumente?|dateien?|web|internet|online|netz)\s*:\s+", re.IGNORECASE
)
_SUBJECT = re.compile(
    r"^\W*(?:what|who|was|wer) (?:is|are|was|were|ist|sind) (?:an? |the |ein |eine |der |die |das )?"
    r"((?:[\w.-]+ ){0,2}?[\w.-]+)(?: used for| good for| for)?\W*$",
    re.IGNORECASE,
)
_PART_OF = re.compile(
    r"^\W*(?:what|was) (?:is|are|was|were|ist|sind) (?:the|der|die|das) (\w+) (?:of|for|von|für) ", re.IGNORECASE
)
_PRICE = re.compile(
    r"\bhow much (?:is|are|was|were) (?:the|an?)\b"
    r"|\b(?:costs?|prices?|pay|paid|fees?|charged?|spend|spent|kostet|kosten|preise?|bezahlt|gebühr\w*)\b",
    re.IGNORECASE,
)
_TO_WHOM = re.compile(r"^\W*(?:to whom|an wen|à qui)\b|^\W*whom?\b.+\bto\W*$", re.IGNORECASE)
_SENDING_WORDS: Final = vocabulary.words_in("sent send addressed geschickt gesendet envoyé")
_HOW_LONG = re.compile(r"\b(?:how long|wie lange?|combien de temps)\b", re.IGNORECASE)
_ASKS: Final[tuple[tuple[Kind, str], ...]] = (
    ("person", r"^\W*(?:to |by |for |with |from |an |von |mit )?(?:who|whom|whose|wer|wem|wen|wessen|qui)\b"),
    ("date", r"^\W*(?:since |until |by |seit |bis |depuis |jusqu'à )?(?:when|wann|quand)\b"),
    ("uuid", r"\b(?:uuid|guid)s?\b"),
    ("email", r"\be-?mails?\b|\be-?mail-?adress\w*"),
    ("phone", r"\b(?:phone|telephone|telefon\w*|fax)\b"),
    ("address", r"\b(?:address|adresse|anschrift|house number|hausnummer)\b"),
    (
        "percent",
        r"\b(?:(?:tax|interest|growth|accuracy) rate|zinssatz|steuersatz|percent\w*|prozent\w*|what share)\b|%",
    ),
    ("date", r"\b(?:when|wann|dates?|datum|deadline|frist)\b|\b(?:which|what) (?:\w+ )?(?:day|year|month|time)s?\b"),
    ("date", r"\bwelche[msr] (?:jahr|tag)\b|\bum wie viel uhr\b"),
    (
        "count",
        r"\b(?:how many|wie ?viele|anzahl|combien de|combien d)\b|\b(?:the|die) (?:number|zahl) (?:of|der|von)\b",
    ),
    (
        "amount",
        r"\bhow (?:much|large|high|big)\b|\bwie ?(?:viel|hoch)\b|\bwas kostet\b|\bwhat (?:does|did|will) .+ cost\b",
    ),
    ("amount", r"\bwhat (?:was|were|is|did .+|does .+|do .+) (?:spent|paid|pay|charged?|owed?)\b"),
    ("amount", r"\b(?:price|cost|fee|amount|subtotal|total|sum|salary|rent|deposit|deductible)\b"),
    ("amount", r"\b(?:preis|kosten|betrag|summe|gesamtbetrag|gesamtsumme|endbetrag|miete|gehalt|zwischensumme)\b"),
    ("amount", r"\b(?:combien|montant|prix|loyer)\b"),
    ("person", r"\b(?:who|whom|whose|wer|wem|wen|wessen)\b"),
    ("person", r"^\W*(?:(?:a|da|con|de|para|por|per) )?(?:quién|quiénes|quem|chi)\b|\bc[oó]m[oe] se (?:llama|chama)\b"),
    ("date", r"\b(?:cuándo|quando)\b|\b(?:en qué|in che|in quale|em que|en quelle) (?:año|anno|ano|année)\b"),
    ("count", r"\b(?:cuánt[oa]s|quant[ie]|quant[oa]s)\b"),
    ("done", r"^\W*what (?:was|were|has been|have been) (?:\w+ ){0,2}?\w+(?:ed|en|ne|lt|nt|pt|ght|id)\W*$"),
    ("done", r"^\W*what work (?:was|has been) done\b|\bwas wurde\b|\bwelche arbeiten\b"),
)
_KINDS: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _ASKS)
_KIND_WORDS: Final = vocabulary.words_in(
    """much many amount cost price charge pay paid money dollar save saved owe owed bill billed spend spent
    betrag preis kosten kostet hoch viel bezahlt number count anzahl viele zahl
    date day year month time deadline latest start starts begin begins datum tag jahr uhr
    percent percentage rate share prozent anteil quote
    street location place postal straße number nummer call reach contact address adresse mail work done"""
)
"""Words that the kind of a question already implies."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question: its stem, its synonyms and its weight."""

    stem: str
    word: str
    same: frozenset[str]
    weight: float  # 1 for a word with a meaning of its own
    is_name: bool  # a proper name, a number or an id

    def in_(self, words: frozenset[str]) -> bool:
        """Return whether the word or a synonym is among the words."""
        return self.stem in words or bool(self.same & words)


@dataclass(frozen=True, slots=True)
class Question:
    """One question and what is known about it before any document is read."""

    text: str
    kind: Kind
    terms: tuple[Term, ...]
    language: str
    subject: str = ""  # in a question such as "what is …"

    @property
    def said(self) -> frozenset[str]:
        """The words of the question and their synonyms."""
        return frozenset(stem for term in self.terms for stem in (term.stem, *term.same))

    @property
    def names_subject(self) -> bool:
        """Whether the question names its subject; “for what amount” refers to that of the previous question."""
        return any(term.weight == 1 for term in self.terms)

    @property
    def is_whole(self) -> bool:
        """Whether the question is complete: it names its subject or has at least a verb."""
        return self.names_subject or _VERB.search(self.text) is not None

    @property
    def asks_how_long(self) -> bool:
        """Whether the question asks for a duration or a length."""
        return _HOW_LONG.search(self.text) is not None

    @property
    def asks_to_whom(self) -> bool:
        """Whether the question asks who receives something."""
        return _TO_WHOM.search(self.text) is not None

    @property
    def asks_for_money(self) -> bool:
        """Whether the question asks for a price, not just for any amount."""
        return self.kind == "amount" and _PRICE.search(self.text) is not None


def clauses(request: str) -> list[str]:
    """Split a request into its questions."""
    text = _PREFACE.sub("", request[:MAX_QUESTION])
    if alternatives := _ALTERNATIVES.fullmatch(text.strip()):
        return [f"{alternatives[name].strip(' ?')}: {alternatives['asked'].strip()}" for name in ("first", "second")]
    text = _ATTRIBUTES.sub(_split_attributes, text)
    parts = [part.strip(" \t.?!,;:") for part in _CLAUSES.split(text)]
    significance = [bool(vocabulary.terms(part, "en")) for part in parts]
    question_flags = (
        is_significant or (any(significance[:at]) and kind_of(parts[at]) != "thing")
        for at, is_significant in enumerate(significance)
    )
    return [part for part, is_question in zip(parts, question_flags, strict=True) if is_question][:MAX_PARTS]


def _split_attributes(match: re.Match[str]) -> str:
    """Split `What are the make and the color of the car` into one question per attribute."""
    names = [name.strip() for name in re.split(r",\s*|\s+(?:and|und)\s+", match["names"]) if name.strip()]
    lead = re.sub(r"\b(are|were)\b", lambda verb: {"are": "is", "were": "was"}[verb[0].casefold()], match["lead"])
    return "? ".join(f"{lead} {name.removeprefix('the ')} {match['of']}" for name in names)


def searched(request: str, language: str) -> list[str]:
    """Split a request into its questions; put the last subject in front of a question that names none."""
    questions: list[str] = []
    subject = ""
    for clause in clauses(request):
        names_subject = understand(clause, language).names_subject
        questions.append(clause if names_subject else f"{subject} {clause}".strip())
        subject = clause if names_subject else subject
    return questions


def about(question: Question, before: Question) -> Question:
    """Add the words of the previous question to a question about the same thing."""
    return replace(question, terms=tuple({term.stem: term for term in (*before.terms, *question.terms)}.values()))


def kind_of(question: str) -> Kind:
    """Return the kind of value that a question asks for."""
    return next((kind for kind, pattern in _KINDS if pattern.search(question)), "thing")


def understand(text: str, language: str) -> Question:
    """Parse a question into its kind and its words."""
    kind = kind_of(text)
    terms: dict[str, Term] = {}
    part = _PART_OF.match(text)
    to_whom = _TO_WHOM.search(text) is not None
    for position, token in enumerate(vocabulary.tokens(text)):
        for term in _terms(token, kind, language, first=position == 0, to_whom=to_whom):
            is_asked = part is not None and token == part[1] and token.casefold() not in _KIND_WORDS
            terms.setdefault(term.stem, replace(term, weight=1.0) if is_asked else term)
    subject = _SUBJECT.match(text)
    return Question(text, kind, tuple(terms.values()), language, subject[1] if subject else "")


def _terms(token: str, kind: Kind, language: str, *, first: bool, to_whom: bool) -> list[Term]:
    stems = vocabulary.token_terms(token, language)
    has_digits = any(map(str.isdigit, token))
    terms: list[Term] = []
    for stem in stems[:1] if has_digits else stems:
        for_kind = kind not in ("thing", "person") and bool({token.casefold(), stem} & _KIND_WORDS)
        weight = LITTLE if for_kind or stem in _generic(language) else 1.0
        is_capital = token[0].isupper() and not first and language != "de" and weight == 1.0
        synonyms = vocabulary.meanings(language).get(stem, frozenset())
        if to_whom and token.casefold() in _SENDING_WORDS:
            synonyms |= {vocabulary.stem("recipient", language)}
        terms.append(Term(stem, token, synonyms, weight, is_name=has_digits or is_capital))
    return terms


@cache
def _generic(language: str) -> frozenset[str]:
    return frozenset(vocabulary.stem(word, language) for word in vocabulary.GENERIC)
