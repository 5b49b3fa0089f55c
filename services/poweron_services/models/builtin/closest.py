"""Where nothing answers: the passages closest to the question, for a person to judge.

They are never an answer. A passage is close when it shares a word that matters with the question: the
word itself, its beginning, or one of similar meaning.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Final

from poweron_services.models.builtin import kinds, values
from poweron_services.models.builtin.passages import Library, Passage, Place
from poweron_services.models.builtin.question import GENERIC_WEIGHT, KIND_WEIGHT, Question, Term
from poweron_services.models.builtin.words import stem

MOST = 3  # passages
LONGEST = 300  # characters of a quote
POOL = 200  # passages that are looked at again
AS_CLOSE = 0.2  # of the best one's score, for another to be shown
SAME, SIMILAR, BEGINNING = 0.8, 0.7, 0.7  # what a word counts that is not the word itself
NEAR, AROUND = 0.4, 0.15  # what it counts beside a passage, and elsewhere in its section
NAMED = 2.0  # what a name or a number of the question weighs
SAID = 0.4  # what a word still weighs that a passage chosen before says
BARE = 0.6  # what a line counts that is no sentence
FITTING = 1.5  # for a value of the kind that is asked for
SHORTEST = 4  # characters of a beginning

_SIMILAR: Final = (
    "absent absence excused missing apologies apologised away abwesend entschuldigt",
    "valid hold holds binding effective expire expires validity gültig gilt bindend",
    "object objection oppose disagree refuse decline otherwise widersprechen widerspruch einspruch",
    "hot hottest warm warmest heat temperature heiß heißeste wärmste temperatur",
    "cold coldest cool coolest temperature kalt kälteste temperatur",
    "car vehicle auto make model fahrzeug wagen",
    "picture image photo photograph bild foto",
    "hotel accommodation lodging room übernachtung unterkunft",
    "lend lent loan borrow borrowed leihen geliehen ausgeliehen",
    "sick sickness ill illness krank krankheit",
    "fire dismiss dismissal terminate termination kündigung entlassung",
    "hire hired recruit join joined eingestellt",
    "boss manager head lead supervisor chef leiter leitung",
    "broken damage damaged defect defective kaputt defekt schaden",
    "money sum total amount paid geld summe betrag",
    "cheap cheapest expensive price cost billig teuer preis",
    "stay night overnight übernachten nacht",
    "late delay delayed overdue verspätet verzug",
    "allow allowed permit permitted may forbidden prohibited erlaubt verboten",
)


@dataclass(frozen=True, slots=True)
class Close:
    """A quote that shares words with the question, and where it stands."""

    quote: str
    place: Place


def closest(held: Library, question: Question, frequency: Counter[str]) -> tuple[Close, ...]:
    """The passages closest to the question; none where no word that matters is shared.

    The second and third are chosen for the words that the ones before do not say.
    """
    terms_asked = [term for term in question.terms if term.weight > GENERIC_WEIGHT]
    wanted = [_Wanted(term, question.language, frequency, len(held.passages)) for term in terms_asked]
    if not any(one.matters for one in wanted):
        return ()
    scored = [(_score(one, wanted, question, held), one) for one in held.passages if _can_be_quoted(one, question)]
    pool = [one for _, one in sorted((each for each in scored if each[0]), key=lambda each: -each[0])[:POOL]]
    found: dict[str, Place] = {}
    best = 0.0
    while pool and len(found) < MOST:
        score, nearest = max(((_score(one, wanted, question, held), one) for one in pool), key=lambda each: each[0])
        best = best or score
        if score < best * AS_CLOSE:
            break
        found[_quote(nearest)] = nearest.place
        pool = [one for one in pool if not any(one.value in quote for quote in found)]
        for one in wanted:
            one.say_again(nearest.own)
    return tuple(Close(quote, place) for quote, place in found.items())


class _Wanted:
    """A word of the question, and which words of the documents come close to it."""

    def __init__(self, term: Term, language: str, frequency: Counter[str], passages: int) -> None:
        similar = _similar(language).get(term.stem, frozenset())
        self.matters = term.weight > KIND_WEIGHT
        self.close = {word: how for word in frequency if (how := _closeness(word, term, similar))}
        seen = max((frequency[word] for word in self.close), default=0)
        rarity = math.log(1 + (passages + 1) / (1 + seen)) / math.log(2 + passages)
        self.weight = term.weight * (0.5 + 0.5 * rarity) * (NAMED if term.is_name else 1.0)

    def say_again(self, words: frozenset[str]) -> None:
        """The word matters less once a passage that is shown says it."""
        if self.in_(words):
            self.weight *= SAID

    def in_(self, words: frozenset[str]) -> float:
        """What the word counts in a set of words."""
        return max((self.close[word] for word in self.close.keys() & words), default=0.0)


def _closeness(word: str, term: Term, similar: frozenset[str]) -> float:
    if word == term.stem:
        return 1.0
    if word in term.same:
        return SAME
    if word in similar:
        return SIMILAR
    shorter, longer = sorted((word, term.stem), key=len)
    begins = len(shorter) >= SHORTEST and shorter.isalpha() and longer.isalpha() and longer.startswith(shorter)
    return BEGINNING if begins and not term.is_name else 0.0


def _score(passage: Passage, wanted: list[_Wanted], question: Question, held: Library) -> float:
    own = [(one, one.in_(passage.own)) for one in wanted]
    if not any(said and one.matters for one, said in own):
        return 0.0
    near, section = passage.near | passage.mates, held.around[passage.place].section
    total = sum(one.weight * max(said, NEAR * one.in_(near), AROUND * one.in_(section)) for one, said in own)
    total *= BARE if passage.kind == "line" else 1.0
    return total * (FITTING if _is_of_the_kind(passage, question) else 1.0)


def _is_of_the_kind(passage: Passage, question: Question) -> bool:
    if question.kind not in values.TYPED:
        return False
    if question.kind == "amount" and kinds.asks_for_money(question.text):
        return values.holds_money(passage.value)
    return values.holds(question.kind, passage.value, question.text)


def _can_be_quoted(passage: Passage, question: Question) -> bool:
    """Whether a passage is short and whole, no heading, and says more than the question."""
    if not passage.own - {term.stem for term in question.terms}:
        return False
    is_title = passage.kind == "line" and passage.value.rstrip(": ") == passage.heading
    return passage.kind in ("fact", "row", "sentence", "line") and not is_title


def _quote(passage: Passage) -> str:
    text = passage.statement
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2].rsplit(' ', 1)[0]} …"


@cache
def _similar(language: str) -> dict[str, frozenset[str]]:
    """For a stem the stems of similar meaning: too loose for an answer, close enough to be looked at."""
    groups: dict[str, frozenset[str]] = {}
    for line in _SIMILAR:
        stems = frozenset(stem(word, language) for word in line.split())
        for one in stems:
            groups[one] = groups.get(one, frozenset()) | stems
    return groups
