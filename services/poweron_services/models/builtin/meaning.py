"""Passages ranked by meaning: vectors show how near a passage is to a question, across wordings and languages.

The weights that decide whether a passage is an answer were fitted by logistic regression to the questions of
`tests/answers` and tested on the English ones of `tests/examples`; docs/answers.md shows the curve and explains why
English is treated separately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from poweron_services.models.builtin.passages import Passage
from poweron_services.models.builtin.values import TELLTALE, Kind, holds, names_within
from poweron_services.models.embedding.embedder import Embedder, nearness

MOST_COMPARED: Final = 150  # passages; of more, those that share the most words or letters with the question
SHARE: Final = 0.02  # bonus in nearness for a passage with all words of the question
NEARNESS: Final = 45.8
"""The weight of how much nearer the first passage is to the question than the mean of all passages."""
LEAD: Final = 62.7
"""The weight of its lead over the next passage."""
WORDS: Final = 1.1
"""The weight of the share of the question's words that it contains."""
VALUE: Final = 2.0
"""The weight of a value of the kind that the question asks for."""
SURE: Final = 5.0
"""The sum that these must reach for the passage to be an answer."""
NAMED: Final = 0.6
"""The share of a question's words that the nearest label and its value must contain to be the answer."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage and its nearness to the question."""

    passage: Passage
    cosine: float
    nearness: float
    """The cosine minus the mean of all compared passages."""
    words: float
    """The share of the question's words that the passage contains, from 0 to 1."""

    @property
    def score(self) -> float:
        return self.nearness + SHARE * self.words


def ranked(
    embedder: Embedder, question: str, words: Sequence[tuple[Passage, float]], passages: Sequence[Passage]
) -> list[Ranked]:
    """Rank the passages that may be quoted, nearest first.

    Args:
        embedder: provides the vectors.
        question: the question.
        words: the share of the question's weight that passages cover by their words; all others cover none.
        passages: the passages of the documents.
    """
    coverage = {id(passage): share for passage, share in words}
    candidates = _candidates(question, coverage, [passage for passage in passages if may_answer(passage)])
    if not candidates:
        return []
    question_vector = embedder.question(question)
    scores = [
        nearness(question_vector, vector)
        for vector in embedder.passages([_in_context(passage) for passage in candidates])
    ]
    mean = sum(scores) / len(scores)
    ranking = [
        Ranked(passage, value, value - mean, coverage.get(id(passage), 0.0))
        for passage, value in zip(candidates, scores, strict=True)
    ]
    return sorted(ranking, key=lambda entry: -entry.score)


def is_answer(ranking: Sequence[Ranked], question: str, kind: Kind, language: str) -> bool:
    """Return whether the first passage answers the question; a sentence must be a sure match.

    A cell or a labelled value may be just as near to a question about something else of the same person or product, so
    the words decide first. The rules about words are so extensive for English that documents seldom answer a question
    for which they find nothing.
    """
    first = ranking[0].passage
    if kind in TELLTALE and not _holds(first, question, kind):
        return False
    if first.kind in ("fact", "cell") and (ranking[0].words >= NAMED or _names_all(first, question)):
        return _holds(first, question, kind)
    return language != "en" and surety(ranking, question, kind) >= 0


def _holds(passage: Passage, question: str, kind: Kind) -> bool:
    """Return whether the passage contains a value of the kind."""
    return (names_within if kind == "person" else partial(holds, kind))(passage.value, question)


def _names_all(passage: Passage, question: str) -> bool:
    """Return whether a question in a script without spaces contains the label and, for a cell, the name of its row."""
    names = [passage.label]
    if passage.record is not None:
        names += [cell for cell in passage.record.cells if cell and cell != passage.value][:1]
    return (
        not all(map(str.isascii, question)) and " " not in question and all(name and name in question for name in names)
    )


def surety(ranking: Sequence[Ranked], question: str, kind: Kind) -> float:
    """Return the log odds that the first passage is an answer; below 0 it may not be one."""
    first = ranking[0]
    others = (
        entry
        for entry in ranking[1:]
        if first.passage.record is None or entry.passage.record is not first.passage.record
    )
    second = next(others, None)
    lead = first.score - second.score if second else first.score
    value = VALUE * _holds(first.passage, question, kind)
    return NEARNESS * first.nearness + LEAD * lead + WORDS * first.words + value - SURE


def may_answer(passage: Passage) -> bool:
    return passage.kind == "cell" or (passage.is_whole and passage.kind != "row")


def _candidates(question: str, coverage: Mapping[int, float], passages: Sequence[Passage]) -> Sequence[Passage]:
    if len(passages) <= MOST_COMPARED:
        return passages
    pieces = _pieces(question)

    def shared(passage: Passage) -> float:
        return coverage.get(id(passage), 0.0) + len(pieces & _pieces(passage.statement)) / (len(pieces) or 1)

    return sorted(passages, key=shared, reverse=True)[:MOST_COMPARED]


def _pieces(text: str) -> frozenset[str]:
    """Return the trigrams of a text: inflected words, and texts in scripts without spaces, share some of them."""
    plain = " ".join(text.casefold().split())
    return frozenset(plain[at : at + 3] for at in range(len(plain) - 2))


def _in_context(passage: Passage) -> str:
    return f"{passage.heading}: {shown(passage)}" if passage.heading else shown(passage)


def shown(passage: Passage) -> str:
    """Return the passage as one line; a cell is named by its row and its column."""
    label = label_of(passage)
    return f"{label}: {passage.value}" if label else passage.value


def label_of(passage: Passage) -> str:
    """Return the label to show; for a cell, its row and its column."""
    if passage.record is None or passage.kind == "row":
        return passage.label
    others = [cell for cell in passage.record.cells if cell and cell != passage.value]
    return ", ".join(part for part in (*others[:1], passage.label) if part)
