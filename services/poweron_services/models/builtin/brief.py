"""Summaries and compilations of documents.

A summary quotes a few sentences of each document: those that cover most of its content without repetition, in document
order. Sentences with words that a document uses often weigh more; if there is an embedder, their vectors are compared.
A book is summarised by one sentence per chapter; a document without sentences, such as a form or a table, by its main
facts.

A compilation is a short report, or the documents' tables and labelled values as JSON or CSV. A short document is
included in full, a longer one with every section and the beginning of its texts.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from textwrap import shorten
from typing import Final, Literal, NamedTuple

import orjson

from poweron_services.models.builtin.comparison import is_total
from poweron_services.models.builtin.passages import Library, Passage
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.sources import (
    APPARATUS,
    Row,
    SourceBlock,
    SourcePlace,
    SourceSection,
    SourceTable,
    headers_of,
    pairs,
)
from poweron_services.models.embedding.embedder import Embedder, Vector, nearness
from poweron_services.text.citations import place_in

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


SHORT_DOCUMENT = 8_000  # characters; a document of up to this length is included in full
SECTIONS, PIECES = 40, 4  # sections of a longer document, and blocks of each section
TEXT, LINES, ROWS = 400, 8, 12  # characters, lines and rows of a block in a longer document

_MARKUP = re.compile(r"([\\`*<\[\]])")
_BEGINS_BLOCK = re.compile(r"^(\d*)(?=[#>+=~-]|(?<=\d)[.)] )")


def summary(library: Library, language: str, topic: frozenset[str] = frozenset()) -> str:
    """Summarise documents, every section with its place; with a topic, only the sections that say most about it."""
    documents = {
        name: list(group) for name, group in groupby(library.sections, key=lambda section: section.place.document)
    }
    names = list(documents)
    more = f" (+{len(names) - 3})" if len(names) > 3 else ""
    parts = [f"# {say('summary_of', language, names=', '.join(names[:3]) + more)}"] if len(names) > 1 else []
    counts = {section.place: len(topic & library.around[section.place].section) for section in library.sections}
    most = max(counts.values(), default=0)
    level = "##" if len(names) == 1 else "###"
    for name, sections in documents.items():
        relevant = [section for section in sections if counts[section.place] == most] if most else sections
        selection = [section for section in relevant if not APPARATUS.search(section.place.locator)][:SECTIONS]
        is_long = sum(len(block.text) for section in selection for block in section.blocks) > SHORT_DOCUMENT
        parts += [f"## {_escape(name)}"] if len(names) > 1 else []
        parts += [piece for section in selection for piece in _section(section, level, language, is_long=is_long)]
    return "\n\n".join(parts)


def all_tables(library: Library) -> str:
    """Return every table in full, under the name of its sheet or section, or else of its document."""
    sections = []
    for table in library.tables:
        name = table.place.locator.partition(" ")[2] or table.place.document
        rows = [table.headers, *(record.cells for record in table.records)]
        sections.append(f"## {_escape(name)}\n\n{_table(rows, '', len(rows))}")
    return "\n\n".join(sections)


def _section(section: SourceSection, level: str, language: str, *, is_long: bool) -> Iterator[str]:
    title = _title(section) or (section.place.document if level == "##" and not section.place.locator else "")
    if title:
        yield f"{level} {_escape(title)}"
    yield f"*{say('source', language, place=_escape(_place_text(section.place, language)))}*"
    for block in section.blocks[: PIECES if is_long else None]:
        if block.text != title:
            yield _block_text(block, level, language, is_long=is_long)


def _title(section: SourceSection) -> str:
    """Return the document's name for a section; a page or a slide has no name but its first heading."""
    kind, _, name = section.place.locator.partition(" ")
    if kind in ("section", "sheet"):
        return name
    first = next(iter(section.blocks), None)
    return first.text if first is not None and first.kind == "heading" else ""


def _place_text(place: SourcePlace, language: str) -> str:
    return str(replace(place, locator=place_in(place.locator, language)))


def _block_text(block: SourceBlock, level: str, language: str, *, is_long: bool) -> str:
    match block.kind:
        case "heading":
            return f"{level}# {_escape(block.text)}"
        case "lines":
            return "\n".join(f"- {_plain(line)}" for line in block.lines[: LINES if is_long else None])
        case "prose":
            return _plain(shorten(block.text, TEXT, placeholder=" …") if is_long else block.text)
        case "table":
            headers, rows = headers_of(block.rows)
            if any(headers):
                return _table([headers, *rows], language, ROWS if is_long else len(rows))
            return "\n".join(f"- **{_plain(label)}:** {_plain(value)}" for label, value in pairs(rows))


def _table(rows: list[Row], language: str, most: int) -> str:
    visible_rows = [rows[0], ("---",) * len(rows[0]), *rows[1 : most + 1]]
    cell_rows = ([_escape(cell).replace("|", "\\|") for cell in row] for row in visible_rows)
    table = "\n".join(f"| {' | '.join(row)} |" for row in cell_rows)
    left_out = len(rows) - 1 - most
    return f"{table}\n\n{say('more_rows', language, count=left_out)}" if left_out > 0 else table


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _plain(text: str) -> str:
    """Escape a text, so that it is not read as markup."""
    return _BEGINS_BLOCK.sub(r"\1\\", _escape(text))


def converted(library: Library, output_format: Literal["json", "csv"]) -> str:
    """Return all tables and values as JSON; as CSV the largest table, or the values if there is none."""
    if output_format == "json":
        return orjson.dumps([*map(_as_object, library.tables), *_values(library)], option=orjson.OPT_INDENT_2).decode()
    if library.tables:
        largest = max(library.tables, key=lambda table: len(table.records))
        return as_csv([largest.headers, *(record.cells for record in largest.records)])
    facts = [
        (passage.label, passage.value, passage.place.document, passage.place.locator)
        for passage in library.passages
        if passage.label
    ]
    return as_csv([("label", "value", "document", "place"), *facts])


def as_csv(rows: Iterable[Row]) -> str:
    """Write rows with the same number of cells as CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _as_object(table: SourceTable) -> dict[str, object]:
    names = [header or f"column {number}" for number, header in enumerate(table.headers, start=1)]
    rows = [dict(zip(names, record.cells, strict=True)) for record in table.records]
    return table.place.as_object() | {"rows": rows}


def _values(library: Library) -> list[dict[str, object]]:
    values_by_place: dict[SourcePlace, dict[str, str]] = {}
    for passage in library.passages:
        if passage.kind == "fact":
            values_by_place.setdefault(passage.place, {}).setdefault(passage.label, passage.value)
    return [place.as_object() | {"values": values} for place, values in values_by_place.items()]
