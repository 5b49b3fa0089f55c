"""How closely a passage is connected with a word of the question."""

from typing import Final

from poweron_services.models.builtin import kinds, values
from poweron_services.models.builtin.passages import Around, Passage
from poweron_services.models.builtin.question import Question, Term

OWN: Final = 1.0  # the passage says the word itself
OWN_SAME: Final = 0.92  # … or one that means the same
NEAR: Final = 0.85  # it stands under it, or beside it
MATES: Final = 0.8  # another value of its record says it
TITLE: Final = 0.75  # the document is about it
ALONE: Final = 0.7  # its page or section is the only one that says the name
SECTION: Final = 0.35  # its page or section says it somewhere
DOCUMENT: Final = 0.1  # the document says it somewhere
SAME_ELSEWHERE: Final = 0.85  # how much of that a word counts that only means the same
IMPLIED: Final = 0.8  # a word for the kind of value, where such a value stands


def covered(term: Term, passage: Passage, around: Around, question: Question) -> float:
    """How closely, from 0 to 1."""
    strict = question.kind in ("phone", "email") or (term.is_name and term.stem in passage.table)
    section, mates = (0.0, 0.0) if strict else (SECTION, MATES)
    alone = ALONE if term.is_name and not strict and passage.kind in ("fact", "cell", "row") else 0.0
    title = TITLE if question.kind not in ("phone", "email") else SECTION
    levels = (
        (passage.own, OWN, OWN_SAME),
        (passage.near, NEAR, NEAR * SAME_ELSEWHERE),
        (passage.mates, mates, mates * SAME_ELSEWHERE),
        (around.titles, title, title * SAME_ELSEWHERE),
        (around.alone, alone, alone),
        (around.section, section, section * SAME_ELSEWHERE),
        (around.document, DOCUMENT, DOCUMENT),
    )
    best = max(level(term, words, exact, same) for words, exact, same in levels)
    implied = term.weight < 1 and question.kind in values.TYPED and _shows_kind(passage, question)
    return max(best, IMPLIED) if implied or names_the_kind(term, question) else best


def level(term: Term, words: frozenset[str], exact: float, same: float) -> float:
    """What a word counts in a set of words."""
    if term.stem in words:
        return exact
    return same if term.same & words else 0.0


def names_the_kind(term: Term, question: Question) -> bool:
    """Whether a word only names the kind of value, which a value of the kind then shows by itself."""
    return question.kind in kinds.TELLTALE and kinds.kind_of(term.word) == question.kind


def _shows_kind(passage: Passage, question: Question) -> bool:
    return question.kind != "amount" or values.holds_money(passage.value) or passage.kind in ("fact", "cell")
