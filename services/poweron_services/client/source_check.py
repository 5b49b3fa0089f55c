"""The sources that answers of a workflow cite: what each statement quotes from them, and whether it stands there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import CitedSource, DocumentRef, Model, WebPage
from poweron_events.fold.history import item_reference
from poweron_projections import reader
from poweron_services.client.connect import Connections
from poweron_services.client.recorded_history import verified_records
from poweron_services.decider.cited_statements import Statement, statements
from poweron_services.decider.language_detection import detect
from poweron_services.decider.quotes import comparable, occurs
from poweron_services.decider.source_list import without_list

Result = Literal["found", "not found", "not quoted", "missing"]


class CheckedQuote(Model):
    """Words that a statement quotes from a source, or that it quotes none."""

    quote: str | None
    result: Result
    """Whether the words stand in the text of the page that the model was shown; `missing`: that text is gone."""
    statement: str
    documents: tuple[str, ...]
    """The documents that hold the statement, as references."""
    cited_as: tuple[int, ...]
    """The number of the source in each of these documents, which has numbers of its own."""


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


class Sources(Model):
    """All sources of a workflow."""

    workflow_id: str
    sources: tuple[Source, ...]
    missing: tuple[str, ...]
    """What could not be looked into, since the content store does not hold it: names of documents, addresses of
    pages."""


async def check_sources(connections: Connections, workflow_id: str) -> Sources:
    """The sources of the workflow, by rows that were compared with the log, and what its answers say of them.

    Raises:
        UnknownWorkflow: there is no such workflow.
        RowsDiffer, RowsMissing: its rows are not what the log says.
        Unavailable: a server cannot be reached.
    """
    await verified_records(connections, workflow_id)
    entries = await reader.documents(connections.pool, workflow_id)
    return await check_answers(entries, connections.content, workflow_id)


async def check_answers(answers: Iterable[DocumentRef], content: ContentStore, workflow_id: str) -> Sources:
    """The sources that these documents of a workflow cite, in their order."""
    check = _Check(content, workflow_id)
    for answer in answers:
        if answer.sources:
            await check.take(answer)
    return check.sources()


@dataclass(slots=True)
class _Cited:
    """A text of a page, and what is said of it: each statement with its quotes and the documents that hold it."""

    page: WebPage
    text: str | None
    """What it is compared with; None where it is gone."""
    quotes: dict[tuple[str, str | None], Result] = field(default_factory=dict)
    documents: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, statement: str, reference: str, number: int, quotes: Sequence[tuple[str | None, Result]]) -> None:
        self.documents.setdefault(statement, {}).setdefault(reference, number)
        for quote, result in quotes:
            self.quotes.setdefault((statement, quote), result)

    def holds(self, quote: str) -> bool:
        return self.text is not None and occurs(quote, self.text)

    def source(self, n: int) -> Source:
        told = self.page.model_dump(include={"url", "title", "fetched_at", "sha256"})
        checked = tuple(
            CheckedQuote(
                quote=quote,
                result=result,
                statement=statement,
                documents=tuple(self.documents[statement]),
                cited_as=tuple(self.documents[statement].values()),
            )
            for (statement, quote), result in self.quotes.items()
        )
        return Source(n=n, **told, statements=tuple(self.documents), quotes=checked)


@dataclass(slots=True)
class _Check:
    """Takes one answer after the other."""

    content: ContentStore
    workflow_id: str
    cited: dict[tuple[str, str, str], _Cited] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    async def take(self, answer: DocumentRef) -> None:
        known = {source.n: await self._page(source) for source in answer.sources}
        text = without_list(await self._text(answer.content, answer.document_name) or "", answer.sources)
        reference = item_reference(answer.document_id, answer.document_name)
        for statement in statements(text, answer.mime_type, language=detect(text) or "en"):
            for number in statement.numbers:
                if number in known:
                    known[number].add(statement.text, reference, number, _results(statement, number, known))

    async def _page(self, source: CitedSource) -> _Cited:
        key = (source.page.url, source.page.sha256, source.text)
        if key not in self.cited:
            text = await self._text(source.text, source.page.url)
            self.cited[key] = _Cited(source.page, None if text is None else comparable(text))
        return self.cited[key]

    async def _text(self, content: str, name: str) -> str | None:
        try:
            return (await self.content.get(self.workflow_id, content)).decode("utf-8", errors="replace")
        except MissingContent:
            self.missing.append(name)
            return None

    def sources(self) -> Sources:
        found = tuple(cited.source(n) for n, cited in enumerate(self.cited.values(), start=1))
        return Sources(workflow_id=self.workflow_id, sources=found, missing=tuple(dict.fromkeys(self.missing)))


def _results(statement: Statement, number: int, known: dict[int, _Cited]) -> list[tuple[str | None, Result]]:
    """The statement's quotes from one of its sources; words that stand in another one of theirs are that one's."""
    results: list[tuple[str | None, Result]] = []
    for quote in statement.quotes:
        if number not in quote.numbers:
            continue
        holding = [one for one in quote.numbers if one in known and known[one].holds(quote.text)]
        if number in holding or not holding:
            otherwise: Result = "missing" if known[number].text is None else "not found"
            results.append((quote.text, "found" if holding else otherwise))
    return results or [(None, "not quoted")]
