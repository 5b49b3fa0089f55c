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


class _WeightedSentence(NamedTuple):
    passage: Passage
    weight: float


def brief(library: Library, topic: frozenset[str], language: str, embedder: Embedder | None = None) -> str:
    """Summarise documents one by one, in 3 to 8 sentences each, plus the main facts of tables and forms.

    Args:
        library: the documents.
        topic: the words of the topic to summarise; empty for all of the content.
        language: the two-letter code of the language of the words.
        embedder: its vectors show which sentences mean the same.
    """
    documents = [list(group) for _, group in groupby(library.passages, key=lambda passage: passage.place.document)]
    most = MOST if len(documents) == 1 else max(FEWEST, MOST // len(documents))
    paragraphs: list[str] = []
    for passages in documents:
        facts = "" if topic else _facts(passages)
        sentences = _sentences(passages, topic, most - bool(facts), embedder)
        tables = _tables(library, passages[0].place.document) if len(sentences) < FEWEST and not topic else []
        lines = [*filter(None, [facts]), *sentences, *tables]
        paragraphs += [f"**{passages[0].place.document}**"] if len(documents) > 1 and lines else []
        paragraphs += ["\n".join(f"- {line}" for line in lines)] if lines else []
    return "\n\n".join(paragraphs) or say("nothing", language)


def _sentences(passages: Sequence[Passage], topic: frozenset[str], most: int, embedder: Embedder | None) -> list[str]:
    """Choose the sentences that represent a document, in its order, each with the sentence that continues it."""
    sentences = _on_topic([passage for passage in passages if _stands_alone(passage)], topic)
    if not sentences:
        return []
    candidates = _weigh(sentences)
    is_book = len({sentence.place for sentence in sentences}) >= BOOK and len(sentences) >= BOOK_SENTENCES and not topic
    if is_book:
        by_section = groupby(candidates, key=lambda candidate: candidate.passage.place)
        selection = [
            max(section_candidates, key=lambda candidate: candidate.weight).passage
            for _, section_candidates in by_section
        ][:CHAPTERS]
    else:
        count = min(most, FEWEST + len(sentences) // SENTENCES_PER, len(sentences))
        heaviest = sorted(candidates, key=lambda candidate: -candidate.weight)[:MOST_COMPARED]
        selection = sorted(
            _diverse_passages(heaviest, count, _likeness(heaviest, embedder)), key=lambda passage: passage.order
        )
    followers = (
        passage
        for passage in passages
        if passage.kind == "sentence" and passage.goes_on and not _ASKS.search(passage.value)
    )
    continuations = {(passage.place, passage.order): passage.value for passage in followers}
    return [_statement(passage, continuations.get((passage.place, passage.order + 1), "")) for passage in selection]


def _on_topic(sentences: list[Passage], topic: frozenset[str]) -> list[Passage]:
    """Keep the sentences that share the most words with the topic, themselves or through their heading."""
    counts = [len(topic & (sentence.own | sentence.near)) for sentence in sentences]
    return [sentence for sentence, count in zip(sentences, counts, strict=True) if count == max(counts)]


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


def _weigh(sentences: Sequence[Passage]) -> list[_WeightedSentence]:
    """Weigh sentences by their share of frequent words, relative to their length."""
    often = Counter(term for sentence in sentences for term in sentence.own)
    seen = set[tuple[SourcePlace, str]]()
    candidates = []
    for sentence in sentences:
        total = sum(math.log(1 + often[term]) for term in sentence.own) / (len(sentence.own) + 5)
        is_first = (sentence.place, sentence.heading) not in seen
        seen.add((sentence.place, sentence.heading))
        candidates.append(
            _WeightedSentence(sentence, total + FIRST * is_first + NUMBERED * bool(_DIGIT.search(sentence.value)))
        )
    return candidates


def _likeness(candidates: Sequence[_WeightedSentence], embedder: Embedder | None) -> Callable[[int, int], float]:
    """Return a function that says how alike two of the sentences are, from 0 to 1."""
    if embedder is None:
        words = [candidate.passage.own for candidate in candidates]
        return lambda first, second: len(words[first] & words[second]) / (len(words[first] | words[second]) or 1)
    vectors: list[Vector] = embedder.passages([candidate.passage.value for candidate in candidates])
    least = min(nearness(vectors[0], vector) for vector in vectors)
    return lambda first, second: (nearness(vectors[first], vectors[second]) - least) / (1 - least or 1)


def _diverse_passages(
    candidates: Sequence[_WeightedSentence], count: int, likeness: Callable[[int, int], float]
) -> list[Passage]:
    """Choose the heaviest sentences that differ most from those already chosen (maximal marginal relevance)."""
    picks: list[int] = []
    left = list(range(len(candidates)))

    def worth(at: int) -> float:
        alike = max((likeness(at, pick) for pick in picks), default=0.0)
        crowd = sum(candidates[pick].passage.place == candidates[at].passage.place for pick in picks)
        return candidates[at].weight - ALIKE * alike - CROWDED * crowd

    while left and len(picks) < count:
        best = max(left, key=worth)
        picks.append(best)
        left.remove(best)
    return [candidates[at].passage for at in picks]


def _statement(passage: Passage, continuation: str = "") -> str:
    return f"{' '.join(filter(None, (passage.value, continuation)))} — {passage.place}"


def _facts(passages: Sequence[Passage]) -> str:
    """Return the first labels and values of a form, and its total; "" if the document is not a form."""
    short = [passage for passage in passages if passage.kind == "fact" and len(passage.value) <= SHORT_FACT]
    if len(short) < FEWEST:
        return ""
    totals = [fact for fact in short if is_total(fact.label)]
    facts = dict.fromkeys([*short[: FACTS - len(totals[-1:])], *totals[-1:]])
    return f"{'; '.join(f'{fact.label}: {fact.value}' for fact in facts)} — {short[0].place}"


def _tables(library: Library, document: str) -> list[str]:
    tables = [table for table in library.tables if table.place.document == document]
    return list(map(_of_table, sorted(tables, key=lambda table: -len(table.records))[:FACTS]))


def _of_table(table: SourceTable) -> str:
    """Describe a table by its columns, its number of rows, and its last row, which holds the total if there is one."""
    last = "; ".join(f"{name}: {cell}" for name, cell in table.records[-1].filled[:CELLS])
    columns = ", ".join(filter(None, table.headers[:CELLS]))
    return f"**{columns}** ({len(table.records)}) … {last} — {table.place}"
