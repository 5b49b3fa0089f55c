"""The shape of an action: parameters and documents in, a result out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from poweron_events.catalog import ActionSpec
from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.event import CitedSource, UnreadDocument, WebPage
from poweron_events.progress import ProgressUnit
from poweron_events.step_events import ActionDocument, ActionResult, DocumentCoverage, PageFindings
from poweron_services.connectors.document_reader import ExtractedDocument, LoadBytes, OnPage
from poweron_services.connectors.mcp.tool_catalog import ApprovedTool
from poweron_services.connectors.page_child import OpenPages
from poweron_services.connectors.report_renderer import Draft, RenderedReport
from poweron_services.connectors.search.search_provider import Search
from poweron_services.connectors.web.page_cache import FetchedPage, FetchPage
from poweron_services.connectors.web_access import no_search
from poweron_services.models.call import Called
from poweron_services.models.prompts import Prompt
from poweron_services.settings.action_connections import Connection
from poweron_services.text.provenance import Provenance


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
    """Loads its bytes, which may be many: release them before loading those of the next document."""
    unread: UnreadDocument | None = None
    """The report of an earlier step of the round that could read nothing of it."""
    page: WebPage | None = None
    """The web page whose text it is."""
    sources: tuple[CitedSource, ...] = ()
    """The sources that its `[n]` cite, if a model wrote it."""
    written_by_model: bool = False
    """Whether a model wrote it, so that an address in it may be made up."""


class Ask(Protocol):
    """Asks the model on behalf of an action; the call is counted and recorded like any other."""

    async def __call__(self, prompt: Prompt) -> Called: ...


class TellProgress(Protocol):
    """Reports the progress of an action: nothing waits for the report, and it may be lost."""

    def __call__(self, unit: ProgressUnit, done: int, total: int | None = None) -> None: ...


def no_progress(unit: ProgressUnit, done: int, total: int | None = None) -> None:
    """Discard the progress."""


class ReadDocument(Protocol):
    """Reads the text and tables of a document.

    Raises `UnreadableDocument` with a sentence if nothing of it can be read, and `Unavailable` if this machine
    cannot read anything now. `on_page` is called with the number of pages read so far.
    """

    async def __call__(
        self, load: LoadBytes, size: int, name: str, *, on_page: OnPage | None = None
    ) -> ExtractedDocument: ...


class RenderReport(Protocol):
    """Renders texts of any origin as the files of a report that can be given to a customer.

    A format that cannot be written is left out and noted. Raises `Unavailable` if this machine cannot write
    anything now.
    """

    async def __call__(self, draft: Draft) -> RenderedReport: ...


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that actions receive when they are opened: the wiring chooses them, not the actions."""

    read_document: ReadDocument
    render_report: RenderReport
    open_pages: OpenPages | None = None
    """Opens what reads web pages; None if the web cannot be read."""
    searches: bool = False
    """Whether there is a search engine; without one, `web.search` and `web.scrape` are not offered."""
    enrich: bool = False
    """Whether a model judges the pages that were read."""
    tools: Sequence[ApprovedTool] = ()
    """The approved tools of third-party servers."""
    window: int = 1_000_000
    """How many characters of documents fit in the prompt of the model that answers from them."""


class FindProvenance(Protocol):
    """Finds the mark of the first file that the step writes; None if its files have no mark."""

    async def __call__(self) -> Provenance | None: ...


async def no_provenance() -> None:
    """Return no mark."""


async def _refuse_fetch(_: str) -> FetchedPage:
    raise Refused("The web cannot be reached from here.", code="web_unavailable")


@dataclass(frozen=True, slots=True)
class Order:
    """What an action must do. The parameters match the schema of its spec."""

    parameters: Mapping[str, JsonValue]
    documents: Sequence[InputDocument]
    language: str | None
    idempotency_key: str
    ask: Ask
    objective: str = ""
    """The purpose of the step, as its selection words it."""
    request: str = ""
    """What the user asked for."""
    fetch: FetchPage = _refuse_fetch
    search: Search = no_search
    known_addresses: frozenset[str] = frozenset()
    """The addresses that appear verbatim in a request of the workflow or in a link field of an observation (S4)."""
    max_pages: int = 50
    """How many pages the step may fetch."""
    tell_progress: TellProgress = no_progress
    find_provenance: FindProvenance = no_provenance
    requester: str = ""
    """The name of the requester; "" if it is unknown."""
    asked_ms: int = 0
    """When the round began, by the broker's timestamp; no clock is read."""
    connection: Connection | None = None
    """The connection that `connectionReference` names, with its current secrets."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document of the result comes from."""

    page: WebPage | None = None
    findings: PageFindings | None = None
    sources: tuple[CitedSource, ...] = ()
    by_model: bool = False
    """Whether a model wrote it or its source. Only reading actions set this: what other actions write always counts as
    a model's."""


@dataclass(frozen=True, slots=True)
class Done:
    """An action's result, with notes for the observation: short facts in whole sentences."""

    result: ActionResult
    origins: tuple[Origin, ...] = field(default=(), kw_only=True)
    """The origins of the documents of the result, in their order; empty if there is nothing to say."""
    coverage: tuple[DocumentCoverage, ...] = field(default=(), kw_only=True)
    """How much of each document a model was shown, if not everything at once; the least covered comes first."""
    links: tuple[str, ...] = field(default=(), kw_only=True)
    """Addresses in the result that may be read next, the most promising first."""
    notes: tuple[str, ...] = ()
    unread: tuple[UnreadDocument, ...] = ()
    code: Code | None = None
    """Why the action failed; None on success."""
    detail: str = ""
    """Details of the error, for the log only."""


class Action(Protocol):
    """One of the things a step can do.

    It may run again with the same idempotency key. If it fails, it returns a result with `success=False` and a
    sentence, or raises `Refused`. It may also raise `Unavailable`: the loop decides whether to retry.
    """

    @property
    def spec(self) -> ActionSpec: ...

    async def __call__(self, order: Order) -> Done: ...


def document(name: str, data: str, mime_type: str) -> ActionDocument:
    """Create a document of the result from a text."""
    return ActionDocument(document_name=name[:255], document_data=data.encode(), mime_type=mime_type)


class Failed(Refused):
    """The action could not do its work; the sentence says why, the notes and the unread documents give details."""

    code = "action_failed"

    def __init__(
        self, reason: str, *notes: str, code: Code | None = None, unread: Sequence[UnreadDocument] = ()
    ) -> None:
        super().__init__(reason, code=code)
        self.notes = notes
        self.unread = tuple(unread)


def none_read(unread: Sequence[UnreadDocument], otherwise: str) -> Failed:
    """Create the error for an action with nothing to work on: no document could be read, or there is none."""
    if not unread:
        return Failed(otherwise, code="nothing_to_read")
    return Failed(unread[0].reason, code="documents_unreadable", unread=unread)
