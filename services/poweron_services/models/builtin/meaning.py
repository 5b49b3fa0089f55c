"""Which passages mean what is asked: by the nearness of vectors, whatever the words and the languages are.

How sure an answer has to be, was fitted by logistic regression to the questions of `tests/answers`, and tried on the
English ones of `tests/examples`; docs/answers.md shows the curve and says why English is apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from poweron_services.models.builtin.passages import Passage
from poweron_services.models.builtin.values import TELLTALE, Kind, holds, names_within
from poweron_services.models.embedding.embedder import Embedder, nearness

MOST_COMPARED: Final = 150  # passages: of more, those that share the most words or pieces of words with the question
SHARE: Final = 0.02  # of nearness that it is worth to say all words of the question
NEARNESS: Final = 45.8
"""What it counts for an answer how much nearer it is than the passages around it; likewise"""
LEAD: Final = 62.7
"""how far ahead of the next one it is,"""
WORDS: Final = 1.1
"""how many of the question's words it says,"""
VALUE: Final = 2.0
"""and whether it holds a value of the kind that is asked for;"""
SURE: Final = 5.0
"""what all of that has to come to."""
NAMED: Final = 0.6
"""How much of a question's words the nearest label and its value have to say, for them to be meant."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage, and how near it is to the question."""

    passage: Passage
    cosine: float
    nearness: float
    """How much nearer it is than the mean of all passages."""
    words: float
    """How much of the question's words it says, from 0 to 1."""

    @property
    def score(self) -> float:
        return self.nearness + SHARE * self.words


def ranked(
    embedder: Embedder, question: str, words: Sequence[tuple[Passage, float]], passages: Sequence[Passage]
) -> list[Ranked]:
    """The passages that may be quoted, the nearest first.

    Args:
        embedder: whose vectors they are compared by.
        question: what is asked.
        words: how much of the question's weight passages cover by their words; the others cover none.
        passages: of the documents.
    """
    covered = {id(passage): share for passage, share in words}
    proposed = _proposed(question, covered, [one for one in passages if may_answer(one)])
    if not proposed:
        return []
    asked = embedder.question(question)
    near = [nearness(asked, vector) for vector in embedder.passages([_in_context(one) for one in proposed])]
    mean = sum(near) / len(near)
    found = [
        Ranked(one, value, value - mean, covered.get(id(one), 0.0)) for one, value in zip(proposed, near, strict=True)
    ]
    return sorted(found, key=lambda one: -one.score)


def is_answer(found: Sequence[Ranked], question: str, kind: Kind, language: str) -> bool:
    """Whether the first one answers the question: a sentence does so that is surely meant.

    A cell or a label with a value is as near to a question for something else of the same person or product. For
    English there are so many rules of words that what they find nothing for is seldom said at all.
    """
    first = found[0].passage
    if kind in TELLTALE and not _holds(first, question, kind):
        return False
    if first.kind in ("fact", "cell") and (found[0].words >= NAMED or _names_all(first, question)):
        return _holds(first, question, kind)
    return language != "en" and surety(found, question, kind) >= 0


def _holds(passage: Passage, question: str, kind: Kind) -> bool:
    """Whether the passage holds a value of the kind."""
    return (names_within if kind == "person" else partial(holds, kind))(passage.value, question)


def _names_all(passage: Passage, question: str) -> bool:
    """Whether a question in a script without blanks contains the label and, of a cell, the name of its row."""
    names = [passage.label]
    if passage.record is not None:
        names += [cell for cell in passage.record.cells if cell and cell != passage.value][:1]
    return (
        not all(map(str.isascii, question)) and " " not in question and all(name and name in question for name in names)
    )


def surety(found: Sequence[Ranked], question: str, kind: Kind) -> float:
    """The logarithm of the odds that the first one is an answer; below 0 it may be none."""
    first = found[0]
    others = (
        one for one in found[1:] if first.passage.record is None or one.passage.record is not first.passage.record
    )
    second = next(others, None)
    lead = first.score - second.score if second else first.score
    value = VALUE * _holds(first.passage, question, kind)
    return NEARNESS * first.nearness + LEAD * lead + WORDS * first.words + value - SURE


def may_answer(passage: Passage) -> bool:
    return passage.kind == "cell" or (passage.is_whole and passage.kind != "row")


def _proposed(question: str, covered: Mapping[int, float], passages: Sequence[Passage]) -> Sequence[Passage]:
    if len(passages) <= MOST_COMPARED:
        return passages
    asked = _pieces(question)

    def shared(passage: Passage) -> float:
        return covered.get(id(passage), 0.0) + len(asked & _pieces(passage.statement)) / (len(asked) or 1)

    return sorted(passages, key=shared, reverse=True)[:MOST_COMPARED]


def _pieces(text: str) -> frozenset[str]:
    """Three letters each, so that words in any form and scripts without blanks have some in common."""
    plain = " ".join(text.casefold().split())
    return frozenset(plain[at : at + 3] for at in range(len(plain) - 2))


def _in_context(passage: Passage) -> str:
    return f"{passage.heading}: {shown(passage)}" if passage.heading else shown(passage)


def shown(passage: Passage) -> str:
    """What it says in one line; a cell is named by its row and its column."""
    label = label_of(passage)
    return f"{label}: {passage.value}" if label else passage.value


def label_of(passage: Passage) -> str:
    """The label to show; that of a cell is its row and its column."""
    if passage.record is None or passage.kind == "row":
        return passage.label
    others = [cell for cell in passage.record.cells if cell and cell != passage.value]
    return ", ".join(part for part in (*others[:1], passage.label) if part)
