"""The relevance of texts to a question: BM25 over all of them together, on word stems without stop words.

The text of a page is divided into sentences, each with its place, and these are joined into passages to compare.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, Final

from poweron_services.models.builtin.vocabulary import STEMMERS, STOP_WORDS, meanings
from poweron_services.text.statements import segments

MAX_TEXT: Final = 200_000  # characters of a page that are read
MAX_SENTENCES: Final = 2_000  # sentences of a page
MAX_SENTENCE: Final = 1_000  # characters
MAX_MARKED: Final = 10_000  # characters of a sentence, including markdown markup
PASSAGE: Final = 700  # characters that are enough for a passage
MAX_PLACE: Final = 80  # characters
_BLANK: Final = re.compile(r"\n[ \t]*\n")
_HEADING: Final = re.compile(r"#{1,6}[ \t]+(?P<title>\S.*)")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)]|\|)[ \t]+")
_RULE: Final = re.compile(r"[\s|:=-]+")
_LINK: Final = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^)\s]{0,2048}\)")
_MARKS: Final = re.compile(r"\*\*|__|`+")
MEMORY: Final = 15_000_000  # bytes, the least that the index needs for writing
MAX_WORDS: Final = 100  # words of a question
NEAR_WORDS: Final = 3  # positions by which two words may be separated and still count as adjacent
TOGETHER: Final = 2.0  # weight of two adjacent words of the question
ALIKE: Final = 0.4  # weight of a synonym of a word of the question
_FIELD, _NUMBER, _ANALYZER = "text", "number", "words"


@dataclass(frozen=True, slots=True)
class PageSentence:
    """A sentence, an entry of a list or a row of a table."""

    text: str
    heading: str
    """The heading above it; empty if there is none."""
    paragraph: int

    @property
    def place(self) -> str:
        """The heading above it, or the number of its paragraph if there is none."""
        return self.heading or f"paragraph {self.paragraph}"


class Relevance:
    """An index of texts in memory, queried with questions."""

    def __init__(self, texts: Iterable[str], language: str) -> None:
        import tantivy  # noqa: PLC0415 - the command line never needs it

        builder = tantivy.SchemaBuilder()
        builder.add_text_field(_FIELD, tokenizer_name=_ANALYZER, index_option="position")
        builder.add_unsigned_field(_NUMBER, stored=True)
        self._schema = builder.build()
        self._language = language
        self._index = tantivy.Index(self._schema)
        self._analyzer = _analyzer(language)
        self._index.register_tokenizer(_ANALYZER, self._analyzer)
        self._count = 0
        writer = self._index.writer(heap_size=MEMORY, num_threads=1)
        for text in texts:
            writer.add_document(tantivy.Document(**{_FIELD: text, _NUMBER: self._count}))
            self._count += 1
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def scores(self, question: str) -> list[float]:
        """Return the score of each text, in their order; 0 for one that shares no word with the question."""
        import tantivy  # noqa: PLC0415 - the command line never needs it

        result = [0.0] * self._count
        words = self.words(question)
        if not words or not self._count:
            return result
        terms = [tantivy.Query.term_query(self._schema, _FIELD, word, "freq") for word in words]
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        searcher = self._index.searcher()
        for score, address in searcher.search(query, limit=self._count, count=False).hits:
            result[searcher.doc(address)[_NUMBER][0]] = score
        return result

    def best(self, question: str, most: int) -> list[int]:
        """Return the numbers of the texts that fit best, best first; synonyms count for less."""
        import tantivy  # noqa: PLC0415 - the command line never needs it

        words = self.words(question)
        if not words or not self._count:
            return []
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in self._queries(words)])
        searcher = self._index.searcher()
        hits = searcher.search(query, limit=most, count=False).hits
        ranking = sorted((-score, searcher.doc(address)[_NUMBER][0]) for score, address in hits)
        return [number for _, number in ranking]

    def _queries(self, words: list[str]) -> Iterator[Any]:
        """Yield queries for what a text should contain: the words, their synonyms, and pairs of adjacent words."""
        import tantivy  # noqa: PLC0415 - the command line never needs it

        query = tantivy.Query
        alike = {synonym for word in words for synonym in meanings(self._language).get(word, ())} - {*words}
        for word in words:
            yield query.term_query(self._schema, _FIELD, word, "freq")
        for word in sorted(alike):
            yield query.boost_query(query.term_query(self._schema, _FIELD, word, "freq"), ALIKE)
        for pair in pairwise(words):
            for order in (pair, pair[::-1]):
                phrase = query.phrase_query(self._schema, _FIELD, [*order], NEAR_WORDS)
                yield query.boost_query(phrase, TOGETHER)

    def words(self, text: str) -> list[str]:
        """Return the words of a text as they are compared, each once."""
        return list(dict.fromkeys(self._analyzer.analyze(text)))[:MAX_WORDS]

    def share(self, question: str, text: str) -> float:
        """Return the share of the question's words that the text contains."""
        words = self.words(question)
        return len({*words} & {*self._analyzer.analyze(text)}) / len(words) if words else 0.0


def _analyzer(language: str) -> Any:
    import tantivy  # noqa: PLC0415 - the command line never needs it

    small = sorted(STOP_WORDS["en"] | STOP_WORDS.get(language, frozenset()))
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for part in (
        tantivy.Filter.remove_long(40),
        tantivy.Filter.lowercase(),
        tantivy.Filter.custom_stopword(small),
        tantivy.Filter.stemmer(STEMMERS.get(language, "english")),
    ):
        builder = builder.filter(part)
    return builder.build()


def sentences(text: str, language: str) -> tuple[PageSentence, ...]:
    """Return the sentences of a page in reading order, up to `MAX_SENTENCES`."""
    result: list[PageSentence] = []
    for sentence in _sentences(text[:MAX_TEXT], language):
        result.append(sentence)
        if len(result) == MAX_SENTENCES:
            break
    return tuple(result)


def passages(page_sentences: tuple[PageSentence, ...]) -> Iterator[str]:
    """Yield adjacent sentences under one heading, with the heading before them."""
    heading, together, size = "", list[str](), 0
    for sentence in page_sentences:
        if together and (sentence.heading != heading or size >= PASSAGE):
            yield " ".join([heading, *together])
            together, size = [], 0
        heading = sentence.heading
        together.append(sentence.text)
        size += len(sentence.text)
    if together:
        yield " ".join([heading, *together])


def _sentences(text: str, language: str) -> Iterator[PageSentence]:
    heading, paragraph = "", 0
    for block in _BLANK.split(text):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        while lines and (match := _HEADING.fullmatch(lines[0])):
            heading = _plain(match["title"])[:MAX_PLACE]
            lines.pop(0)
        if lines:
            paragraph += 1
            yield from (
                PageSentence(sentence[:MAX_SENTENCE], heading, paragraph) for sentence in _of_block(lines, language)
            )


def _of_block(lines: list[str], language: str) -> Iterator[str]:
    """Yield the statements of a block: the lines of a table or list, or the sentences of a paragraph."""
    if any(map(_ITEM.match, lines)):
        units = _rows(lines) or [_cells(_ITEM.sub("", line, count=1)) for line in lines if not _RULE.fullmatch(line)]
    else:
        units = segments(" ".join(lines), language)
    yield from filter(None, (_plain(unit) for unit in units))


def _rows(lines: list[str]) -> list[str]:
    """Return the rows of a table with headers, each cell after its header; none if there is no such table."""
    if len(lines) < 3 or not lines[0].startswith("|") or not _RULE.fullmatch(lines[1]):
        return []
    headers = _split(lines[0])
    rows = (zip_longest(headers, _split(line)[: len(headers)], fillvalue="") for line in lines[2:])
    return ["; ".join(f"{header}: {cell}" if header else cell for header, cell in row if cell) for row in rows]


def _split(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _cells(row: str) -> str:
    return "; ".join(cell for cell in _split(row) if cell)


def _plain(text: str) -> str:
    """Remove markdown markup."""
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", text[:MAX_MARKED])).split())
