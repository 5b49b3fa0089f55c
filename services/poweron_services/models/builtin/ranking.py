"""Which passages are worth a closer look: BM25 over their terms, in memory."""

from typing import Any

from poweron_services.models.builtin.passages import Passage
from poweron_services.models.builtin.question import Question

NEAR = 0.4  # what a word counts that stands near a passage, not in it
SAME = 0.7  # what a word counts that only means the same
HEAP = 15_000_000  # bytes, the least that tantivy takes
CANDIDATES = 400


class Ranking:
    """An index over passages; built once for all questions of a request."""

    def __init__(self, passages: list[Passage]) -> None:
        import tantivy  # noqa: PLC0415 - other models never need it

        self._tantivy = tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("position", stored=True, indexed=False)
        builder.add_text_field("own", tokenizer_name="terms")
        builder.add_text_field("near", tokenizer_name="terms")
        self._schema = builder.build()
        index = tantivy.Index(self._schema)
        words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        index.register_tokenizer("terms", words)
        writer = index.writer(HEAP, num_threads=1)
        for position, passage in enumerate(passages):
            own, near = " ".join(sorted(passage.own)), " ".join(sorted(passage.near))
            writer.add_document(tantivy.Document(position=position, own=own, near=near))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._searcher = index.searcher()

    def best(self, question: Question) -> list[tuple[int, float]]:
        """Positions of the passages that share words with the question, and their scores, best first."""
        wanted = [(term.stem, term.weight) for term in question.terms]
        wanted += [(same, term.weight * SAME) for term in question.terms for same in sorted(term.same)]
        if not wanted:
            return []
        query = self._tantivy.Query.boolean_query(
            [part for term, weight in wanted for part in self._either(term, weight)]
        )
        hits = self._searcher.search(query, CANDIDATES).hits
        return [(self._searcher.doc(address)["position"][0], score) for score, address in hits]

    def _either(self, term: str, weight: float) -> list[Any]:
        return [self._should("own", term, weight), self._should("near", term, weight * NEAR)]

    def _should(self, field: str, term: str, weight: float) -> Any:
        query = self._tantivy.Query
        found = query.term_query(self._schema, field, term)
        return (self._tantivy.Occur.Should, query.boost_query(found, weight))
