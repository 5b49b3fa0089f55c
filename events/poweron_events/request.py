"""The requests that any client may send, and the events in which intake records them.

A request is identified by its CloudEvent (source, id): the same pair is the same request, and
`workflow_id(source, id)` is the workflow that it opens, which the sender can compute in advance.
"""

import base64
import uuid
from typing import Annotated, Final, Literal

from pydantic import Discriminator, FailFast, Field, Tag, field_validator

from poweron_events.actor import Actor
from poweron_events.codes import Code
from poweron_events.event import (
    ActionPattern,
    Base64,
    Commitment,
    Count,
    DocumentRef,
    Event,
    FreeText,
    JsonValues,
    Milliseconds,
    Model,
    NanoUsd,
    Number,
    RoundEvent,
    Sha256,
    StageEvent,
    StepEvent,
    TaskType,
    Tokens,
    is_empty,
    is_none,
)
from poweron_events.policy import Policy, PolicyTerms

NAMESPACE = uuid.UUID("4c0f5d0e-7f0b-5a53-9d5c-6d3f9f1b8a60")
"""The UUID namespace of every id that PowerOn derives: workflow ids, event ids, idempotency keys."""

LAWS = 3
"""The newest transition rules that `fold.evolve` applies; the rules under a number never change.

2: an approval is requested and answered with the hash of the step's parameters; another hash has no effect.
3: the opening carries the rules of a policy, which decide whose approvals count, and how many it takes.
"""

WITHOUT_POLICY = 2
"""The transition rules of a round that is opened without a policy; releases before 0.4 know them, too."""

POLICY_ID: Final = str(uuid.uuid5(NAMESPACE, "policy"))
"""The key of the policies in the log, where other events have the id of their workflow."""

MINUTE = 60_000  # milliseconds
MAX_PROMPT = 20_000  # characters
MAX_STEPS = 100
MAX_REASON = 1_000  # characters, of a request
MAX_DOCUMENTS = 100
MAX_INLINE_DOCUMENT = 700_000  # bytes, before base64

WorkflowMode = Literal["React", "Actionplan"]
RefusalReason = Literal["invalid", "unknown_workflow", "no_such_round", "round_open", "round_ended"]


def workflow_id(source: str, request_id: str) -> str:
    """Return the id of the workflow that the request (source, id) opens: uuid5(NAMESPACE, "source|id")."""
    return str(uuid.uuid5(NAMESPACE, f"{source}|{request_id}"))


class RequestIdentity(Model):
    """The CloudEvent `source` and `id` of a request: the same pair is the same request.

    A URI contains no `|`, so "source|id" names exactly one pair.
    """

    source: str = Field(min_length=1, max_length=255, pattern=r"^[^|]*$")
    id: str = Field(min_length=1, max_length=255)


class Requester(Model):
    """The person on whose behalf the request is made."""

    name: FreeText = Field(default="", max_length=255)
    language: str | None = Field(default=None, max_length=35)


class Budgets(Model):
    """The budgets of a task, a round and a workflow with all its rounds; None means no limit.

    Durations are in broker time, without pauses and the time that people take to answer. A further round keeps the
    limits of the previous round unless it sets its own, except for the budget of the round, which is always its own.
    """

    task_tokens: Tokens | None = None
    task_cost_nano_usd: NanoUsd | None = None
    task_duration_ms: Milliseconds | None = None
    round_tokens: Tokens | None = Field(default=None, exclude_if=is_none)
    round_cost_nano_usd: NanoUsd | None = Field(default=None, exclude_if=is_none)
    workflow_tokens: Tokens | None = None
    workflow_cost_nano_usd: NanoUsd | None = None
    workflow_steps: Count | None = None
    workflow_retries: Count | None = None

    def of_next_round(self, own: "Budgets") -> "Budgets":
        """Return the budgets of a following round that sets `own`."""
        kept = self.model_dump(exclude={"round_tokens", "round_cost_nano_usd"})
        return Budgets(**{**kept, **own.model_dump(exclude_none=True)})


OnBudget = Literal["ask", "stop"]
"""What a round does if a budget of tokens or money has no room for the next call: ask for more, or end."""


class Limits(Model):
    """How far a round may go before it ends by itself. Durations are counted in broker time."""

    max_steps: int = Field(default=5, ge=1, le=MAX_STEPS)
    max_retries: int = Field(default=2, ge=0, le=10)
    deadline_ms: int = Field(default=30 * MINUTE, ge=1_000, le=30 * 24 * 60 * MINUTE)
    stage_timeout_ms: int = Field(default=5 * MINUTE, ge=1_000, le=24 * 60 * MINUTE)
    budgets: Budgets = Budgets()
    on_budget: OnBudget = Field(default="stop", exclude_if=lambda value: value == "stop")


MAX_PATTERNS: Final = 100


class Terms(Limits):
    """What a round is asked to do and within which limits: shared by requests and openings."""

    prompt: FreeText = Field(min_length=1, max_length=MAX_PROMPT, pattern=r"\S")
    allowed_methods: dict[TaskType, tuple[Annotated[str, Field(max_length=100)], ...]] = {}
    denied_methods: tuple[Annotated[str, Field(max_length=100)], ...] = Field(default=(), max_length=100)
    user_language: str | None = Field(default=None, max_length=35)
    connections: tuple[Annotated[str, Field(max_length=100)], ...] = Field(default=(), max_length=100)
    approve: tuple[ActionPattern, ...] = Field(default=(), max_length=MAX_PATTERNS)
    requester: Requester = Requester()
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class ForkedFrom(Model):
    """The workflow and the record that a fork continues from."""

    workflow: str
    seq: Count
    head: str
    live: bool = Field(default=False, exclude_if=is_empty)
    """Whether actions run for which the forked workflow has no result."""
    answer: Commitment | None = Field(default=None, exclude_if=is_none)
    """The answer that the actor of the request gives, instead of a model, to the first decision not taken over."""
    model: str | None = Field(default=None, min_length=1, max_length=300, exclude_if=is_none)
    """The model that decides from there on, instead of the configured ones."""


# --- what a sender writes to `poweron.requests` ---------------------------------------------------


class InlineDocument(Model):
    """A document inside the request, at most 700 kB."""

    document_name: FreeText = Field(min_length=1, max_length=255)
    mime_type: FreeText = Field(default="application/octet-stream", max_length=255)
    data: Base64

    @field_validator("data")
    @classmethod
    def _small_enough(cls, data: bytes) -> bytes:
        if len(data) > MAX_INLINE_DOCUMENT:
            raise ValueError(f"an inline document may take {MAX_INLINE_DOCUMENT} bytes; put larger ones into the store")
        return data

    @classmethod
    def of(cls, document_name: str, data: bytes, mime_type: str = "application/octet-stream") -> "InlineDocument":
        """Create a document from its plain bytes."""
        return cls(document_name=document_name, data=base64.b64encode(data), mime_type=mime_type)


class StoredDocument(Model):
    """A document that the sender has already put into the content store of the workflow."""

    document_name: FreeText = Field(min_length=1, max_length=255)
    mime_type: FreeText = Field(default="application/octet-stream", max_length=255)
    content: Commitment


def _how(given: object) -> str:
    """Return `stored` if a commitment is given, otherwise `inline`, so that an error mentions only one of them."""
    stored = "content" in given if isinstance(given, dict) else isinstance(given, StoredDocument)
    return "stored" if stored else "inline"


GivenDocument = Annotated[
    Annotated[InlineDocument, Tag("inline")] | Annotated[StoredDocument, Tag("stored")], Discriminator(_how)
]


GivenDocuments = Annotated[tuple[GivenDocument, ...], FailFast(), Field(max_length=MAX_DOCUMENTS)]
"""Validation stops at the first invalid document, so that a million of them are refused as quickly as one."""


class RequestWorkflow(Event, Terms):
    """A sender asks for work: opens a workflow and its first round."""

    workflow_mode: WorkflowMode = "React"
    documents: GivenDocuments = ()
    forked_from: ForkedFrom | None = Field(default=None, exclude_if=is_empty)
    restarted_from: str | None = Field(default=None, max_length=64, exclude_if=is_none)


class RequestRound(Event, Terms):
    """A sender follows up on a workflow: opens the round after `after_round`."""

    workflow_id: str = Field(max_length=64)
    after_round: Number
    workflow_mode: WorkflowMode = "React"
    documents: GivenDocuments = ()
    forked_from: ForkedFrom | None = Field(default=None, exclude_if=is_empty)


class RequestCancellation(Event):
    """A sender asks for a round to be stopped."""

    workflow_id: str = Field(max_length=64)
    round: Number
    reason: FreeText = Field(default="", max_length=MAX_REASON)
    requester: Requester = Requester()
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class RequestApproval(StepEvent):
    """A person approves or denies the action of a waiting step with exactly these parameters, or proposes others."""

    workflow_id: str = Field(max_length=64)
    parameters_sha256: Sha256
    decision: Literal["approve", "deny"]
    reason: FreeText = Field(default="", max_length=MAX_REASON)
    requester: Requester = Requester()
    actor: Actor | None = Field(default=None, exclude_if=is_none)
    changed_parameters: JsonValues | None = Field(default=None, exclude_if=is_none)
    """All parameters as the approver proposes them, for others to approve; None to propose nothing."""


class RequestBudget(StageEvent):
    """A person grants what a budget question asks for, or denies it."""

    workflow_id: str = Field(max_length=64)
    question: Number
    decision: Literal["approve", "deny"]
    tokens: Tokens = 0
    cost_nano_usd: NanoUsd = 0
    reason: FreeText = Field(default="", max_length=MAX_REASON)
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class _OpenRoundRequest(Event):
    """What a sender asks about an open round, on whose behalf and why."""

    workflow_id: str = Field(max_length=64)
    round: Number
    reason: FreeText = Field(default="", max_length=MAX_REASON)
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class RequestPause(_OpenRoundRequest):
    """A sender asks for a round to be paused: what runs is finished, and nothing new begins."""


class RequestResume(_OpenRoundRequest):
    """A sender asks for a paused round to go on."""


class RequestPolicy(Event):
    """A sender asks for a policy to be applied to all rounds that are opened from then on."""

    workflow_id: str = Field(default=POLICY_ID, pattern=f"^{POLICY_ID}$")
    policy: Policy
    previous: Sha256 | None = Field(default=None, exclude_if=is_none)
    """SHA-256 of the policy to replace; refused if another one is current. None to replace any policy."""
    reason: FreeText = Field(default="", max_length=MAX_REASON)
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class RequestRules(_OpenRoundRequest):
    """A sender asks for the current policy to be applied to a round that is already open."""


# --- what intake writes to `poweron.events` --------------------------------------------------------


class LabelledDocuments(Model):
    """The documents of one label."""

    label: str = Field(min_length=1, max_length=255)
    documents: tuple[DocumentRef, ...] = Field(min_length=1, max_length=MAX_DOCUMENTS)


class LeftOutList(Model):
    """A label whose documents are left out, and their number."""

    label: str = Field(min_length=1, max_length=255)
    count: Count


class Spent(Model):
    """The usage of the earlier rounds that counts towards the workflow's budgets, over accepted events."""

    steps: Count = 0
    retries: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_nano_usd: Count = 0


class EarlierRounds(Model):
    """The compact history of the earlier rounds and their documents, so that a round needs nothing older."""

    last_round: Number
    history: FreeText = Field(default="", max_length=8_000)
    history_left_out: Count = Field(default=0, exclude_if=is_empty)
    """The number of older messages that the history has no room for."""
    history_ref: Commitment | None = None
    documents: tuple[LabelledDocuments, ...] = Field(default=(), max_length=MAX_DOCUMENTS)
    documents_left_out: Count = 0
    lists_left_out: tuple[LeftOutList, ...] = Field(default=(), max_length=MAX_DOCUMENTS, exclude_if=is_empty)
    """The labels of the documents that are left out, as many as there is room for."""
    spent: Spent = Spent()


class AgreedTerms(Terms):
    """The terms as intake accepts them."""

    user_language_detected: bool = Field(default=False, exclude_if=is_empty)
    """Whether the language was detected in a prompt of the workflow, not requested; a later prompt may replace it."""
    policy: PolicyTerms | None = Field(default=None, exclude_if=is_none)
    """The rules of the policy under which the round was opened; None if there was no policy."""


def own_budgets(opening: AgreedTerms) -> Budgets:
    """Return the budgets of a round without those that its policy set, for a round under another policy."""
    budgets, limits = opening.budgets, opening.policy.limits if opening.policy else None
    if limits is None:
        return budgets
    unset: dict[str, None] = {}
    if budgets.workflow_tokens == limits.tokens:
        unset["workflow_tokens"] = None
    if budgets.workflow_cost_nano_usd == limits.cost_nano_usd:
        unset["workflow_cost_nano_usd"] = None
    return budgets.model_copy(update=unset)


class WorkflowRequested(RoundEvent, AgreedTerms):
    """Intake opened a workflow and its first round."""

    laws: Number = WITHOUT_POLICY
    workflow_mode: WorkflowMode = "React"
    documents: tuple[DocumentRef, ...] = ()
    request: RequestIdentity
    forked_from: ForkedFrom | None = None
    restarted_from: str | None = Field(default=None, max_length=64, exclude_if=is_none)
    """The workflow whose request this one repeats; nothing of its work is reused."""


class RoundRequested(RoundEvent, AgreedTerms):
    """Intake opened a further round of a workflow."""

    laws: Number = WITHOUT_POLICY
    workflow_mode: WorkflowMode = "React"
    documents: tuple[DocumentRef, ...] = ()
    request: RequestIdentity
    earlier: EarlierRounds
    forked_from: ForkedFrom | None = Field(default=None, exclude_if=is_empty)


class CancellationRequested(RoundEvent):
    """Intake accepted a request to stop the round."""

    request: RequestIdentity
    reason: FreeText = ""
    requester: Requester = Requester()
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class RoundPaused(RoundEvent):
    """Intake accepted a request to pause the round: its time limits are suspended, and nothing new begins."""

    request: RequestIdentity
    reason: FreeText = ""
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class RoundResumed(RoundEvent):
    """Intake accepted a request to go on with the paused round."""

    request: RequestIdentity
    reason: FreeText = ""
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class PolicyApplied(Event):
    """Intake applied a policy to all rounds that are opened from now on."""

    number: Number
    policy: Policy
    sha256: Sha256
    """SHA-256 of the policy as canonical JSON."""
    previous: Sha256 | None = None
    """SHA-256 of the policy that it replaces; None for the first one, which anyone may apply."""
    reason: FreeText = ""
    actor: Actor
    request: RequestIdentity


class RulesChanged(RoundEvent):
    """Intake applied the rules of a newer policy to an open round."""

    policy: PolicyTerms
    reason: FreeText = ""
    actor: Actor | None = Field(default=None, exclude_if=is_none)
    request: RequestIdentity


class RequestRefused(Event):
    """Intake refused a request; it has no other effect."""

    request: RequestIdentity
    reason: RefusalReason
    code: Code | None = None
    """The reason in finer detail."""
    detail: FreeText = Field(default="", max_length=2_000)
    actor: Actor | None = Field(default=None, exclude_if=is_none)
    """Who sent the request; None if that cannot be read, and in records of releases before 0.4."""

    @property
    def precise_code(self) -> Code:
        """The code or, if there is none, the reason, which is a code too."""
        return self.code or self.reason


class DocumentErased(Event):
    """Content was erased from the content store; the events that name it remain."""

    documents: tuple[str, ...] = Field(min_length=1)
    reason: FreeText
    legal_basis: FreeText = ""
    requester: Requester = Requester()
    request: RequestIdentity
