"""The relevance of texts to a question: BM25 over all of them together, on word stems without stop words."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

from poweron_services.models.builtin.vocabulary import STEMMERS, STOP_WORDS, meanings

MEMORY: Final = 15_000_000  # bytes, the least that the index needs for writing
MAX_WORDS: Final = 100  # words of a question
NEAR_WORDS: Final = 3  # positions by which two words may be separated and still count as adjacent
TOGETHER: Final = 2.0  # weight of two adjacent words of the question
ALIKE: Final = 0.4  # weight of a synonym of a word of the question

_FIELD, _NUMBER, _ANALYZER = "text", "number", "words"


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

        found = [0.0] * self._count
        words = self.words(question)
        if not words or not self._count:
            return found
        terms = [tantivy.Query.term_query(self._schema, _FIELD, word, "freq") for word in words]
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        searcher = self._index.searcher()
        for score, address in searcher.search(query, limit=self._count, count=False).hits:
            found[searcher.doc(address)[_NUMBER][0]] = score
        return found

    def best(self, question: str, most: int) -> list[int]:
        """Return the numbers of the texts that fit best, best first; synonyms count for less."""
        import tantivy  # noqa: PLC0415 - the command line never needs it

        words = self.words(question)
        if not words or not self._count:
            return []
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, each) for each in self._wanted(words)])
        searcher = self._index.searcher()
        hits = searcher.search(query, limit=most, count=False).hits
        found = sorted((-score, searcher.doc(address)[_NUMBER][0]) for score, address in hits)
        return [number for _, number in found]

    def _wanted(self, words: list[str]) -> Iterator[Any]:
        """Yield queries for what a text should contain: the words, their synonyms, and pairs of adjacent words."""
        import tantivy  # noqa: PLC0415 - the command line never needs it

        query = tantivy.Query
        alike = {same for word in words for same in meanings(self._language).get(word, ())} - {*words}
        for word in words:
            yield query.term_query(self._schema, _FIELD, word, "freq")
        for word in sorted(alike):
            yield query.boost_query(query.term_query(self._schema, _FIELD, word, "freq"), ALIKE)
        for pair in pairwise(words):
            for order in (pair, pair[::-1]):
                near = query.phrase_query(self._schema, _FIELD, [*order], NEAR_WORDS)
                yield query.boost_query(near, TOGETHER)

    def words(self, text: str) -> list[str]:
        """Return the words of a text as they are compared, each once."""
        return list(dict.fromkeys(self._analyzer.analyze(text)))[:MAX_WORDS]

    def share(self, question: str, text: str) -> float:
        """Return the share of the question's words that the text contains."""
        asked = self.words(question)
        return len({*asked} & {*self._analyzer.analyze(text)}) / len(asked) if asked else 0.0


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
