"""The shape of an action: parameters and documents in, a result out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from poweron_events.catalog import ActionSpec
from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.event import CitedSource, UnreadDocument, WebPage
from poweron_events.execution import ActionDocument, ActionResult, DocumentCoverage, PageFindings
from poweron_events.progress import ProgressUnit
from poweron_services.action_connections import Connection
from poweron_services.connectors.document_reader import ExtractedDocument, LoadBytes, OnPage
from poweron_services.connectors.mcp.known_servers import ApprovedTool
from poweron_services.connectors.page_text import OpenPages
from poweron_services.connectors.report_renderer import Draft, Rendered
from poweron_services.connectors.search.search_provider import Search, SearchQuery, SearchResults
from poweron_services.connectors.web.fetched_page import FetchedPage, FetchPage
from poweron_services.models.call import Called
from poweron_services.models.prompts import Prompt


@dataclass(frozen=True, slots=True)
class InputDocument:
    """A document that the action works on."""

    reference: str
    name: str
    mime_type: str
    size: int
    """Bytes."""
    content: str
    """The commitment of its bytes."""
    load: LoadBytes
    """Its bytes, which may be many: whoever loads them lets go of them before the next document's."""
    unread: UnreadDocument | None = None
    """What an earlier step of the round said of it, if that could read nothing of it."""
    page: WebPage | None = None
    """The page of the web whose text it is."""
    sources: tuple[CitedSource, ...] = ()
    """What its `[n]` mean, where a model wrote it."""
    written_by_model: bool = False
    """Whether a model wrote it: an address in it may be made up."""


class Ask(Protocol):
    """How an action asks the model: the call is counted and kept like every other one."""

    async def __call__(self, prompt: Prompt) -> Called: ...


class TellProgress(Protocol):
    """How an action says how far it is: nobody waits for it, and it may be lost."""

    def __call__(self, unit: ProgressUnit, done: int, total: int | None = None) -> None: ...


def told_nobody(unit: ProgressUnit, done: int, total: int | None = None) -> None:
    """Where nobody looks on."""


class ReadDocument(Protocol):
    """How the text and tables of a document are read.

    Raises `UnreadableDocument` with a sentence where nothing of it can be read, `Unavailable` where this machine can
    read nothing now. `on_page` is told on the way how many pages are read.
    """

    async def __call__(
        self, load: LoadBytes, size: int, name: str, *, on_page: OnPage | None = None
    ) -> ExtractedDocument: ...


class RenderReport(Protocol):
    """How texts of any origin become the files of a report that can be handed to a customer.

    A format that cannot be written is left out and noted. Raises `Unavailable` where this machine can write
    nothing now.
    """

    async def __call__(self, draft: Draft) -> Rendered: ...


@dataclass(frozen=True, slots=True)
class Resources:
    """What is handed to the actions when they are opened: the wiring decides, no action looks for itself."""

    read_document: ReadDocument
    render_report: RenderReport
    open_pages: OpenPages | None = None
    """How pages of the web are read."""
    searches: bool = False
    """Whether there is a search engine: without one `web.search` and `web.scrape` are not there."""
    enrich: bool = False
    """Whether a model judges the pages that were read."""
    tools: Sequence[ApprovedTool] = ()
    """The tools of other servers that were approved."""
    window: int = 1_000_000
    """How many characters of documents the model takes that answers from them."""


async def _nothing_fetched(_: str) -> FetchedPage:
    raise Refused("The web cannot be reached from here.", code="web_unavailable")


async def _nothing_searched(_: SearchQuery) -> SearchResults:
    raise Refused("There is no search engine.", code="search_unavailable")


@dataclass(frozen=True, slots=True)
class Order:
    """What an action is told to do. The parameters fit the schema of its spec."""

    parameters: Mapping[str, JsonValue]
    documents: Sequence[InputDocument]
    language: str | None
    idempotency_key: str
    ask: Ask
    objective: str = ""
    """What the step is for, in the words of whoever selected it."""
    request: str = ""
    """What the user asked for."""
    fetch: FetchPage = _nothing_fetched
    search: Search = _nothing_searched
    known_addresses: frozenset[str] = frozenset()
    """Those that stand verbatim in a request of the workflow or in a link field of an observation (S4)."""
    max_pages: int = 50
    """How many pages the step may fetch."""
    tell_progress: TellProgress = told_nobody
    requester: str = ""
    """The name of whoever asked; "" where nobody said it."""
    asked_ms: int = 0
    """When the round began, by the broker; no clock is asked for it."""
    connection: Connection | None = None
    """What `connectionReference` names, with its secrets as they are now."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document of the result is from."""

    page: WebPage | None = None
    findings: PageFindings | None = None
    sources: tuple[CitedSource, ...] = ()
    by_model: bool = False
    """Whether a model wrote it or what it was taken from, where the action is one that reads what others wrote."""


@dataclass(frozen=True, slots=True)
class Done:
    """An action's result, with notes for the observation: short facts, whole sentences."""

    result: ActionResult
    origins: tuple[Origin, ...] = field(default=(), kw_only=True)
    """Of the documents of the result, in their order; empty where there is nothing to say of them."""
    coverage: tuple[DocumentCoverage, ...] = field(default=(), kw_only=True)
    """How much of each document a model was shown, where that was not all of it at once; the least comes first."""
    links: tuple[str, ...] = field(default=(), kw_only=True)
    """Addresses that stand in the result and may be read next, the most promising first."""
    notes: tuple[str, ...] = ()
    unread: tuple[UnreadDocument, ...] = ()
    code: Code | None = None
    """Why there is no success; None where there is."""
    detail: str = ""
    """More of the error, for the log only."""


class Action(Protocol):
    """One of the things a step can do.

    It may be run again with the same idempotency key. What cannot be done is told as a result with
    `success=False` and a sentence, or raised as `Refused`; `Unavailable` is raised too and also ends
    the action: the loop decides whether to try again.
    """

    @property
    def spec(self) -> ActionSpec: ...

    async def __call__(self, order: Order) -> Done: ...


def document(name: str, data: str, mime_type: str) -> ActionDocument:
    """A text as result document."""
    return ActionDocument(document_name=name[:255], document_data=data.encode(), mime_type=mime_type)


class Failed(Refused):
    """The action could not do its work; the sentence says why, the notes and the unread documents more of it."""

    code = "action_failed"

    def __init__(self, why: str, *notes: str, code: Code | None = None, unread: Sequence[UnreadDocument] = ()) -> None:
        super().__init__(why, code=code)
        self.notes = notes
        self.unread = tuple(unread)


def none_read(unread: Sequence[UnreadDocument], otherwise: str) -> Failed:
    """That there is nothing to work on: no document could be read, or there is none."""
    if not unread:
        return Failed(otherwise, code="nothing_to_read")
    return Failed(unread[0].reason, code="documents_unreadable", unread=unread)
