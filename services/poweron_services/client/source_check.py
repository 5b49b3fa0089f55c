"""The sources that answers of a workflow cite: what each statement quotes from them, and whether it stands there."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import CitedSource, DocumentRef, Model, WebPage
from poweron_events.fold.history import item_reference
from poweron_projections import reader
from poweron_services.client.connect import Connections
from poweron_services.client.document_citations import Citation, DocumentText, SearchedText, named_in, numbered
from poweron_services.client.recorded_history import verified_records
from poweron_services.decider.cited_statements import Statement, statements
from poweron_services.decider.language_detection import detect
from poweron_services.decider.model_written import written_by_model
from poweron_services.decider.source_list import without_list

MARKDOWN: Final = "text/markdown"
TEXTS: Final = frozenset({MARKDOWN, "text/csv", "application/json"})
"""What is looked into for citations: documents of these media types."""

ReadText = Callable[[bytes, str], Awaitable[str]]
"""Gives the text of a document, of these bytes and this name, as `document.extract` does; "" where there is none."""

Result = Literal["found", "not found", "not quoted", "missing"]


NOT_QUOTED: Final[list[tuple[str | None, Result]]] = [(None, "not quoted")]


class CheckedQuote(Model):
    """Words that a statement quotes from a source, or that it quotes none."""

    quote: str | None
    result: Result
    """Whether the words stand in the text of the page or document that the model was shown; `missing`: it is gone."""
    statement: str
    documents: tuple[str, ...]
    """The documents that hold the statement, as references."""
    cited_as: tuple[int, ...]
    """The number of the source in each of these documents, which has numbers of its own; empty where a document is
    cited by its name."""


class Source(Model):
    """A page of the web that at least one answer of a workflow cites."""

    n: int
    """Its number among the sources of the workflow, in the order in which answers came to cite them."""
    url: str
    title: str
    fetched_at: str
    sha256: str
    statements: tuple[str, ...]
    quotes: tuple[CheckedQuote, ...]
    """For each statement the quotes that it takes from here, or one entry that says that it quotes nothing."""


class CitedDocument(Model):
    """A document, or places in it, that at least one answer of a workflow cites by its name."""

    n: int
    """Its number among the sources of the workflow, behind all pages of the web."""
    document: str
    """Its name, as answers say it."""
    places: tuple[str, ...]
    """Such as “page 2”, “sheet Budget”, “section Returns”; empty where it is cited as a whole."""
    texts: tuple[str, ...]
    """The documents in which the words are looked for, as references."""
    statements: tuple[str, ...]
    quotes: tuple[CheckedQuote, ...]


class Sources(Model):
    """All sources of a workflow."""

    workflow_id: str
    sources: tuple[Source, ...]
    documents: tuple[CitedDocument, ...]
    missing: tuple[str, ...]
    """What could not be looked into, since the content store does not hold it: names of documents, addresses of
    pages."""


async def check_sources(connections: Connections, workflow_id: str, read: ReadText) -> Sources:
    """The sources of the workflow, by rows that were compared with the log, and what its answers say of them.

    `read` gives the text of a document that answers cite and whose text no step has kept.

    Raises:
        UnknownWorkflow: there is no such workflow.
        RowsDiffer, RowsMissing: its rows are not what the log says.
        Unavailable: a server cannot be reached.
    """
    await verified_records(connections, workflow_id)
    answers, documents = list[DocumentRef](), list[DocumentRef]()
    for entry in await reader.documents(connections.pool, workflow_id):
        if written_by_model(entry, {entry.label: [entry]}):
            answers.append(entry)
        elif entry.page is None:
            documents.append(entry)
    return await check_answers(answers, connections.content, workflow_id, documents, read)


async def check_answers(
    answers: Iterable[DocumentRef],
    content: ContentStore,
    workflow_id: str,
    documents: Sequence[DocumentRef],
    read: ReadText,
) -> Sources:
    """The sources that these answers of a workflow cite, in their order: pages of the web, and any of the documents."""
    check = _Check(content, workflow_id, _by_name(documents), read)
    for answer in answers:
        if answer.mime_type in TEXTS:
            await check.take(answer)
    return check.sources()


def _by_name(documents: Iterable[DocumentRef]) -> dict[str, list[DocumentRef]]:
    """The documents by each name that an answer may say; `document.extract` adds `.md` to the name of what it read."""
    named: dict[str, list[DocumentRef]] = {}
    for document in documents:
        for name in dict.fromkeys((document.document_name, document.document_name.removesuffix(".md"))):
            named.setdefault(name, []).append(document)
    return named


@dataclass(slots=True)
class _Cited:
    """A source, and what is said of it: each statement with its quotes and the answers that hold it."""

    texts: Sequence[SearchedText] | None
    """What quotes are compared with; None where it is gone."""
    quotes: dict[tuple[str, str | None], Result] = field(default_factory=dict)
    answers: dict[str, dict[str, int | None]] = field(default_factory=dict)

    def add(
        self, statement: str, reference: str, number: int | None, quotes: Sequence[tuple[str | None, Result]]
    ) -> None:
        self.answers.setdefault(statement, {}).setdefault(reference, number)
        for quote, result in quotes:
            self.quotes.setdefault((statement, quote), result)

    def holds(self, quote: str) -> bool:
        return self.texts is not None and any(text.holds(quote) for text in self.texts)

    def checked(self) -> tuple[CheckedQuote, ...]:
        return tuple(
            CheckedQuote(
                quote=quote,
                result=result,
                statement=statement,
                documents=tuple(self.answers[statement]),
                cited_as=tuple(number for number in self.answers[statement].values() if number is not None),
            )
            for (statement, quote), result in self.quotes.items()
        )


@dataclass(slots=True)
class _Check:
    """Takes one answer after the other."""

    content: ContentStore
    workflow_id: str
    named: Mapping[str, Sequence[DocumentRef]]
    read: ReadText
    pages: dict[tuple[str, str, str], tuple[WebPage, _Cited]] = field(default_factory=dict)
    documents: dict[Citation, _Cited] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    texts: dict[str, DocumentText | None] = field(default_factory=dict)
    """Of each document that was looked into, by its content."""

    async def take(self, answer: DocumentRef) -> None:
        known = {source.n: await self._page(source) for source in answer.sources}
        pages = frozenset(known)
        written = await self._text(answer.content, answer.document_name) or ""
        named = {name: await self._places(name) for name in named_in(written, self.named)}
        text, meant, mentioned = numbered(without_list(written, answer.sources), named)
        known |= {n: await self._document(citation) for n, citation in meant.items() if n not in pages}
        reference = item_reference(answer.document_id, answer.document_name)
        for statement in statements(text, answer.mime_type, language=detect(text) or "en"):
            for number in statement.numbers:
                if number not in known:
                    continue
                results = _results(statement, number, known)
                if number not in mentioned or results != NOT_QUOTED:
                    told = number if number in pages else None
                    known[number].add(statement.text, reference, told, results)

    async def _page(self, source: CitedSource) -> _Cited:
        key = (source.page.url, source.page.sha256, source.text)
        if key not in self.pages:
            text = await self._text(source.text, source.page.url)
            self.pages[key] = source.page, _Cited(None if text is None else [SearchedText(text)])
        return self.pages[key][1]

    async def _document(self, citation: Citation) -> _Cited:
        if citation not in self.documents:
            texts = await self._read_texts(citation.document)
            at = [part for text in texts for part in text.at(citation.places)]
            self.documents[citation] = _Cited(at if texts else None)
        return self.documents[citation]

    async def _places(self, name: str) -> list[str]:
        return [place for text in await self._read_texts(name) for place in text.parts if place]

    async def _read_texts(self, name: str) -> list[DocumentText]:
        """The texts of this name that steps have kept; where there are none, those that are read now."""
        found = [await self._document_text(document) for document in self._looked_into(name)]
        return [text for text in found if text is not None]

    def _looked_into(self, name: str) -> Sequence[DocumentRef]:
        kept = [document for document in self.named[name] if document.mime_type == MARKDOWN]
        return kept or self.named[name]

    async def _document_text(self, document: DocumentRef) -> DocumentText | None:
        if document.content not in self.texts:
            data = await self._bytes(document.content, document.document_name)
            if data is None:
                self.texts[document.content] = None
            elif document.mime_type == MARKDOWN:
                self.texts[document.content] = DocumentText.of(data.decode("utf-8", errors="replace"))
            else:
                self.texts[document.content] = DocumentText.of(await self.read(data, document.document_name))
        return self.texts[document.content]

    async def _text(self, content: str, name: str) -> str | None:
        data = await self._bytes(content, name)
        return None if data is None else data.decode("utf-8", errors="replace")

    async def _bytes(self, content: str, name: str) -> bytes | None:
        try:
            return await self.content.get(self.workflow_id, content)
        except MissingContent:
            self.missing.append(name)
            return None

    def sources(self) -> Sources:
        pages = [(page, cited) for page, cited in self.pages.values()]
        found = [
            Source(
                n=n,
                **page.model_dump(include={"url", "title", "fetched_at", "sha256"}),
                statements=tuple(cited.answers),
                quotes=cited.checked(),
            )
            for n, (page, cited) in enumerate(pages, start=1)
        ]
        cited_documents = [(citation, cited) for citation, cited in self.documents.items() if cited.answers]
        documents = [
            CitedDocument(
                n=n,
                document=citation.document,
                places=citation.places,
                texts=tuple(
                    item_reference(one.document_id, one.document_name) for one in self._looked_into(citation.document)
                ),
                statements=tuple(cited.answers),
                quotes=cited.checked(),
            )
            for n, (citation, cited) in enumerate(cited_documents, start=len(found) + 1)
        ]
        return Sources(
            workflow_id=self.workflow_id,
            sources=tuple(found),
            documents=tuple(documents),
            missing=tuple(dict.fromkeys(self.missing)),
        )


def _results(statement: Statement, number: int, known: dict[int, _Cited]) -> list[tuple[str | None, Result]]:
    """The statement's quotes from one of its sources; words that stand in another one of theirs are that one's."""
    results: list[tuple[str | None, Result]] = []
    for quote in statement.quotes:
        if number not in quote.numbers:
            continue
        holding = [one for one in quote.numbers if one in known and known[one].holds(quote.text)]
        if number in holding or not holding:
            otherwise: Result = "missing" if known[number].texts is None else "not found"
            results.append((quote.text, "found" if holding else otherwise))
    return results or NOT_QUOTED
