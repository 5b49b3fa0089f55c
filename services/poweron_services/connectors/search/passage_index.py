"""The text of pages, and an index that ranks them by the passages that match a question best.

The index uses BM25, with stemming for each language.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from poweron_services.text.language_detection import detect

LONGEST_TITLE = 300  # characters
MOST_TEXT = 1_000_000  # characters of a page that are searched
MOST_BLOCKS = 5  # blocks in which to look for a title

_HEADING: Final = re.compile(r"^#{1,6} +([^\n]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FolderPage:
    """The text of a page in blocks, and its metadata."""

    title: str
    blocks: tuple[str, ...] = ()
    language: str | None = None
    published: str | None = None
    canonical: str | None = None

    @property
    def text(self) -> str:
        return "\n\n".join(self.blocks)


def blocks_of(text: str) -> tuple[str, ...]:
    """Split a text into paragraphs."""
    return tuple(block.strip() for block in text[:MOST_TEXT].split("\n\n") if block.strip())


def title_of(blocks: tuple[str, ...], name: str) -> str:
    """Return the first heading of a text, or its first line, or the name of the file."""
    first = _HEADING.search("\n".join(blocks[:MOST_BLOCKS]))
    title = first[1].rstrip("# ") if first else next(iter(blocks), name).partition("\n")[0]
    return " ".join(title.split())[:LONGEST_TITLE] or name


def decoded(data: bytes) -> str:
    """Decode as UTF-8, or else as the cp1252 of old Windows systems."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


PASSAGE = 600  # characters at which a passage is long enough
TITLE = 1.5  # weight of a word in the title
FURTHER = (1.0, 0.3, 0.1)  # weights of the best passages of a page, in order
MOST_PASSAGES = 2_000  # passages considered for one question
LEAST = 0.15  # the fraction of the best page's score that a page needs to be shown
MEMORY = 15_000_000  # bytes for the writer, the least that it accepts

_LANGUAGES: Final = {
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
}
_OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Found:
    """A page that matches the question: its number and its best passage."""

    page: int
    score: float
    passage: str


class PassageIndex:
    """An in-memory index of the passages of pages, which are identified by their numbers."""

    def __init__(self, pages: Sequence[FolderPage]) -> None:
        import tantivy  # noqa: PLC0415 - other search engines never need it

        self._tantivy = tantivy
        languages = [_language(page) for page in pages]
        self._analyzers = {language: self._analyzer(language) for language in sorted(set(languages))}
        self._index, self._schema = self._open()
        self._passages: list[tuple[int, str]] = []
        self._write(pages, languages)

    def best(self, question: str) -> list[Found]:
        """Return the pages that match the question, best first, without those that score far below the best."""
        searcher = self._index.searcher()
        by_page: dict[int, list[tuple[float, str]]] = {}
        for score, address in searcher.search(self._query(question), limit=MOST_PASSAGES).hits:
            page, passage = self._passages[searcher.doc(address)["number"][0]]
            by_page.setdefault(page, []).append((score, passage))
        pages = [_of_page(page, scored) for page, scored in by_page.items()]
        pages.sort(key=lambda candidate: (-candidate.score, candidate.page))
        return [candidate for candidate in pages if candidate.score >= pages[0].score * LEAST]

    def _analyzer(self, language: str) -> Any:
        simple = self._tantivy.TextAnalyzerBuilder(self._tantivy.Tokenizer.simple())
        filters = self._tantivy.Filter
        builder = simple.filter(filters.remove_long(60)).filter(filters.lowercase())
        if language != _OTHER:
            name = _LANGUAGES[language]
            builder = builder.filter(filters.stopword(name)).filter(filters.stemmer(name))
        return builder.filter(filters.ascii_fold()).build()

    def _open(self) -> tuple[Any, Any]:
        builder = self._tantivy.SchemaBuilder()
        builder.add_integer_field("number", stored=True)
        for language in self._analyzers:
            for part in ("title", "text"):
                builder.add_text_field(f"{part}_{language}", tokenizer_name=language, index_option="freq")
        schema = builder.build()
        index = self._tantivy.Index(schema)
        for language, analyzer in self._analyzers.items():
            index.register_tokenizer(language, analyzer)
        return index, schema

    def _write(self, pages: Sequence[FolderPage], languages: Sequence[str]) -> None:
        writer = self._index.writer(heap_size=MEMORY, num_threads=1)
        for number, (page, language) in enumerate(zip(pages, languages, strict=True)):
            for passage in passages(page.blocks):
                document = self._tantivy.Document(number=len(self._passages))
                document.add_text(f"title_{language}", page.title)
                document.add_text(f"text_{language}", passage)
                writer.add_document(document)
                self._passages.append((number, passage))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def _query(self, question: str) -> Any:
        query, should = self._tantivy.Query, self._tantivy.Occur.Should
        clauses = []
        for language, analyzer in self._analyzers.items():
            for word in dict.fromkeys(analyzer.analyze(question)):
                title = query.term_query(self._schema, f"title_{language}", word, "freq")
                clauses.append((should, query.boost_query(title, TITLE)))
                clauses.append((should, query.term_query(self._schema, f"text_{language}", word, "freq")))
        return query.boolean_query(clauses)


def passages(blocks: Sequence[str]) -> Iterator[str]:
    """Split the text at block ends into passages of a few sentences; a page without text yields one empty passage."""
    group: list[str] = []
    for block in blocks:
        group.append(block)
        if sum(map(len, group)) >= PASSAGE:
            yield "\n".join(group)
            group.clear()
    if group or not blocks:
        yield "\n".join(group)


def _of_page(page: int, scored: Sequence[tuple[float, str]]) -> Found:
    ranking = sorted(scored, key=lambda entry: -entry[0])
    score = sum(weight * value for weight, (value, _) in zip(FURTHER, ranking, strict=False))
    return Found(page, score, ranking[0][1])


def _language(page: FolderPage) -> str:
    language = (page.language or detect(page.text) or _OTHER).lower().partition("-")[0]
    return language if language in _LANGUAGES else _OTHER
