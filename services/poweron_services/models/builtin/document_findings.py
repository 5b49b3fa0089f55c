"""Answers by document: a question that names several documents is answered from each of them.

The findings say which of the documents say nothing, and whether the values of the others agree; of two sums of money
that differ, also by how much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poweron_services.models.builtin.document_names import NamedDocuments, named_documents
from poweron_services.models.builtin.passage_search import Finding, PassageSearch
from poweron_services.models.builtin.passages import Library
from poweron_services.models.builtin.question import clauses, understand
from poweron_services.models.builtin.value_agreement import agreement, difference
from poweron_services.models.embedding.embedder import Embedder


@dataclass(frozen=True, slots=True)
class DocumentSearch:
    """A search for answers that knows which documents a question names."""

    library: Library
    language: str
    embedder: Embedder | None = None
    in_full: bool = True
    """Whether the library holds all of the documents: only then can one be said to be silent."""

    def findings(self, request: str) -> list[Finding]:
        """Return what the documents say about each question of a request; what it names is asked of those alone."""
        named = named_documents(request, self.library.titles, self.language)
        if len(clauses(request)) < 2 and (listed := self._values(named, request)):
            return [listed]
        if len(named.documents) > 1:
            return self._of_each(named, request) or self._search(self.library).findings(request)
        request = named.question if named.is_leading else request
        findings = self._search(self.library).findings(request)
        return self._of_one(named.documents[0], request, findings) if named.documents else findings

    def _search(self, library: Library, *, extends: bool = True) -> PassageSearch:
        return PassageSearch(library, self.language, self.embedder, extends=extends, calculates=self.in_full)

    def _values(self, named: NamedDocuments, request: str) -> Finding | None:
        """List all values of a kind in the named documents, or in all; None if the request does not ask for them."""
        library = self.library.of(named.documents) if named.documents else self.library
        listed = self._search(library).values(understand(named.question, self.language))
        if listed is None:
            return None
        sources = {place.document for each in listed.statements for place in each.places}
        is_told = len(named.documents) > 1 and listed.statements and self.in_full
        silent = [name for name in named.documents if name not in sources] if is_told else ()
        return replace(listed, question=request.strip(" \t\n?"), silent=tuple(silent))

    def _of_one(self, document: str, request: str, findings: list[Finding]) -> list[Finding]:
        """Prefer the answers of the one document that the request names."""
        if len(self.library.titles) == 1:
            return findings
        own = self._search(self.library.of([document])).findings(request)
        if len(own) != len(findings):
            return findings
        return [mine if mine.statements else finding for mine, finding in zip(own, findings, strict=True)]

    def _of_each(self, named: NamedDocuments, request: str) -> list[Finding]:
        """Ask each document; [] if nothing is left to ask without the names of the documents."""
        searches = [self._search(self.library.of([name]), extends=False) for name in named.documents]
        by_document = [search.findings(named.question) for search in searches]
        if len({len(findings) for findings in by_document}) != 1 or not by_document[0]:
            return []
        is_one = len(by_document[0]) == 1
        return [
            self._combined(named.documents, findings, request.strip(" \t\n?") if is_one else findings[0].question)
            for findings in zip(*by_document, strict=True)
        ]

    def _combined(self, documents: Sequence[str], findings: Sequence[Finding], question: str) -> Finding:
        """Return the answers of all documents as one finding."""
        answered = [finding for finding in findings if finding.statements]
        if not answered:
            return Finding(question, closest=tuple(close for finding in findings for close in finding.closest[:1]))
        statements = tuple(replace(each, cells=()) for finding in answered for each in finding.statements)
        left_out = sum(finding.left_out for finding in answered)
        combined = Finding(question, statements, left_out=left_out, goes_on=findings[0].goes_on)
        if not self.in_full:
            return combined
        silent = [name for name, finding in zip(documents, findings, strict=True) if not finding.statements]
        combined = replace(combined, silent=tuple(silent))
        if len(answered) < 2:
            return combined
        answers = [finding.statements for finding in answered]
        asked = understand(findings[0].question, self.language)
        result = agreement(asked, answers, self.language)
        return replace(
            combined,
            agreement=result,
            difference=difference(asked, answers, self.language) if result == "different" else None,
        )
