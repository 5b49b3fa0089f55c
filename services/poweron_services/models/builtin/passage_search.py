"""A search for the passages that answer a question, if any do.

A passage answers a question if the question's words appear in it or around it, and if it contains a value of the kind
that the question asks for. Otherwise the documents do not answer it, and users can judge the closest passages.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Final

from poweron_services.models.builtin import meaning, values
from poweron_services.models.builtin.passages import SENDER, Library, Passage
from poweron_services.models.builtin.question import Question, Term, about, clauses, kind_of, understand
from poweron_services.models.builtin.sources import APPARATUS, SourcePlace
from poweron_services.models.builtin.table_questions import asked_of_tables
from poweron_services.models.builtin.values import Kind
from poweron_services.models.builtin.vocabulary import terms
from poweron_services.models.embedding.embedder import Embedder
from poweron_services.text.language_detection import detect

ENOUGH = 0.7  # share of the question's weight that a passage must cover
EVERY_WORD = 0.99  # coverage of a passage that itself contains every word of the question
MARGIN = 0.07  # answers that score this close to the best are given too
MANY, MANY_OF_ALL = 12, 200  # most answers to a question, and to a question for all of something
SHORT = 80  # characters of a sentence that may need the next one
CONTRADICTING: Final[frozenset[Kind]] = frozenset({"amount", "date", "percent", "count"})

OWN, OWN_SAME = 1.0, 0.92  # weight of a word in the passage itself, and of a synonym in it
NEAR, TITLE, ALONE, SECTION = 0.85, 0.75, 0.7, 0.35  # … beside it, in a title, in its section alone, in its section
SAME = 0.85  # factor for a synonym there
IMPLIED = 0.8  # weight of a word for a kind of value in a passage with such a value

CLOSEST = 3  # passages that are quoted if none answers
LONGEST = 300  # characters of a quote

COMPARED = re.compile(
    r"\b(?:(?:less|fewer|lower|more|higher|larger|older|younger|cheaper|expensive|weniger|mehr|höher) (?:than|als)"
    r"|(?:below|above|under|over|at least|at most|unter|über|mindestens|höchstens)(?= \W{0,2}\d)|below|above)",
    re.IGNORECASE,
)
CODED = 0.15  # bonus for a passage with a code if the question asks for one
_ASKS_FOR_CODE = re.compile(
    r"\b(?:codes?|numbers?|references?|ids?|identifiers?|keys?|pins?|passwords?|kennung\w*|\w*(?:nummern?|codes?))\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"(?<![\w-])(?=[\w./-]*\d)[^\W_][\w./-]{2,}(?![\w-])")
_PRIOR: Final = {"fact": 0.06, "row": 0.03, "window": -0.06, "headed": -0.16}
_DEFINES: Final = r"\b{word}\b[^,.;]{{0,25}}?,? (?:is|are|was|were|means?|an?|the|ist|sind|war|eine?)\b"
DEFINED = 0.3  # bonus for a sentence at the start of a document that defines the subject of the question
_ALL: Final = re.compile(
    r"\b(?:all|every|each|alle[nrs]?|sämtliche\w*|jede[nrs]?|tous|toutes|chaque|tutt[ie]|ogni|tod[oa]s|cada)\b",
    re.IGNORECASE,
)
LASTING = 0.3  # bonus for a duration or a length if the question asks how long
TERSE, FEW_WORDS = 0.1, 12  # bonus for a passage with hardly more words than the question, and the length of one


@dataclass(frozen=True, slots=True)
class RankedStatement:
    """A statement of the documents, and its places."""

    label: str
    value: str
    places: tuple[SourcePlace, ...]
    words: tuple[tuple[str, str], ...] = ()  # its verbatim words in the document, each after its label
    cells: tuple[str, ...] = ()  # the cells of a row that is shown in a table

    @property
    def text(self) -> str:
        return f"{self.label}: {self.value}" if self.label else self.value


@dataclass(frozen=True, slots=True)
class Finding:
    """What the documents say about one question; without statements if they say nothing."""

    question: str
    statements: tuple[RankedStatement, ...] = ()
    closest: tuple[RankedStatement, ...] = ()  # if nothing is said: the closest statements, for users to judge
    goes_on: bool = False  # the question continues the previous one
    columns: tuple[str, ...] = ()  # the names of the columns, if the statements are the rows of a table
    is_worked_out: bool = False  # calculated, not stated anywhere: a statement of the documents takes precedence
    left_out: int = 0
    """The number of further statements that answer it but are left out."""


@dataclass(frozen=True, slots=True)
class Candidate:
    passage: Passage
    coverage: float
    score: float

    def says_every_word(self, question: Question) -> bool:
        """Return whether the passage has all words of a question for a value; it then counts even if it contradicts."""
        is_said = self.passage.kind in ("fact", "sentence", "line") and self.passage.label_terms <= question.said
        return is_said and question.kind in CONTRADICTING and self.coverage >= EVERY_WORD


class PassageSearch:
    """A search for answers in one library of passages."""

    title = TITLE
    """The weight of a word in the title of a passage's document."""
    closest_of_each = CLOSEST
    """The number of passages that are quoted from one document if none answers."""

    def __init__(self, library: Library, language: str, embedder: Embedder | None = None) -> None:
        self.library, self.language, self._embedder = library, language, embedder
        self._frequency = Counter(term for passage in library.passages for term in passage.own)

    def findings(self, request: str) -> list[Finding]:
        """Return what the documents say about each question of a request."""
        parts = clauses(request)
        whole = self._told_by_tables(self._understood(request)) if len(parts) > 1 else None
        if whole is not None and whole.columns:
            return [whole]
        found: list[Finding] = []
        subject: Question | None = None
        for clause in parts:
            question = self._understood(clause)
            found.append(self._finding(question, subject))
            subject = question if question.names_subject else subject
        if self._embedder is None:
            return [one if one.statements else replace(one, closest=self._closest(one.question)) for one in found]
        return [self._by_meaning(one, self._embedder) for one in found]

    def _by_meaning(self, found: Finding, embedder: Embedder) -> Finding:
        """Add the passage that answers the question by meaning if none did by words, or else the closest ones."""
        if found.statements:
            return found
        question = self._understood(found.question)
        words = list(self._covered(question))
        near = meaning.ranked(embedder, found.question, words, self.library.passages)
        spoken = detect(question.text) or self.language
        closest = [one for one in near[:CLOSEST] if one.cosine >= (embedder.near or 0)]
        if closest and embedder.near is not None and meaning.is_answer(near, question.text, question.kind, spoken):
            return replace(found, statements=(_stated(near[0].passage),))
        return replace(found, closest=tuple(_stated(one.passage) for one in closest))

    def _finding(self, question: Question, subject: Question | None) -> Finding:
        """Answer one question; a question without a subject is about that of the previous one."""
        if subject is None or question.names_subject:
            return self._said(question)
        found = replace(self._said(about(question, subject)), goes_on=True)
        return self._said(question) if question.is_whole and not found.statements else found

    def _said(self, question: Question) -> Finding:
        by_tables = self._told_by_tables(question)
        if by_tables and not by_tables.is_worked_out:
            return by_tables
        compared = COMPARED.search(question.text)
        candidates = self._candidates(question)
        if compared:  # a comparison must be in the passage itself
            candidates = [one for one in candidates if compared[0].casefold() in one.passage.statement.casefold()]
        if by_tables and not candidates:
            return by_tables
        chosen, left_out = _together(candidates, question)
        said = self._continued(merged(chosen, self.language), chosen)
        return Finding(question.text, said, left_out=left_out)

    def _told_by_tables(self, question: Question) -> Finding | None:
        """Return what whole tables answer: rows, their number, a total."""
        told = asked_of_tables(self.library.tables, question)
        if told is None:
            return None
        if not told.columns:
            values_ = tuple(RankedStatement(label, value, (told.place,)) for label, value in told.rows)
            return Finding(question.text, values_, is_worked_out=told.is_worked_out)
        rows = (RankedStatement("", _in_line(told.columns, row), (told.place,), cells=row) for row in told.rows)
        return Finding(question.text, tuple(rows), columns=told.columns)

    def _continued(
        self, statements: tuple[RankedStatement, ...], chosen: list[Candidate]
    ) -> tuple[RankedStatement, ...]:
        """Extend a short sentence that is the whole answer with the sentence that follows it."""
        if len(statements) != 1 or chosen[0].passage.kind != "sentence" or len(statements[0].value) > SHORT:
            return statements
        only = chosen[0].passage
        following = (only.place, only.order + 1, "sentence")
        after = [one.value for one in self.library.passages if (one.place, one.order, one.kind) == following]
        return (replace(statements[0], value=" ".join([only.value, *after])),)

    def _candidates(self, question: Question) -> list[Candidate]:
        """Return the passages that answer the question, best first."""
        found: list[Candidate] = []
        for passage, coverage in self._covered(question):
            if coverage >= ENOUGH and self._answers(passage, question):
                found.append(Candidate(passage, coverage, coverage + _credit(passage, question)))
        return sorted(found, key=lambda one: -one.score)

    def _answers(self, passage: Passage, question: Question) -> bool:
        """Return whether a passage that is about the question can be its answer."""
        return _fits(passage, question)

    def _understood(self, clause: str) -> Question:
        return understand(clause, self.language)

    def _terms(self, text: str) -> frozenset[str]:
        return frozenset(terms(text, self.language))

    def _covered(self, question: Question) -> Iterator[tuple[Passage, float]]:
        """Yield the passages that share a word with the question, and the share of its weight that each covers."""
        weights = {term: self._weight(term) for term in question.terms}
        for one in self.library.passages:
            tells = question.kind in values.TELLTALE and values.holds(question.kind, one.value, question.text)
            if tells or any(term.in_(one.own) or term.in_(one.near) for term in question.terms):
                yield one, self._coverage(one, question, weights)

    def _coverage(self, passage: Passage, question: Question, weights: Mapping[Term, float]) -> float:
        """Return the share of the question's weight that a passage covers, from 0 to 1."""
        total = sum(weights.values()) or 1.0
        return sum(weights[term] * self._closely(term, passage, question) for term in question.terms) / total

    def _weight(self, term: Term) -> float:
        everywhere = len(self.library.passages) + 1
        seen = max(self._frequency[one] for one in (term.stem, *term.same))
        if not seen and term.weight < 1:
            return 0.0
        rarity = math.log(1 + everywhere / (1 + seen)) / math.log(1 + everywhere)
        return term.weight * (0.5 + 0.5 * rarity)

    def _closely(self, term: Term, passage: Passage, question: Question) -> float:
        """Return how closely a passage is connected with a word of the question, from 0 to 1."""
        around = self.library.around[passage.place]
        alone = ALONE if term.is_name and passage.kind in ("fact", "cell", "row") else 0.0
        levels = (
            (passage.own, OWN, OWN_SAME),
            (passage.near, NEAR, NEAR * SAME),
            (around.titles, self.title, self.title * SAME),
            (around.alone, alone, alone),
            (around.section, SECTION, SECTION * SAME),
        )
        best = max(exact if term.stem in said else same * bool(term.same & said) for said, exact, same in levels)
        shows_itself = question.kind in values.TELLTALE and kind_of(term.word) == question.kind
        return max(best, IMPLIED) if shows_itself else best

    def _closest(self, text: str) -> tuple[RankedStatement, ...]:
        """Return the passages that cover most of a question and share a significant word with it."""
        question = self._understood(text)
        asked = {term.stem for term in question.terms}
        quotes: dict[str, RankedStatement] = {}
        taken = Counter[str]()
        for one, _ in sorted(self._covered(question), key=lambda each: -each[1]):
            says_more = any(term.weight == 1 and term.in_(one.own) for term in question.terms) and one.own - asked
            has_room = len(quotes) < CLOSEST and taken[one.place.source] < self.closest_of_each
            if says_more and one.is_whole and has_room:
                quote = shorten(one.statement, LONGEST, placeholder=" …")
                quotes.setdefault(quote, RankedStatement("", quote, (one.place,), one.words))
                taken[one.place.source] += 1
        return tuple(quotes.values())


def _fits(passage: Passage, question: Question) -> bool:
    """Return whether a passage says more than the question and has a value of the kind that it asks for."""
    said = passage.own
    if passage.kind in ("fact", "cell", "headed"):
        said = frozenset(terms(passage.value, question.language)) or frozenset({passage.value})
    if passage.record is not None and not _is_about(passage, question):
        return False
    if said <= {term.stem for term in question.terms}:
        return False
    if question.asks_to_whom and passage.label.casefold() in SENDER:
        return False
    if question.kind == "done":
        is_short = passage.kind in ("line", "window", "headed")
        return not is_short and all(term.in_(said) for term in question.terms if term.weight == 1)
    if question.asks_for_money and not _is_price(passage, question):
        return False
    lasts = not question.asks_how_long or values.LASTS.search(passage.value)
    return bool(lasts) and values.holds(question.kind, passage.value, question.text)


def _is_about(passage: Passage, question: Question) -> bool:
    """Return whether a row or its heading has a significant word; otherwise any other row would do as well."""
    matter = [term for term in question.terms if term.weight == 1]
    return not matter or any(term.in_(passage.own) or term.in_(passage.near) for term in matter)


def _is_price(passage: Passage, question: Question) -> bool:
    """Return whether a passage contains a sum of money, or a plain number under a word for one."""
    priced = frozenset(one for term in question.terms if term.weight < 1 for one in (term.stem, *term.same))
    asked = {term.stem for term in question.terms}
    is_asked = passage.kind == "cell" and bool(passage.label_terms) and passage.label_terms <= asked
    lines = passage.value.split(" · ") if passage.kind == "window" else [passage.value]
    has_sum = any(values.MONEY.search(line) and (len(lines) == 1 or ":" not in line) for line in lines)
    return (has_sum and bool(passage.own & question.said)) or is_asked or bool(passage.label_terms & priced)


def _credit(passage: Passage, question: Question) -> float:
    """Return the bonus of a passage over others that cover the question as well."""
    credit = _PRIOR.get(passage.kind, 0.0) + TERSE * min(1.0, FEW_WORDS / (len(passage.own) + 1))
    if passage.label_terms:
        credit += 0.22 * len(passage.label_terms & question.said) / len(passage.label_terms)
    if APPARATUS.search(passage.heading) or passage.value.startswith("^"):
        credit -= 0.2
    first = next((term for term in question.terms if term.weight == 1 and not term.is_name), None)
    if first is not None and first.in_(passage.own):
        credit += 0.06
    if question.asks_how_long and values.MEASURED.search(passage.value):
        credit += LASTING
    if question.kind == "done" and any(term.word in passage.value for term in question.terms):
        credit += 0.15  # "was repaired" rather than "Repair"
    return credit + _defines(passage, question) + _coded(passage, question)


def _coded(passage: Passage, question: Question) -> float:
    """Return the bonus for a code, such as `KX-4711`, if the question asks for one that it does not contain."""
    if question.kind != "thing" or not _ASKS_FOR_CODE.search(question.text) or passage.kind == "cell":
        return 0.0
    if passage.record and question.said.intersection(terms(" ".join(passage.record.headers), question.language)):
        return 0.0  # the cell below the header is the answer
    return CODED if any(found[0] not in question.text for found in _CODE.finditer(passage.value)) else 0.0


def _defines(passage: Passage, question: Question) -> float:
    """Return the bonus for a sentence that says what something is, highest at the beginning of a document."""
    if question.kind != "thing" or not question.subject:
        return 0.0
    flags = re.NOFLAG if question.subject.isupper() else re.IGNORECASE
    defines = re.search(_DEFINES.format(word=re.escape(question.subject)), passage.value, flags)
    return DEFINED / (1 + passage.order / 40) if defines else 0.0


def _together(candidates: list[Candidate], question: Question) -> tuple[list[Candidate], int]:
    """Return the best candidates, and the number of further statements.

    A candidate close to the best may be the same fact elsewhere, another row, or a value that contradicts it.
    """
    least = candidates[0].score - MARGIN if candidates else 0.0
    chosen = _rows_or_cells(
        _said_once([one for one in candidates if one.score >= least or one.says_every_word(question)])
    )
    most = MANY_OF_ALL if _ALL.search(question.text) else MANY
    kept, more = ({one.passage.statement for one in part} for part in (chosen[:most], chosen[most:]))
    return sorted(chosen[:most], key=lambda one: -round(one.score, 1)), len(more - kept)


def _said_once(chosen: list[Candidate]) -> list[Candidate]:
    """Drop repetitions: a paragraph that begins with a label is a fact, and each of its sentences is a passage too.

    The fact is kept if it answers better than any of its sentences.
    """
    sentences = defaultdict[SourcePlace, list[Candidate]](list)
    for one in chosen:
        if one.passage.kind == "sentence":
            sentences[one.passage.place].append(one)
    repeated = set[int]()
    for fact in chosen:
        if fact.passage.kind == "fact":
            held = [one for one in sentences[fact.passage.place] if _is_part(one.passage.value, fact.passage.statement)]
            best = max((one.score for one in held), default=-math.inf)
            repeated |= {id(fact)} if best >= fact.score else {id(one) for one in held}
    return [one for one in chosen if id(one) not in repeated]


def _rows_or_cells(chosen: list[Candidate]) -> list[Candidate]:
    """Keep either a whole row or the one cell of it that answers, never both."""
    cells = Counter(id(one.passage.record) for one in chosen if one.passage.kind == "cell")
    whole = {
        id(one.passage.record) for one in chosen if one.passage.kind == "row" and cells[id(one.passage.record)] != 1
    }
    return [
        one
        for one in chosen
        if one.passage.record is None or (one.passage.kind == "row") == (id(one.passage.record) in whole)
    ]


def _is_part(text: str, whole: str) -> bool:
    return len(text) < len(whole) and text in whole


def merged(chosen: list[Candidate], language: str) -> tuple[RankedStatement, ...]:
    """Merge candidates into statements: the same words at two places are one statement with two places."""
    found: dict[str, RankedStatement] = {}
    for candidate in chosen:
        label, value = meaning.label_of(candidate.passage), candidate.passage.value
        key = " ".join(terms(f"{label} {value}", language)) or value
        known = found[key].places if key in found else ()
        places = tuple(dict.fromkeys([*known, candidate.passage.place]))
        found[key] = RankedStatement(label, value, places, candidate.passage.words)
    return tuple(found.values())


def _in_line(columns: tuple[str, ...], cells: tuple[str, ...]) -> str:
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(columns, cells, strict=True) if cell)


def _stated(passage: Passage) -> RankedStatement:
    return RankedStatement(meaning.label_of(passage), passage.value, (passage.place,), passage.words)
