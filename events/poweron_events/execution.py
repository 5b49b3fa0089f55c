"""Act, second half: approval, claim, and what came of the action."""

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

MAX_UNREAD = 100  # documents of one result that are told one by one

MAX_COVERED = 50  # documents of which one result tells how much was shown

PlaceKind = Literal["page", "sheet", "slide", "section"]
"""What a document consists of; a section is whatever has a heading of its own, as some hundred rows of a long table."""

EffectClass = Literal["pure", "idempotent", "at_most_once"]
Outcome = Literal["done", "failed", "denied", "not_begun", "crashed", "unknown", "cancelled"]


class ActionDocument(Model):
    """A document as an action returns it (M-04)."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    document_name: FreeText = Field(min_length=1, max_length=255)
    document_data: bytes
    mime_type: str = Field(max_length=255)


class ActionResult(Model):
    """What an action returns, the same in both modes (M-04)."""

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
    """A person denied the parameters, or nobody answered in time."""

    parameters_sha256: Sha256
    reason: FreeText = ""
    requester: Requester = Requester()
    request: RequestIdentity | None = None


class ActionStarted(TryEvent):
    """A worker claims the action; it runs only if this claim is read back as accepted."""

    action: ActionName
    claim: str = Field(min_length=1, max_length=64)
    worker: str = Field(max_length=255)
    effect_class: EffectClass
    deadline_ms: Milliseconds
    """How long the claim holds, from this event's broker time: the action's time limit plus grace."""
    tool_sha256: Sha256 | None = Field(default=None, exclude_if=is_empty)
    """What a server of tools said of the action when that was approved: name, description, schemas and effects."""


class PageFindings(Model):
    """What is worth knowing of a page before it is read (C-07)."""

    relevance_score: int = Field(ge=0, le=1000)
    """How well it fits what was asked; comparable within one result."""
    key_points: tuple[Annotated[FreeText, Field(max_length=300)], ...] = Field(default=(), max_length=5)
    """Sentences of the page, each with its place."""
    entities: tuple[Annotated[FreeText, Field(max_length=100)], ...] = Field(default=(), max_length=10)
    """Names, dates and amounts."""
    url: Url | None = Field(default=None, exclude_if=is_empty)
    """Where the page is, if the document is only what a search engine shows of it."""


class DocumentCoverage(Model):
    """How much of a document a model was shown, where that was not all of it at once."""

    document_name: FreeText = Field(min_length=1, max_length=255)
    place: PlaceKind = "section"
    """What its places are."""
    places: Count
    """How many it has."""
    places_shown: Count
    """How many of them the model was shown, at least in part."""
    characters: Count
    characters_shown: Count


class ActionCompleted(TryEvent):
    """The action ended, whatever came of it."""

    success: bool
    outcome: Outcome
    error: FreeText | None = Field(default=None, max_length=4_000)
    detail: FreeText = Field(default="", max_length=2_000)
    """More of the error, for the log: no model is shown it."""
    code: Code | None = None
    """Why there is no success; None where there is."""
    unread: tuple[UnreadDocument, ...] = Field(default=(), max_length=MAX_UNREAD)
    """Documents of which the action could not read everything; those of which it read nothing come first."""
    unread_left_out: Count = 0
    """How many more there are, for which this event has no room."""
    documents: tuple[DocumentRef, ...] = Field(default=(), max_length=100)
    documents_left_out: Count = Field(default=0, exclude_if=is_empty)
    """How many more there are, which only the document that lists all of them names."""
    findings: tuple[PageFindings, ...] = Field(default=(), max_length=5, exclude_if=is_empty)
    """Of the first documents, in their order, where they are pages of the web."""
    coverage: tuple[DocumentCoverage, ...] = Field(default=(), max_length=MAX_COVERED, exclude_if=is_empty)
    """Of documents that a model was not shown whole, in one piece: how much of each it was shown."""
    coverage_left_out: Count = Field(default=0, exclude_if=is_empty)
    """Of how many more this holds."""
    links: tuple[Url, ...] = Field(default=(), max_length=20, exclude_if=is_empty)
    """Addresses that stand in the result and may be read next."""
    result_label: str = Field(max_length=255)
    notes: tuple[FreeText, ...] = ()
    notes_left_out: Count = Field(default=0, exclude_if=is_empty)
    duration_ms: Milliseconds = 0
    model_calls: tuple[ModelCall, ...] = Field(default=(), max_length=MAX_CALLS)
    all_calls: Commitment | None = Field(default=None, exclude_if=is_empty)
    """All calls one by one, as a JSON list, where there are more than the event tells of."""
    failed_calls: FailedCallsByCode = ()
    reused_from: Number | None = Field(default=None, exclude_if=is_empty)
    """In a fork: the record of the forked workflow that this result was taken from; nothing was run for it."""
