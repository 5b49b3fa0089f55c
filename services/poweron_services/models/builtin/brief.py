"""Summaries that quote a few sentences of each document: those that cover most of its content without repetition.

Sentences with words that a document uses often weigh more. If there is an embedder, their vectors are compared. The
chosen sentences appear in document order. A book is summarised by one sentence per chapter; a document without
sentences, such as a form or a table, by its main facts.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from poweron_services.models.builtin.comparison import is_total
from poweron_services.models.builtin.passages import Library, Passage
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.sources import APPARATUS, SourcePlace
from poweron_services.models.builtin.table_cells import SourceTable
from poweron_services.models.embedding.embedder import Embedder, Vector, nearness

FEWEST, MOST = 3, 8  # sentences
SENTENCES_PER: Final = 5  # sentences of a document that add one to its summary
MOST_COMPARED: Final = 60  # sentences that are compared with each other
SHORTEST, LONGEST = 5, 60  # words of a self-contained sentence
BOOK, CHAPTERS = 12, 24  # sections that make a document a book, and the most that its summary shows
BOOK_SENTENCES: Final = 150
ALIKE: Final = 0.5  # penalty for a sentence that resembles a chosen one
FIRST: Final = 0.25  # bonus for the first sentence of a section
NUMBERED: Final = 0.15  # bonus for a sentence with a number, a date or a sum
CROWDED: Final = 0.35  # penalty for each sentence already chosen from the same section
FACTS, SHORT_FACT = 5, 80  # facts of a document, and characters of one fact
CELLS: Final = 6  # cells of a row that a summary shows


_ASKS: Final = re.compile("[?\uff1f\u061f:]$")
_DIGIT: Final = re.compile(r"\d")


class _Weighed(NamedTuple):
    passage: Passage
    weight: float


def brief(held: Library, topic: frozenset[str], language: str, embedder: Embedder | None = None) -> str:
    """Summarise documents one by one, in 3 to 8 sentences each, plus the main facts of tables and forms.

    Args:
        held: the documents.
        topic: the words of the topic to summarise; empty for all of the content.
        language: the two-letter code of the language of the words.
        embedder: its vectors show which sentences mean the same.
    """
    documents = [list(found) for _, found in groupby(held.passages, key=lambda one: one.place.document)]
    most = MOST if len(documents) == 1 else max(FEWEST, MOST // len(documents))
    written: list[str] = []
    for passages in documents:
        facts = "" if topic else _facts(passages)
        chosen = _sentences(passages, topic, most - bool(facts), embedder)
        tables = _tables(held, passages[0].place.document) if len(chosen) < FEWEST and not topic else []
        lines = [*filter(None, [facts]), *chosen, *tables]
        written += [f"**{passages[0].place.document}**"] if len(documents) > 1 and lines else []
        written += ["\n".join(f"- {line}" for line in lines)] if lines else []
    return "\n\n".join(written) or say("nothing", language)


def _sentences(passages: Sequence[Passage], topic: frozenset[str], most: int, embedder: Embedder | None) -> list[str]:
    """Choose the sentences that represent a document, in its order, each with the sentence that continues it."""
    sentences = _on_topic([one for one in passages if _stands_alone(one)], topic)
    if not sentences:
        return []
    weighed = _weighed(sentences)
    is_book = len({one.place for one in sentences}) >= BOOK and len(sentences) >= BOOK_SENTENCES and not topic
    if is_book:
        by_section = groupby(weighed, key=lambda one: one.passage.place)
        chosen = [max(of_one, key=lambda one: one.weight).passage for _, of_one in by_section][:CHAPTERS]
    else:
        count = min(most, FEWEST + len(sentences) // SENTENCES_PER, len(sentences))
        compared = sorted(weighed, key=lambda one: -one.weight)[:MOST_COMPARED]
        chosen = sorted(_unlike(compared, count, _likeness(compared, embedder)), key=lambda one: one.order)
    leaning = (one for one in passages if one.kind == "sentence" and one.goes_on and not _ASKS.search(one.value))
    going_on = {(one.place, one.order): one.value for one in leaning}
    return [_told(one, going_on.get((one.place, one.order + 1), "")) for one in chosen]


def _on_topic(sentences: list[Passage], topic: frozenset[str]) -> list[Passage]:
    """Keep the sentences that share the most words with the topic, themselves or through their heading."""
    said = [len(topic & (one.own | one.near)) for one in sentences]
    return [one for one, count in zip(sentences, said, strict=True) if count == max(said)]


def _stands_alone(passage: Passage) -> bool:
    """Return whether a passage is a self-contained sentence: not a question, a heading or a continuation."""
    words = passage.value.split()
    ends = passage.value.rstrip("\"”'").endswith((".", "\u3002"))
    is_sentence = passage.kind == "sentence" or (passage.kind == "line" and ends)
    no_blanks = not passage.value.isascii() and len(words) < SHORTEST and len(passage.value) >= 2 * SHORTEST
    return (
        is_sentence
        and (SHORTEST <= len(words) <= LONGEST or no_blanks)
        and not passage.value[0].islower()
        and "@" not in passage.value
        and not _ASKS.search(passage.value)
        and not passage.goes_on
        and not APPARATUS.search(passage.heading)
    )


def _weighed(sentences: Sequence[Passage]) -> list[_Weighed]:
    """Weigh sentences by their share of frequent words, relative to their length."""
    often = Counter(term for one in sentences for term in one.own)
    seen = set[tuple[SourcePlace, str]]()
    found = []
    for one in sentences:
        said = sum(math.log(1 + often[term]) for term in one.own) / (len(one.own) + 5)
        is_first = (one.place, one.heading) not in seen
        seen.add((one.place, one.heading))
        found.append(_Weighed(one, said + FIRST * is_first + NUMBERED * bool(_DIGIT.search(one.value))))
    return found


def _likeness(compared: Sequence[_Weighed], embedder: Embedder | None) -> Callable[[int, int], float]:
    """Return a function that says how alike two of the sentences are, from 0 to 1."""
    if embedder is None:
        words = [one.passage.own for one in compared]
        return lambda one, other: len(words[one] & words[other]) / (len(words[one] | words[other]) or 1)
    vectors: list[Vector] = embedder.passages([one.passage.value for one in compared])
    least = min(nearness(vectors[0], other) for other in vectors)
    return lambda one, other: (nearness(vectors[one], vectors[other]) - least) / (1 - least or 1)


def _unlike(compared: Sequence[_Weighed], count: int, likeness: Callable[[int, int], float]) -> list[Passage]:
    """Choose the heaviest sentences that differ most from those already chosen (maximal marginal relevance)."""
    chosen: list[int] = []
    left = list(range(len(compared)))

    def worth(at: int) -> float:
        alike = max((likeness(at, one) for one in chosen), default=0.0)
        crowd = sum(compared[one].passage.place == compared[at].passage.place for one in chosen)
        return compared[at].weight - ALIKE * alike - CROWDED * crowd

    while left and len(chosen) < count:
        best = max(left, key=worth)
        chosen.append(best)
        left.remove(best)
    return [compared[at].passage for at in chosen]


def _told(passage: Passage, going_on: str = "") -> str:
    return f"{' '.join(filter(None, (passage.value, going_on)))} — {passage.place}"


def _facts(passages: Sequence[Passage]) -> str:
    """Return the first labels and values of a form, and its total; "" if the document is not a form."""
    short = [one for one in passages if one.kind == "fact" and len(one.value) <= SHORT_FACT]
    if len(short) < FEWEST:
        return ""
    totals = [one for one in short if is_total(one.label)]
    told = dict.fromkeys([*short[: FACTS - len(totals[-1:])], *totals[-1:]])
    return f"{'; '.join(f'{one.label}: {one.value}' for one in told)} — {short[0].place}"


def _tables(held: Library, document: str) -> list[str]:
    tables = [one for one in held.tables if one.place.document == document]
    return list(map(_of_table, sorted(tables, key=lambda one: -len(one.records))[:FACTS]))


def _of_table(table: SourceTable) -> str:
    """Describe a table by its columns, its number of rows, and its last row, which holds the total if there is one."""
    last = "; ".join(f"{name}: {cell}" for name, cell in table.records[-1].filled[:CELLS])
    columns = ", ".join(filter(None, table.headers[:CELLS]))
    return f"**{columns}** ({len(table.records)}) … {last} — {table.place}"
