"""Act, second half: approval, claim, and the result of the action."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from poweron_events.codes import Code
from poweron_events.event import (
    MAX_CALLS,
    ActionName,
    Commitment,
    Count,
    DocumentRef,
    FailedCallsByCode,
    FreeText,
    Milliseconds,
    Model,
    ModelCall,
    Number,
    Sha256,
    StepEvent,
    TryEvent,
    UnreadDocument,
    Url,
    is_empty,
)
from poweron_events.request import Requester, RequestIdentity

MAX_TRIES = 5
"""How often a `pure` or `idempotent` action is started before it counts as crashed (E-08)."""

MAX_UNREAD = 100  # documents of one result that are listed one by one

MAX_COVERED = 50  # documents of one result whose coverage is listed

PlaceKind = Literal["page", "sheet", "slide", "section"]
"""What a document consists of; a section is any part with its own heading, or some hundred rows of a long table."""

EffectClass = Literal["pure", "idempotent", "at_most_once"]
Outcome = Literal["done", "failed", "denied", "not_begun", "crashed", "unknown", "cancelled"]


class ActionDocument(Model):
    """A document as an action returns it (M-04)."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    document_name: FreeText = Field(min_length=1, max_length=255)
    document_data: bytes
    mime_type: str = Field(max_length=255)


class ActionResult(Model):
    """What an action returns, in both modes (M-04)."""

    success: bool
    error: FreeText | None = None
    documents: tuple[ActionDocument, ...] = ()


class ApprovalRequested(StepEvent):
    """The executor waits for a person's approval of exactly these parameters."""

    parameters_sha256: Sha256
    action: ActionName
    expires_ms: Milliseconds


class ApprovalGranted(StepEvent):
    """A person approved the parameters."""

    parameters_sha256: Sha256
    reason: FreeText = ""
    requester: Requester = Requester()
    request: RequestIdentity


class ApprovalDenied(StepEvent):
    """A person denied the parameters, or did not answer in time."""

    parameters_sha256: Sha256
    reason: FreeText = ""
    requester: Requester = Requester()
    request: RequestIdentity | None = None


class ActionStarted(TryEvent):
    """A worker claims the action; the action runs only if this claim is read back as accepted."""

    action: ActionName
    claim: str = Field(min_length=1, max_length=64)
    worker: str = Field(max_length=255)
    effect_class: EffectClass
    deadline_ms: Milliseconds
    """How long the claim holds, from this event's broker time: the action's time limit plus grace."""
    tool_sha256: Sha256 | None = Field(default=None, exclude_if=is_empty)
    """SHA-256 of what the tool server declared when the tool was approved: name, description, schemas and effects."""


class PageFindings(Model):
    """Findings about a page, which help to choose what to read (C-07)."""

    relevance_score: int = Field(ge=0, le=1000)
    """How well it fits the request; comparable within one result."""
    key_points: tuple[Annotated[FreeText, Field(max_length=300)], ...] = Field(default=(), max_length=5)
    """Sentences of the page, each with its place."""
    entities: tuple[Annotated[FreeText, Field(max_length=100)], ...] = Field(default=(), max_length=10)
    """Names, dates and amounts."""
    url: Url | None = Field(default=None, exclude_if=is_empty)
    """The address of the page, if the document is only a search engine's excerpt of it."""


class DocumentCoverage(Model):
    """How much of a document a model was shown, if not all of it at once."""

    document_name: FreeText = Field(min_length=1, max_length=255)
    place: PlaceKind = "section"
    """The kind of its places."""
    places: Count
    """The number of its places."""
    places_shown: Count
    """The number of places that the model was shown, at least in part."""
    characters: Count
    characters_shown: Count


class ActionCompleted(TryEvent):
    """The action ended, with or without success."""

    success: bool
    outcome: Outcome
    error: FreeText | None = Field(default=None, max_length=4_000)
    detail: FreeText = Field(default="", max_length=2_000)
    """More about the error, for the log; never shown to a model."""
    code: Code | None = None
    """Why the action did not succeed; None if it did."""
    unread: tuple[UnreadDocument, ...] = Field(default=(), max_length=MAX_UNREAD)
    """Documents that the action could not read completely; those of which it read nothing come first."""
    unread_left_out: Count = 0
    """The number of further unread documents, for which this event has no room."""
    documents: tuple[DocumentRef, ...] = Field(default=(), max_length=100)
    documents_left_out: Count = Field(default=0, exclude_if=is_empty)
    """The number of further documents, named only in the document that lists all of them."""
    findings: tuple[PageFindings, ...] = Field(default=(), max_length=5, exclude_if=is_empty)
    """Findings about the first documents, in their order, if they are web pages."""
    coverage: tuple[DocumentCoverage, ...] = Field(default=(), max_length=MAX_COVERED, exclude_if=is_empty)
    """For each document that a model was not shown whole, in one piece: how much of it the model was shown."""
    coverage_left_out: Count = Field(default=0, exclude_if=is_empty)
    """The number of further documents that were not shown whole."""
    links: tuple[Url, ...] = Field(default=(), max_length=20, exclude_if=is_empty)
    """Addresses that appear in the result and may be read next."""
    result_label: str = Field(max_length=255)
    notes: tuple[FreeText, ...] = ()
    notes_left_out: Count = Field(default=0, exclude_if=is_empty)
    duration_ms: Milliseconds = 0
    model_calls: tuple[ModelCall, ...] = Field(default=(), max_length=MAX_CALLS)
    all_calls: Commitment | None = Field(default=None, exclude_if=is_empty)
    """All calls one by one, as a JSON list, if there are more than the event lists."""
    failed_calls: FailedCallsByCode = ()
    reused_from: Number | None = Field(default=None, exclude_if=is_empty)
    """In a fork: the record of the forked workflow that this result was taken from; no action was run for it."""
