"""The events of a step in their order: selection, parameters, approval, claim, result, observation, refinement.

A reservation, recorded before a model call where a budget applies, holds the most that the call may use.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from poweron_events.actor import Actor
from poweron_events.codes import Code
from poweron_events.event import (
    MAX_CALLS,
    ActionName,
    Commitment,
    Count,
    CriterionProgress,
    DocumentRef,
    FailedCallsByCode,
    FreeText,
    JsonValues,
    Milliseconds,
    Model,
    ModelCall,
    NanoUsd,
    Number,
    Sha256,
    StageEvent,
    StepEvent,
    Tokens,
    TryEvent,
    UnreadDocument,
    Url,
    is_empty,
    is_none,
)
from poweron_events.request import Requester, RequestIdentity

DecidedBy = Literal["model", "guard", "plan"]
FieldType = Literal["string", "number", "boolean", "enum", "object"]


class ActionSelection(Model):
    """An action by its two parts; stage 1 writes the compound `method.name` (M-01)."""

    method: str
    name: str

    @classmethod
    def of(cls, compound: ActionName) -> "ActionSelection":
        """Return the action that `method.name` names."""
        method, _, name = compound.partition(".")
        return cls(method=method, name=name)

    @property
    def compound(self) -> ActionName:
        """`method.name`, as on the wire."""
        return f"{self.method}.{self.name}"


class SchemaField(Model):
    """One business parameter that stage 2 is asked for."""

    name: str = Field(min_length=1, max_length=100)
    type: FieldType = "string"
    required: bool = False
    description: FreeText = Field(default="", max_length=1_000)


class ParametersSchema(Model):
    """The fields that stage 2 is asked for; never documents, connections or history (P-02)."""

    fields: tuple[SchemaField, ...] = Field(default=(), max_length=50)


class ActionSelected(StepEvent):
    """The selector chose the action of this step: the stage-1 answer as given."""

    action: ActionName
    action_objective: FreeText = Field(max_length=4_000)
    learnings: tuple[FreeText, ...] = ()
    required_input_documents: tuple[FreeText, ...] = ()
    required_connection: str | None = None
    parameters_context: FreeText = Field(default="", max_length=8_000)
    parameters_schema: ParametersSchema | None = None
    decided_by: DecidedBy = "model"
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()


class SelectionRejected(TryEvent):
    """The answer was not a selection of one allowed action; the second rejection ends the attempt."""

    reason: FreeText = Field(max_length=2_000)
    detail: FreeText = Field(default="", max_length=2_000)
    """More about the reason, for the log; never shown to a model."""
    code: Code | None = None
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()


class ActionParameters(Model):
    """The parameters of an action, by name (M-02)."""

    parameters: JsonValues


class ParametersSet(StepEvent):
    """The parameterizer collected, checked and completed the parameters."""

    schema_: Literal["parameters_v1"] = Field(default="parameters_v1", alias="schema")
    given: JsonValues
    """As the model answered, before any were dropped or filled in."""
    parameters: JsonValues
    """As the action gets them, after defaults."""
    defaulted: tuple[str, ...] = ()
    dropped: tuple[FreeText, ...] = ()
    decided_by: DecidedBy = "model"
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()


class ParametersRejected(TryEvent):
    """The parameters were rejected; the second rejection ends the attempt."""

    reason: FreeText = Field(max_length=2_000)
    detail: FreeText = Field(default="", max_length=2_000)
    """More about the reason, for the log; never shown to a model."""
    code: Code | None = None
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()


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
    mime_type: FreeText = Field(max_length=255)


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
    actor: Actor | None = Field(default=None, exclude_if=is_none)
    request: RequestIdentity


class ApprovalDenied(StepEvent):
    """A person denied the parameters, or did not answer in time."""

    parameters_sha256: Sha256
    reason: FreeText = ""
    requester: Requester = Requester()
    actor: Actor | None = Field(default=None, exclude_if=is_none)
    request: RequestIdentity | None = None


class ApprovalEscalated(StepEvent):
    """An approval waited for so long that further groups may answer."""

    parameters_sha256: Sha256
    to: tuple[str, ...] = Field(min_length=1)


class ParametersChanged(StepEvent):
    """An approver proposed other parameters, which other people have to approve before the action runs with them."""

    parameters_sha256: Sha256
    """The hash of the parameters that waited for approval until now."""
    parameters: JsonValues
    """The new parameters, as the action would get them."""
    reason: FreeText = ""
    actor: Actor | None = Field(default=None, exclude_if=is_none)
    request: RequestIdentity


class ActionStarted(TryEvent):
    """A worker claims the action; the action runs only if this claim is read back as accepted."""

    action: ActionName
    claim: str = Field(min_length=1, max_length=64)
    worker: str = Field(max_length=255)
    effect_class: EffectClass
    deadline_ms: Milliseconds
    """How long the claim is valid, from this event's broker time: the action's time limit plus grace."""
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


MAX_PREVIEWS = 5
MAX_SNIPPET = 300  # characters
MAX_NOTES = 8
MAX_NOTE = 200  # characters
MAX_LINKS = 20
MAX_SUMMARY = 200  # characters


class Preview(Model):
    """The beginning of one document, with findings about it."""

    name: FreeText = Field(max_length=255)
    mime: FreeText = Field(max_length=255)
    snippet: FreeText = Field(max_length=MAX_SNIPPET)
    url: FreeText | None = None
    relevance_score: int | None = Field(default=None, ge=0, le=1000)
    key_points: tuple[FreeText, ...] = ()
    entities: tuple[FreeText, ...] = ()


class Omitted(Model):
    """How much was cut; the full result stays in the content store."""

    previews: Count = 0
    notes: Count = 0
    characters: Count = 0


class Observation(Model):
    """The result of an action, small enough for a prompt (M-03)."""

    success: bool
    result_label: str
    documents_count: Count
    previews: tuple[Preview, ...] = Field(default=(), max_length=MAX_PREVIEWS)
    code: Code | None = None
    """Why the action did not succeed; None if it did."""
    unread: tuple[UnreadDocument, ...] = Field(default=(), max_length=MAX_NOTES)
    """At most 8, together with the notes."""
    notes: tuple[Annotated[FreeText, Field(max_length=MAX_NOTE)], ...] = Field(default=(), max_length=MAX_NOTES)
    links: tuple[FreeText, ...] = Field(default=(), max_length=MAX_LINKS)
    truncated: bool = False
    omitted: Omitted | None = None


class ObservationRecorded(StepEvent):
    """The observer summarised the action's result."""

    observation: Observation
    summary: FreeText = Field(max_length=MAX_SUMMARY)


Classification = Literal["success", "retry", "failed"]


class IterationTelemetry(Model):
    """The usage of one iteration: all its model calls together, including rejected ones (B-01)."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_nano_usd: Count = 0
    duration_ms: Milliseconds = 0


class RefinementDecided(StepEvent):
    """The refiner decided whether another step follows, and why."""

    decision: Literal["continue", "stop"]
    reason: FreeText = Field(max_length=2_000)
    code: Code | None = None
    """Why the loop stops; None if it continues."""
    hint: FreeText | None = Field(default=None, max_length=2_000)
    classification: Classification
    improvements: tuple[FreeText, ...] = ()
    criteria_progress: tuple[CriterionProgress, ...] = ()
    decided_by: DecidedBy = "model"
    iteration: IterationTelemetry = IterationTelemetry()
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()


class CallReserved(StageEvent):
    """A model is about to be called, and this is the most that the call may use of the budgets.

    It counts as used until an accepted event reports the call; a call that is never reported has used its maximum.
    """

    reservation: Number
    input_tokens: Tokens
    output_tokens: Tokens
    cost_nano_usd: NanoUsd
