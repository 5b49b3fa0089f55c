"""From passages to answers: which of them say what is asked, and whether any does.

A passage answers when the words of the question stand in it or around it, when every name and number
of the question is among them, and when it holds a value of the kind that is asked for. Otherwise the
documents do not say it.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from poweron_services.models.builtin import kinds, values
from poweron_services.models.builtin.closest import Close, closest
from poweron_services.models.builtin.comparing import compared, comparison
from poweron_services.models.builtin.coverage import (
    OWN,
    OWN_SAME,
    SAME_ELSEWHERE,
    TITLE,
    covered,
    level,
    names_the_kind,
)
from poweron_services.models.builtin.extremes import extremes
from poweron_services.models.builtin.fitting import fits
from poweron_services.models.builtin.forms import Forms
from poweron_services.models.builtin.kinds import Kind
from poweron_services.models.builtin.passages import Library, Passage, Place, Table, split_sentences
from poweron_services.models.builtin.question import Question, Term, clauses, listed, understand
from poweron_services.models.builtin.ranking import Ranking
from poweron_services.models.builtin.scoring import bonus
from poweron_services.models.builtin.words import stem, terms

ENOUGH = 0.7  # of the question's weight must be covered
NAME_AT_LEAST = 0.4  # how closely a name of the question must be connected with the answer
COMPLETE = 0.9  # coverage of an answer to everything that is asked
MARGIN = 0.07  # answers this close to the best are given as well
MARGIN_OF_ALL = 0.3  # … where all of them are asked for
SOFT = 0.25  # the weight of words that need not be said anywhere
MANY = 12  # answers at most
FEW_SENTENCES = 2
FEW_VALUES = 4  # … where each says all that is asked, and may contradict the others
EVERY_WORD = 0.99  # coverage of what says every word of the question itself
CONTRADICTING: Final[frozenset[Kind]] = frozenset({"amount", "date", "percent", "count", "duration"})
SHORT = 80  # characters of a sentence that may need the next one


@dataclass(frozen=True, slots=True)
class Statement:
    """Something the documents say, and where."""

    label: str
    value: str
    places: tuple[Place, ...]

    @property
    def text(self) -> str:
        return f"{self.label}: {self.value}" if self.label else self.value


@dataclass(frozen=True, slots=True)
class Finding:
    """What the documents say to one question; no statements where they say nothing."""

    question: str
    statements: tuple[Statement, ...]
    complete: bool = False  # all that is asked is in them
    closest: tuple[Close, ...] = ()  # where nothing is said: what comes closest, for a person to judge


@dataclass(frozen=True, slots=True)
class Candidate:
    passage: Passage
    coverage: float
    score: float


class Reader:
    """Answers questions from one library of passages."""

    def __init__(self, library: Library, language: str) -> None:
        self.library = library
        self.language = language
        self._ranking = Ranking(library.passages)
        self._forms = Forms((term for passage in library.passages for term in passage.own | passage.near), language)
        self._frequency = Counter(term for passage in library.passages for term in passage.own)

    def findings(self, request: str) -> list[Finding]:
        """What the documents say to each question of a request."""
        found = [finding for clause in clauses(request) for finding in self._clause(clause)]
        return [one if one.statements else self._with_closest(one) for one in found]

    def _with_closest(self, refused: Finding) -> Finding:
        question = self._forms.applied(understand(refused.question, self.language))
        return replace(refused, closest=closest(self.library, question, self._frequency))

    def _clause(self, clause: str) -> list[Finding]:
        whole = self.finding(clause)
        single = [self.finding(item) for item in listed(clause)] if not whole.complete else []
        answered = sum(bool(finding.statements) for finding in single)
        if answered == 0 or (answered < len(single) and whole.statements):
            return [whole]
        return single

    def finding(self, clause: str) -> Finding:
        """What the documents say to one question."""
        question = self._forms.applied(understand(clause, self.language))
        if question.asks_for != "value":
            return Finding(clause, tuple(self._form(question)))
        if question.locator and not any(term.weight == 1 for term in question.terms):
            return Finding(clause, tuple(self._part(question.locator)))
        asked = comparison(clause)
        if asked and (rows := compared(self.library.tables, question, asked)):
            return Finding(clause, tuple(Statement(*row) for row in rows), complete=True)
        if asked is None and (extreme := extremes(self.library.tables, self.library.around, question)):
            return Finding(clause, tuple(Statement(*found) for found in extreme), complete=True)
        candidates = [one for one in self._candidates(question) if asked is None or asked.said_by(one.passage)]
        chosen = _together(candidates, MARGIN_OF_ALL if question.wants_all else MARGIN, question)
        complete = bool(chosen) and chosen[0].coverage >= COMPLETE
        statements = _merged(chosen, question)
        return Finding(clause, tuple(self._continued(statements, chosen)), complete)

    def _continued(self, statements: list[Statement], chosen: list[Candidate]) -> list[Statement]:
        """A short sentence that is the whole answer, with the sentence that follows it."""
        if len(statements) != 1 or chosen[0].passage.kind != "sentence" or len(statements[0].value) > SHORT:
            return statements
        only = chosen[0].passage
        after = [one for one in self.library.passages if one.order == only.order + 1 and one.place == only.place]
        if not after or after[0].kind != "sentence":
            return statements
        return [replace(statements[0], value=f"{only.value} {after[0].value}")]

    def _form(self, question: Question) -> list[Statement]:
        """The titles of the documents or of the part that is named, or the names of the columns."""
        places = [place for place in self.library.around if question.locator in (None, place.locator.casefold())]
        if question.asks_for == "columns":
            return [_headers(table) for table in self.library.tables if table.place in places]
        first = {place.document: place for place in reversed(places)}
        opening = [next((one for one in self.library.passages if one.place == place), None) for place in first.values()]
        return [Statement(one.label, one.value, (one.place,)) for one in opening if one is not None][::-1]

    def _part(self, locator: str) -> list[Statement]:
        """What stands in one part of the documents."""
        here = [one for one in self.library.passages if one.place.locator.casefold() == locator]
        kept = [one for one in here if one.kind in ("fact", "row", "sentence", "line")]
        return [Statement(one.label, one.value, (one.place,)) for one in kept[:MANY]]

    def _candidates(self, question: Question) -> list[Candidate]:
        weights = {term.stem: self._weight(term) for term in question.terms}
        hits = self._ranking.best(question) + self._telltale(question)
        top = hits[0][1] if hits else 1.0
        found = [
            self._judged(self.library.passages[position], question, weights, hit / (top or 1.0))
            for position, hit in hits
        ]
        return sorted((candidate for candidate in found if candidate), key=lambda one: (-one.score, one.passage.order))

    def _telltale(self, question: Question) -> list[tuple[int, float]]:
        """All passages with a value that shows what it is: an address, a phone number."""
        if question.kind not in kinds.TELLTALE:
            return []
        passages = enumerate(self.library.passages)
        return [(position, 0.0) for position, one in passages if values.holds(question.kind, one.value, question.text)]

    def _weight(self, term: Term) -> float:
        everywhere = len(self.library.passages) + 1
        seen = max(self._frequency[one] for one in (term.stem, *term.same))
        if not seen and term.weight <= SOFT:
            return 0.0
        rarity = math.log(1 + everywhere / (1 + seen)) / math.log(1 + everywhere)
        return term.weight * (0.5 + 0.5 * rarity)

    def _judged(self, passage: Passage, question: Question, weights: dict[str, float], hit: float) -> Candidate | None:
        if question.locator and passage.place.locator.casefold() != question.locator and self._located(question):
            return None
        if not fits(passage, question):
            return None
        around = self.library.around[passage.place]
        closely = {term.stem: covered(term, passage, around, question) for term in question.terms}
        if any(term.is_name and closely[term.stem] < NAME_AT_LEAST for term in question.terms):
            return None
        total = sum(weights.values()) or 1.0
        coverage = sum(weights[one] * closely[one] for one in weights) / total
        if coverage < ENOUGH or not _about(passage, question, closely):
            return None
        return Candidate(passage, coverage, coverage + bonus(passage, question, hit))

    def _located(self, question: Question) -> bool:
        return any(place.locator.casefold() == question.locator for place in self.library.around)


def _together(candidates: list[Candidate], margin: float, question: Question) -> list[Candidate]:
    """The best candidate and those that are as good: the same fact elsewhere, other rows, other documents."""
    chosen: list[Candidate] = []
    for one in candidates:
        loose = sum(other.passage.kind in ("sentence", "headed", "window", "line", "row") for other in chosen)
        if _says_it_as_well(one, question) or _says_the_number(one, candidates[0], question):
            few = FEW_VALUES
        elif one.score >= _best_of_its_document(one, candidates).score - margin:
            few = FEW_SENTENCES
        else:
            continue
        if one.passage.kind in ("fact", "cell") or loose < few:
            chosen.append(one)
    return sorted(_distinct(chosen)[:MANY], key=lambda one: (-round(one.score, 1), one.passage.order))


def _says_it_as_well(candidate: Candidate, question: Question) -> bool:
    """Whether it says a question for a value word for word: another value there contradicts, however it is put."""
    passage = candidate.passage
    if question.kind not in CONTRADICTING or candidate.coverage < EVERY_WORD:
        return False
    if passage.kind == "fact":
        return passage.label_terms <= {one for term in question.terms for one in (term.stem, *term.same)}
    return bool(question.bigrams) and question.bigrams <= frozenset(pairwise(passage.sequence))


def _says_the_number(candidate: Candidate, best: Candidate, question: Question) -> bool:
    """Whether it says a number of the question that the best does not: what holds from there on."""
    numbers = {term.stem for term in question.terms if values.is_number(term.word)}
    is_short = candidate.passage.kind in ("fact", "sentence", "line")
    return is_short and bool(numbers & candidate.passage.own - best.passage.own)


def _headers(table: Table) -> Statement:
    return Statement("", ", ".join(header for header in table.records[0].headers if header), (table.place,))


def _distinct(chosen: list[Candidate]) -> list[Candidate]:
    """Without lines that a wider passage brings anyway, and without passages around a sentence that says it."""
    sentences = [one.passage.value for one in chosen if one.passage.kind == "sentence"]
    wide = [one.passage.statement for one in chosen if one.passage.kind in ("headed", "window")]
    return [
        one
        for one in chosen
        if not (one.passage.kind == "line" and any(one.passage.value in text for text in wide))
        and not (one.passage.kind in ("headed", "window") and any(said in one.passage.statement for said in sentences))
    ]


def _best_of_its_document(candidate: Candidate, candidates: list[Candidate]) -> Candidate:
    """The best candidate of the same document, if it covers the question as well as the best of all; else that."""
    best = candidates[0]
    same = next(one for one in candidates if one.passage.place.document == candidate.passage.place.document)
    return same if same.coverage >= best.coverage - MARGIN else best


def _merged(chosen: list[Candidate], question: Question) -> list[Statement]:
    """Statements without repetition: the same words at two places are one statement with two places."""
    found: dict[str, Statement] = {}
    for candidate in chosen:
        label, value = shown(candidate.passage, question)
        key = " ".join(terms(f"{label} {value}", question.language)) or value
        if any(key in other and key != other for other in found):
            continue
        known = found.get(key)
        places = (*known.places, candidate.passage.place) if known else (candidate.passage.place,)
        found[key] = Statement(label, value, tuple(dict.fromkeys(places)))
    return list(found.values())


def shown(passage: Passage, question: Question) -> tuple[str, str]:
    """The label and value to show; a cell is named by its row and its column."""
    if passage.record is None or passage.kind == "row":
        return _said_alone(passage, question)
    asked = {one for term in question.terms for one in (term.stem, *term.same)}
    others = [cell for cell in (*passage.record.inherited, *passage.record.cells) if cell and cell != passage.value]
    named = [cell for cell in others if asked & frozenset(terms(cell, question.language))]
    name = ", ".join((named or others)[:1] if not named else named[:2])
    return ", ".join(part for part in (name, passage.label) if part), passage.value


def _said_alone(passage: Passage, question: Question) -> tuple[str, str]:
    """The one sentence below a heading that answers, without the heading, where the heading is not what is asked."""
    if passage.kind not in ("fact", "headed"):
        return passage.label, passage.value
    asked = {one for term in question.terms for one in (term.stem, *term.same)}
    sentences = split_sentences(passage.value, question.language)
    shared = [len(asked & frozenset(terms(one, question.language)) - passage.label_terms) for one in sentences]
    if len(sentences) < 2 or not max(shared) or shared.count(max(shared)) > 1:
        return passage.label, passage.value
    return "", sentences[shared.index(max(shared))]


def _about(passage: Passage, question: Question, closely: dict[str, float]) -> bool:
    """Whether a passage itself speaks of what is asked: of one of the first words that matter."""
    matter = [term for term in question.terms if term.weight == 1 and not term.is_name][:2]
    matter = matter or [term for term in question.terms if term.weight == 1] or list(question.terms)
    if any(closely[term.stem] >= OWN_SAME or names_the_kind(term, question) for term in matter):
        return True
    under = passage.kind in ("sentence", "line") and question.kind in values.TYPED
    if question.kind == "date" and stem("dated", question.language) in passage.own:
        return any(closely[term.stem] >= TITLE * SAME_ELSEWHERE for term in matter)
    near = any(level(term, passage.near | passage.mates, 1.0, 1.0) for term in matter)
    asked = {one for term in question.terms for one in (term.stem, *term.same)}
    under = under or (passage.kind == "fact" and bool(passage.label_terms) and passage.label_terms <= asked)
    return near and (under or _is_at_the_crossing(passage, question, closely))


def _is_at_the_crossing(passage: Passage, question: Question, closely: dict[str, float]) -> bool:
    """Whether a cell's row and column are both named in the question."""
    names = [term for term in question.terms if term.is_name]
    asked = {one for term in question.terms for one in (term.stem, *term.same)}
    if passage.kind != "cell" or len(names) < 2 or not passage.label_terms & asked:
        return False
    return all(closely[term.stem] == OWN for term in names)
