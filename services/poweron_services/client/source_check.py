"""The sources that answers of a workflow cite: what each statement quotes, and whether the quote appears there."""

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
from poweron_services.client.workflow_history import verified_records
from poweron_services.decider.authorship import written_by_model
from poweron_services.text.language_detection import detect
from poweron_services.text.source_list import without_list
from poweron_services.text.statements import Statement, statements

MARKDOWN: Final = "text/markdown"
TEXTS: Final = frozenset({MARKDOWN, "text/csv", "application/json"})
"""The media types of documents that are searched for citations."""

ReadText = Callable[[bytes, str], Awaitable[str]]
"""Returns the text of a document with these bytes and this name, as `document.extract` does; "" if it has none."""

Result = Literal["found", "not found", "not quoted", "missing"]


NOT_QUOTED: Final[list[tuple[str | None, Result]]] = [(None, "not quoted")]


class CheckedQuote(Model):
    """Words that a statement quotes from a source, or the fact that it quotes none."""

    quote: str | None
    result: Result
    """Whether the words appear in the text of the page or document that the model saw; `missing` if that is gone."""
    statement: str
    documents: tuple[str, ...]
    """The documents that contain the statement, as references."""
    cited_as: tuple[int, ...]
    """The number of the source in each of these documents, which have their own numbering; empty if a document is
    cited by its name."""


class Source(Model):
    """A web page that at least one answer of a workflow cites."""

    n: int
    """Its number among the sources of the workflow, in the order in which answers first cite them."""
    url: str
    title: str
    fetched_at: str
    sha256: str
    statements: tuple[str, ...]
    quotes: tuple[CheckedQuote, ...]
    """For each statement the quotes that it takes from this page, or one entry that says that it quotes nothing."""


class CitedDocument(Model):
    """A document, or places in it, that at least one answer of a workflow cites by its name."""

    n: int
    """Its number among the sources of the workflow, after all web pages."""
    document: str
    """Its name, as answers write it."""
    places: tuple[str, ...]
    """Such as “page 2”, “sheet Budget”, “section Returns”; empty if it is cited as a whole."""
    texts: tuple[str, ...]
    """The documents that are searched for the words, as references."""
    statements: tuple[str, ...]
    quotes: tuple[CheckedQuote, ...]


class Sources(Model):
    """All sources of a workflow."""

    workflow_id: str
    sources: tuple[Source, ...]
    documents: tuple[CitedDocument, ...]
    missing: tuple[str, ...]
    """What could not be searched, since the content store no longer holds it: names of documents, and addresses of
    pages."""


async def check_sources(connections: Connections, workflow_id: str, read: ReadText) -> Sources:
    """Return the sources of the workflow and what its answers quote, from rows that were compared with the log.

    `read` returns the text of a document that answers cite and whose text no step has stored.

    Raises:
        UnknownWorkflow: there is no such workflow.
        RowsDiffer, RowsMissing: its rows differ from the log.
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
    """Return the sources that these answers of a workflow cite, in order: web pages, and any of the documents."""
    check = _Check(content, workflow_id, _by_name(documents), read)
    for answer in answers:
        if answer.mime_type in TEXTS:
            await check.take(answer)
    return check.sources()


def _by_name(documents: Iterable[DocumentRef]) -> dict[str, list[DocumentRef]]:
    """Map each name that an answer may use to its documents; `document.extract` adds `.md` to the names it reads."""
    result: dict[str, list[DocumentRef]] = {}
    for document in documents:
        for name in dict.fromkeys((document.document_name, document.document_name.removesuffix(".md"))):
            result.setdefault(name, []).append(document)
    return result


@dataclass(slots=True)
class _Cited:
    """A source and its statements, each with its quotes and the answers that contain it."""

    texts: Sequence[SearchedText] | None
    """What quotes are compared with; None if it is gone."""
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
    """Collects the sources of one answer after the other."""

    content: ContentStore
    workflow_id: str
    named: Mapping[str, Sequence[DocumentRef]]
    read: ReadText
    pages: dict[tuple[str, str, str], tuple[WebPage, _Cited]] = field(default_factory=dict)
    documents: dict[Citation, _Cited] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    texts: dict[str, DocumentText | None] = field(default_factory=dict)
    """The text of each document that was searched, by its content."""

    async def take(self, answer: DocumentRef) -> None:
        known = {source.n: await self._page(source) for source in answer.sources}
        pages = frozenset(known)
        answer_text = await self._text(answer.content, answer.document_name) or ""
        places_by_name = {name: await self._places(name) for name in named_in(answer_text, self.named)}
        text, meant, mentioned = numbered(without_list(answer_text, answer.sources), places_by_name)
        known |= {n: await self._document(citation) for n, citation in meant.items() if n not in pages}
        reference = item_reference(answer.document_id, answer.document_name)
        for statement in statements(text, answer.mime_type, language=detect(text) or "en"):
            for number in statement.numbers:
                if number not in known:
                    continue
                results = _results(statement, number, known)
                if number not in mentioned or results != NOT_QUOTED:
                    page_number = number if number in pages else None
                    known[number].add(statement.text, reference, page_number, results)

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
        """Return the texts of this name that steps have stored; if there are none, read them now."""
        texts = [await self._document_text(document) for document in self._candidates(name)]
        return [text for text in texts if text is not None]

    def _candidates(self, name: str) -> Sequence[DocumentRef]:
        markdown_documents = [document for document in self.named[name] if document.mime_type == MARKDOWN]
        return markdown_documents or self.named[name]

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
        sources = [
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
                    item_reference(document.document_id, document.document_name)
                    for document in self._candidates(citation.document)
                ),
                statements=tuple(cited.answers),
                quotes=cited.checked(),
            )
            for n, (citation, cited) in enumerate(cited_documents, start=len(sources) + 1)
        ]
        return Sources(
            workflow_id=self.workflow_id,
            sources=tuple(sources),
            documents=tuple(documents),
            missing=tuple(dict.fromkeys(self.missing)),
        )


def _results(statement: Statement, number: int, known: dict[int, _Cited]) -> list[tuple[str | None, Result]]:
    """Return the statement's quotes from one of its sources, without those found only in another of its sources."""
    results: list[tuple[str | None, Result]] = []
    for quote in statement.quotes:
        if number not in quote.numbers:
            continue
        holding = [source for source in quote.numbers if source in known and known[source].holds(quote.text)]
        if number in holding or not holding:
            otherwise: Result = "missing" if known[number].texts is None else "not found"
            results.append((quote.text, "found" if holding else otherwise))
    return results or NOT_QUOTED
