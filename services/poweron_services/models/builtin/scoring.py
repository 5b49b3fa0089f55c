"""Which of the passages that answer does it best."""

import re
from itertools import pairwise
from typing import Final

from poweron_services.models.builtin import values
from poweron_services.models.builtin.kinds import Kind
from poweron_services.models.builtin.passages import Passage
from poweron_services.models.builtin.question import Question
from poweron_services.models.builtin.vocabulary import words_in
from poweron_services.models.builtin.words import stem, terms

_PRIOR: Final = {"fact": 0.06, "cell": 0.0, "row": 0.03, "sentence": 0.0, "line": 0.0, "window": -0.06, "headed": -0.16}
_TELLING_LABELS: Final = words_in("note description work summary remark comment detail bemerkung beschreibung")
_BY_SOMEBODY = re.compile(r"\b(?:by|von|durch) [A-ZÄÖÜ]|\bby$")
_SOMEWHERE = re.compile(
    r"\b(?:in|at|near|from) (?!(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))[A-ZÄÖÜ][a-zäöü]+"
)
_ASKS_FOR_YEAR = re.compile(r"\b(?:years?|jahre?|month|monat)\b", re.IGNORECASE)
_ASKS_WHICH = re.compile(
    r"\W*(?:which|who|welche\w?|wer)\b(?! (?:year|number|jahr|zahl|nummer|version))", re.IGNORECASE
)
_MAYBE = re.compile(r"\b(?:may|might|can|could|if|kann|könnte|falls)\b", re.IGNORECASE)
_REFERENCES = re.compile(
    r"\b(?:references|footnotes|bibliography|see also|external links|literatur|einzelnachweise)$", re.IGNORECASE
)
_BECAUSE = re.compile(
    r"\b(?:because|since|due to|so that|in order to|as a result|weil|da|wegen|aufgrund|damit)\b", re.IGNORECASE
)


EARLY = 0.08  # what the first sentence of a document has ahead of the last
_DEFINITIONS: Final = (
    (
        r"^(?:the |an? |die |der |das )?{word}\b[^,.;]{{0,25}}? (?:is|are|was|were|stands? for|means?|ist|sind|war)\b",
        0.3,
    ),
    (r"\b{word},? (?:is |which is )?(?:an? |the |ein |eine |der |die |das )", 0.22),
    (r"\w \({word}\)", 0.2),
    (r"^(?:The |An? )?{word}\b", 0.08),
)


def bonus(passage: Passage, question: Question, hit: float) -> float:
    """What a passage has ahead of others that cover the question as well; `hit` is its BM25 rank from 0 to 1."""
    credit = _PRIOR[passage.kind] + 0.08 * hit
    asked = {one for term in question.terms for one in (term.stem, *term.same)}
    if passage.kind == "headed":
        credit += 0.12 * _share(passage.label_terms, asked)
    if passage.record is not None and _share(_row_name(passage, question), asked) == 1:
        credit += 0.12
    if passage.label_terms and passage.kind in ("fact", "cell", "headed", "window"):
        credit += 0.22 * _share(passage.label_terms, asked)
    if passage.kind == "sentence":
        credit += 0.1 * min(1.0, 12 / (len(passage.sequence) + 1)) + _phrases(passage, question)
    if question.in_table and (passage.record or passage.mates):
        credit += 0.15
    if _REFERENCES.search(passage.heading) or passage.value.startswith("^"):
        credit -= 0.2
    if passage.kind in ("sentence", "line"):
        credit += 0.15 * (_share(frozenset(terms(passage.heading, question.language)), asked) == 1)
    if passage.kind == "line" and passage.value.rstrip(": ") == passage.heading:
        credit -= 0.15
    first = next((term for term in question.terms if term.weight == 1 and not term.is_name), None)
    if first is not None and ({first.stem, *first.same} & passage.own):
        credit += 0.06
    if _ASKS_WHICH.match(question.text) and passage.kind == "fact" and values.is_number(passage.value):
        credit -= 0.3
    if _ASKS_WHICH.match(question.text) and passage.kind == "row":
        credit += 0.08
    credit += 0.06 * _word_for_word(passage, question)
    return credit + _by_kind(passage, question) + _only_one_in_its_row(passage, question)


def _row_name(passage: Passage, question: Question) -> frozenset[str]:
    assert passage.record is not None
    cells = (*passage.record.inherited, *passage.record.cells)
    return frozenset(terms(next(filter(None, cells), ""), question.language))


def _share(label: frozenset[str], asked: set[str]) -> float:
    """How much of a label the question says."""
    return len(label & asked) / len(label) if label else 0.0


def _word_for_word(passage: Passage, question: Question) -> float:
    """How many of the words that matter stand there exactly as they were asked."""
    said = set(re.findall(r"\w+", passage.statement.casefold()))
    words = [term.word.casefold() for term in question.terms if term.weight == 1]
    return sum(word in said for word in words) / len(words) if words else 0.0


def _phrases(passage: Passage, question: Question) -> float:
    if not question.bigrams:
        return 0.0
    here = set(pairwise(passage.sequence))
    return 0.1 * len(here & question.bigrams) / len(question.bigrams)


def _only_one_in_its_row(passage: Passage, question: Question) -> float:
    """Credit for the one cell of a row that holds what is asked for."""
    if passage.kind != "cell" or passage.record is None or question.kind not in values.TYPED:
        return 0.0
    fitting = [cell for _, cell in passage.record.filled if values.holds(question.kind, cell, question.text)]
    return 0.08 if fitting == [passage.value] else 0.0


def _by_kind(passage: Passage, question: Question) -> float:
    text = passage.statement
    credit: dict[Kind, float] = {
        "amount": 0.1 * values.holds_money(passage.value),
        "person": 0.1 * bool(_BY_SOMEBODY.search(text) or _BY_SOMEBODY.search(passage.label))
        + 0.2 * _has_role(text, question),
        "date": 0.1 * (values.holds_calendar_date(passage.value) and not _ASKS_FOR_YEAR.search(question.text)),
        "place": 0.1 * bool(_SOMEWHERE.search(passage.value)) + 0.2 * values.holds("address", text, question.text),
        "identifier": 0.05 * (passage.kind == "line"),
        "reason": 0.1 * bool(_BECAUSE.search(text)),
    }
    match question.kind:
        case "definition" | "thing" if question.subject:
            return _defines(question.subject, passage)
        case "done":
            return _for_what_was_done(passage, question)
        case kind:
            return credit.get(kind, 0.0)


def _has_role(text: str, question: Question) -> bool:
    """Whether what is asked for stands in brackets behind a name."""
    roles = re.findall(r"[A-ZÄÖÜ][\w.-]+ \(([^)]*)\)", text)
    asked = {term.stem for term in question.terms if term.weight == 1 and not term.is_name}
    return any(asked & set(terms(role, question.language)) for role in roles)


def _for_what_was_done(passage: Passage, question: Question) -> float:
    told = {stem(word, question.language) for word in _TELLING_LABELS} & passage.label_terms
    exact = any(term.word.casefold() in passage.statement.casefold() for term in question.terms)
    return 0.15 * bool(told) + 0.1 * exact - 0.2 * bool(_MAYBE.search(passage.statement))


def _defines(word: str, passage: Passage) -> float:
    """Credit for a sentence that says what something is: best at the beginning of a document."""
    flags = re.NOFLAG if word.isupper() else re.IGNORECASE
    patterns = ((pattern.format(word=re.escape(word)), credit) for pattern, credit in _DEFINITIONS)
    best = max((credit for pattern, credit in patterns if re.search(pattern, passage.value, flags)), default=0.0)
    return best + (EARLY / (1 + passage.order / 20) if passage.kind == "sentence" else 0.0)
