"""A search for the passages that answer a question, if any do.

A passage answers a question if the question's words appear in it or around it, and if it contains a value of the kind
that the question asks for. Otherwise the documents do not answer it, and users can judge the closest passages.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Final, Literal

from poweron_services.models.builtin import meaning, values
from poweron_services.models.builtin.passages import SENDER, Library, Passage
from poweron_services.models.builtin.question import Question, Term, about, clauses, kind_of, understand
from poweron_services.models.builtin.sources import APPARATUS, SourcePlace
from poweron_services.models.builtin.table_questions import asked_of_tables
from poweron_services.models.builtin.value_lists import ListedValue, listed_values, requested_values, significant
from poweron_services.models.builtin.values import Kind
from poweron_services.models.builtin.vocabulary import terms
from poweron_services.models.embedding.embedder import Embedder
from poweron_services.text.calculations import Calculation
from poweron_services.text.language_detection import detect

ENOUGH = 0.7  # share of the question's weight that a passage must cover
EVERY_WORD = 0.99  # coverage of a passage that itself contains every word of the question
MARGIN = 0.07  # answers that score this close to the best are given too
MANY, MANY_OF_ALL = 12, 200  # most answers to a question, and to a question for all of something
SHORT = 80  # characters of a sentence that may need the next one
CONTRADICTING: Final[frozenset[Kind]] = frozenset({"amount", "date", "percent", "count"})

OWN, OWN_SAME = 1.0, 0.92  # weight of a word in the passage itself, and of a synonym in it
NEAR, TITLE, ALONE, SECTION = 0.85, 0.75, 0.7, 0.35  # … beside it, in a title, in no other section, in its section
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


Agreement = Literal["same", "different"]


@dataclass(frozen=True, slots=True)
class RankedStatement:
    """A statement of the documents, and its places."""

    label: str
    value: str
    places: tuple[SourcePlace, ...]
    words: tuple[tuple[str, str], ...] = ()  # its verbatim words in the document, each after its label
    cells: tuple[str, ...] = ()  # the cells of a row that is shown in a table
    calculation: Calculation | None = None  # how its value was calculated
    counted: tuple[int, ...] = ()  # the rows that its value counts, if it does not name them
    quote: str = ""  # the words around the value

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
    silent: tuple[str, ...] = ()
    """The documents that the question names and that do not answer it."""
    agreement: Agreement | None = None
    """Whether the documents that the question names give the same values; None if that is not clear."""
    difference: RankedStatement | None = None
    """By how much two of their sums of money differ."""
    values: Literal["exact", "recognised", "by form"] | None = None
    """How sure it is that no value of a kind is missing, if the question asks for all of them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    passage: Passage
    coverage: float
    score: float

    def says_every_word(self, question: Question) -> bool:
        """Return whether the passage has all words of a question for a value; it then counts even if others differ."""
        is_said = self.passage.kind in ("fact", "sentence", "line") and self.passage.label_terms <= question.said
        return is_said and question.kind in CONTRADICTING and self.coverage >= EVERY_WORD


class PassageSearch:
    """A search for answers in one library of passages."""

    title = TITLE
    """The weight of a word in the title of a passage's document."""
    closest_of_each = CLOSEST
    """The number of passages that are quoted from one document if none answers."""

    def __init__(
        self,
        library: Library,
        language: str,
        embedder: Embedder | None = None,
        *,
        extends: bool = True,
        calculates: bool = True,
    ) -> None:
        """Create a search.

        Args:
            library: the passages.
            language: the language in which words are compared.
            embedder: compares passages by their meaning, too.
            extends: add the next sentence to a short one that is the whole answer.
            calculates: calculate from tables, which must be complete for that.
        """
        self.library, self.language, self._embedder = library, language, embedder
        self._extends, self._calculates = extends, calculates
        self._frequency = Counter(term for passage in library.passages for term in passage.own)

    def findings(self, request: str) -> list[Finding]:
        """Return what the documents say about each question of a request."""
        parts = clauses(request)
        table_finding = self._table_finding(self._understand(request)) if len(parts) > 1 else None
        if table_finding is not None and table_finding.columns:
            return [table_finding]
        findings: list[Finding] = []
        subject: Question | None = None
        for clause in parts:
            question = self._understand(clause)
            findings.append(self._finding(question, subject))
            subject = question if question.names_subject else subject
        if self._embedder is None:
            return [
                finding if finding.statements else replace(finding, closest=self._closest(finding.question))
                for finding in findings
            ]
        return [self._by_meaning(finding, self._embedder) for finding in findings]

    def _by_meaning(self, finding: Finding, embedder: Embedder) -> Finding:
        """Add the passage that answers the question by meaning if none did by words, or else the closest ones."""
        if finding.statements:
            return finding
        question = self._understand(finding.question)
        words = list(self._coverages(question))
        ranking = meaning.ranked(embedder, finding.question, words, self.library.passages)
        language = detect(question.text) or self.language
        closest = [entry for entry in ranking[:CLOSEST] if entry.cosine >= (embedder.near or 0)]
        if closest and embedder.near is not None and meaning.is_answer(ranking, question.text, question.kind, language):
            return replace(finding, statements=(_statement(ranking[0].passage),))
        return replace(finding, closest=tuple(_statement(entry.passage) for entry in closest))

    def _finding(self, question: Question, subject: Question | None) -> Finding:
        """Answer one question; a question without a subject is about that of the previous one."""
        if listed := self.values(question):
            return listed
        if subject is None or question.names_subject:
            return self._direct_finding(question)
        finding = replace(self._direct_finding(about(question, subject)), goes_on=True)
        return self._direct_finding(question) if question.is_whole and not finding.statements else finding

    def values(self, question: Question) -> Finding | None:
        """Return all values of a kind if the question asks for them and a table does not list them."""
        request = requested_values(question.text)
        if request is None or ((by_tables := self._table_finding(question)) and by_tables.columns):
            return None
        terms_ = significant(self._understand(request.rest))
        listed = listed_values(self.library, request, terms_)
        if not listed and terms_:
            return None
        statements = _with_places(map(_of_value, listed))
        most = statements[:MANY_OF_ALL]
        left_out = len(statements) - len(most)
        return Finding(question.text, tuple(most), left_out=left_out, values=request.certainty)

    def _direct_finding(self, question: Question) -> Finding:
        by_tables = self._table_finding(question)
        if by_tables and not by_tables.is_worked_out:
            return by_tables
        comparison = COMPARED.search(question.text)
        candidates = self._candidates(question)
        if comparison:  # a comparison must be in the passage itself
            candidates = [
                candidate
                for candidate in candidates
                if comparison[0].casefold() in candidate.passage.statement.casefold()
            ]
        if by_tables and not candidates:
            return by_tables
        selection, left_out = _together(candidates, question)
        statements = merged(selection, self.language)
        statements = self._extend(statements, selection) if self._extends else statements
        return Finding(question.text, statements, left_out=left_out)

    def _table_finding(self, question: Question) -> Finding | None:
        """Return what whole tables answer: rows, their number, a total."""
        answer = asked_of_tables(self.library.tables, question)
        if answer is None or (answer.calculation and not self._calculates):
            return None
        if not answer.columns:
            values_ = tuple(
                RankedStatement(label, value, places, calculation=answer.calculation, counted=answer.counted)
                for (label, value), places in zip(answer.rows, answer.places, strict=True)
            )
            return Finding(question.text, values_, is_worked_out=answer.is_worked_out)
        rows = (
            RankedStatement("", _in_line(answer.columns, row), places, cells=row)
            for row, places in zip(answer.rows, answer.places, strict=True)
        )
        return Finding(question.text, tuple(rows), columns=answer.columns)

    def _extend(
        self, statements: tuple[RankedStatement, ...], candidates: list[Candidate]
    ) -> tuple[RankedStatement, ...]:
        """Extend a short sentence that is the whole answer with the sentence that follows it."""
        if len(statements) != 1 or candidates[0].passage.kind != "sentence" or len(statements[0].value) > SHORT:
            return statements
        only = candidates[0].passage
        following = (only.place, only.order + 1, "sentence")
        after = [
            passage.value
            for passage in self.library.passages
            if (passage.place, passage.order, passage.kind) == following
        ]
        return (replace(statements[0], value=" ".join([only.value, *after])),)

    def _candidates(self, question: Question) -> list[Candidate]:
        """Return the passages that answer the question, best first."""
        candidates: list[Candidate] = []
        for passage, coverage in self._coverages(question):
            if coverage >= ENOUGH and self._answers(passage, question):
                candidates.append(Candidate(passage, coverage, coverage + _credit(passage, question)))
        return sorted(candidates, key=lambda candidate: -candidate.score)

    def _answers(self, passage: Passage, question: Question) -> bool:
        """Return whether a passage that is about the question can be its answer."""
        return _fits(passage, question)

    def _understand(self, clause: str) -> Question:
        return understand(clause, self.language)

    def _terms(self, text: str) -> frozenset[str]:
        return frozenset(terms(text, self.language))

    def _coverages(self, question: Question) -> Iterator[tuple[Passage, float]]:
        """Yield the passages that share a word with the question, and the share of its weight that each covers."""
        weights = {term: self._weight(term) for term in question.terms}
        for passage in self.library.passages:
            tells = question.kind in values.TELLTALE and values.holds(question.kind, passage.value, question.text)
            if tells or any(term.in_(passage.own) or term.in_(passage.near) for term in question.terms):
                yield passage, self._coverage(passage, question, weights)

    def _coverage(self, passage: Passage, question: Question, weights: Mapping[Term, float]) -> float:
        """Return the share of the question's weight that a passage covers, from 0 to 1."""
        total = sum(weights.values()) or 1.0
        return sum(weights[term] * self._closely(term, passage, question) for term in question.terms) / total

    def _weight(self, term: Term) -> float:
        everywhere = len(self.library.passages) + 1
        frequency = max(self._frequency[stem] for stem in (term.stem, *term.same))
        if not frequency and term.weight < 1:
            return 0.0
        rarity = math.log(1 + everywhere / (1 + frequency)) / math.log(1 + everywhere)
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
        best = max(exact if term.stem in stems else same * bool(term.same & stems) for stems, exact, same in levels)
        shows_itself = question.kind in values.TELLTALE and kind_of(term.word) == question.kind
        return max(best, IMPLIED) if shows_itself else best

    def _closest(self, text: str) -> tuple[RankedStatement, ...]:
        """Return the passages that cover most of a question and share a significant word with it."""
        question = self._understand(text)
        stems = {term.stem for term in question.terms}
        quotes: dict[str, RankedStatement] = {}
        counts = Counter[str]()
        for passage, _ in sorted(self._coverages(question), key=lambda pair: -pair[1]):
            says_more = (
                any(term.weight == 1 and term.in_(passage.own) for term in question.terms) and passage.own - stems
            )
            has_room = len(quotes) < CLOSEST and counts[passage.place.source] < self.closest_of_each
            if says_more and passage.is_whole and has_room:
                quote = shorten(passage.statement, LONGEST, placeholder=" …")
                quotes.setdefault(quote, RankedStatement("", quote, (passage.place,), passage.words))
                counts[passage.place.source] += 1
        return tuple(quotes.values())


def _fits(passage: Passage, question: Question) -> bool:
    """Return whether a passage says more than the question and has a value of the kind that it asks for."""
    words = passage.own
    if passage.kind in ("fact", "cell", "headed"):
        words = frozenset(terms(passage.value, question.language)) or frozenset({passage.value})
    if passage.record is not None and not _is_about(passage, question):
        return False
    if words <= {term.stem for term in question.terms}:
        return False
    if question.asks_to_whom and passage.label.casefold() in SENDER:
        return False
    if question.kind == "done":
        is_short = passage.kind in ("line", "window", "headed")
        return not is_short and all(term.in_(words) for term in question.terms if term.weight == 1)
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
    price_stems = frozenset(stem for term in question.terms if term.weight < 1 for stem in (term.stem, *term.same))
    stems = {term.stem for term in question.terms}
    is_asked = passage.kind == "cell" and bool(passage.label_terms) and passage.label_terms <= stems
    lines = passage.value.split(" · ") if passage.kind == "window" else [passage.value]
    has_sum = any(values.MONEY.search(line) and (len(lines) == 1 or ":" not in line) for line in lines)
    return (has_sum and bool(passage.own & question.said)) or is_asked or bool(passage.label_terms & price_stems)


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
    return credit + _defines(passage, question) + _code_bonus(passage, question)


def _code_bonus(passage: Passage, question: Question) -> float:
    """Return the bonus for a code, such as `KX-4711`, if the question asks for one that it does not contain."""
    if question.kind != "thing" or not _ASKS_FOR_CODE.search(question.text) or passage.kind == "cell":
        return 0.0
    if passage.record and question.said.intersection(terms(" ".join(passage.record.headers), question.language)):
        return 0.0  # the cell below the header is the answer
    return CODED if any(match[0] not in question.text for match in _CODE.finditer(passage.value)) else 0.0


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
    selection = _rows_or_cells(
        _without_repetitions(
            [candidate for candidate in candidates if candidate.score >= least or candidate.says_every_word(question)]
        )
    )
    most = MANY_OF_ALL if _ALL.search(question.text) else MANY
    statements, further = (
        {candidate.passage.statement for candidate in part} for part in (selection[:most], selection[most:])
    )
    return sorted(selection[:most], key=lambda candidate: -round(candidate.score, 1)), len(further - statements)


def _without_repetitions(candidates: list[Candidate]) -> list[Candidate]:
    """Drop repetitions: a paragraph that begins with a label is a fact, and each of its sentences is a passage too.

    The fact is kept if it answers better than any of its sentences.
    """
    sentences = defaultdict[SourcePlace, list[Candidate]](list)
    for candidate in candidates:
        if candidate.passage.kind == "sentence":
            sentences[candidate.passage.place].append(candidate)
    repetitions = set[int]()
    for fact in candidates:
        if fact.passage.kind == "fact":
            parts = [
                candidate
                for candidate in sentences[fact.passage.place]
                if _is_part(candidate.passage.value, fact.passage.statement)
            ]
            best = max((candidate.score for candidate in parts), default=-math.inf)
            repetitions |= {id(fact)} if best >= fact.score else {id(candidate) for candidate in parts}
    return [candidate for candidate in candidates if id(candidate) not in repetitions]


def _rows_or_cells(candidates: list[Candidate]) -> list[Candidate]:
    """Keep either a whole row or the one cell of it that answers, never both."""
    cells = Counter(id(candidate.passage.record) for candidate in candidates if candidate.passage.kind == "cell")
    whole_rows = {
        id(candidate.passage.record)
        for candidate in candidates
        if candidate.passage.kind == "row" and cells[id(candidate.passage.record)] != 1
    }
    return [
        candidate
        for candidate in candidates
        if candidate.passage.record is None
        or (candidate.passage.kind == "row") == (id(candidate.passage.record) in whole_rows)
    ]


def _is_part(text: str, whole: str) -> bool:
    return len(text) < len(whole) and text in whole


def merged(candidates: list[Candidate], language: str) -> tuple[RankedStatement, ...]:
    """Merge candidates into statements: the same words at two places are one statement with two places."""
    statements: dict[str, RankedStatement] = {}
    for candidate in candidates:
        label, value = meaning.label_of(candidate.passage), candidate.passage.value
        key = " ".join(terms(f"{label} {value}", language)) or value
        known = statements[key].places if key in statements else ()
        places = tuple(dict.fromkeys([*known, candidate.passage.place]))
        statements[key] = RankedStatement(label, value, places, candidate.passage.words)
    return tuple(statements.values())


def _in_line(columns: tuple[str, ...], cells: tuple[str, ...]) -> str:
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(columns, cells, strict=True) if cell)


def _of_value(listed: ListedValue) -> RankedStatement:
    """Return a value with the words around it; a labelled value is a statement of its own."""
    passage, places = listed.passage, (listed.passage.place,)
    if passage.kind in ("fact", "cell") or passage.value == listed.value:
        return _statement(passage)
    return RankedStatement("", listed.value, places, quote=_words_around(listed.value, passage.value))


def _with_places(statements: Iterable[RankedStatement]) -> list[RankedStatement]:
    """Return each statement once, with all places where it is made."""
    places: dict[RankedStatement, dict[SourcePlace, None]] = {}
    for statement in statements:
        places.setdefault(replace(statement, places=()), {}).update(dict.fromkeys(statement.places))
    return [replace(statement, places=tuple(where)) for statement, where in places.items()]


def _words_around(value: str, text: str) -> str:
    """Return a text, or of a long one the part around a value."""
    if len(text) <= LONGEST:
        return text
    begin = max(0, text.find(value) - (LONGEST - len(value)) // 2)
    words = text[begin : begin + LONGEST]
    words = words if begin == 0 else f"… {words.partition(' ')[2]}"
    return words if begin + LONGEST >= len(text) else f"{words.rpartition(' ')[0]} …"


def _statement(passage: Passage) -> RankedStatement:
    return RankedStatement(meaning.label_of(passage), passage.value, (passage.place,), passage.words)
