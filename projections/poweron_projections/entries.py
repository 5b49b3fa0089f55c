"""Entries: the frozen models that readers of the rows receive, camelCase on the wire."""

import base64
from typing import Annotated, Literal

from pydantic import Field, JsonValue, PlainSerializer

from poweron_events.actor import Actor
from poweron_events.event import DocumentRef, Model, UnreadDocument
from poweron_events.fold.state import Place
from poweron_events.instance_events import InstanceStarted
from poweron_events.policy import ANYONE, AnswerTerms, Policy

WorkflowStatus = Literal["running", "paused", "completed", "failed", "cancelled", "never_opened"]


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


class WorkflowSummary(Model):
    """One workflow of the list: the first prompt, and the current state."""

    workflow_id: str
    status: WorkflowStatus
    phase: str
    stopped_by: str | None
    """The code that says why the last round ended, or is ending."""
    frozen: bool
    stuck: bool
    """Whether no role works on it any more, because three events for its current state had no effect."""
    prompt: str | None
    workflow_mode: str | None
    max_steps: int | None
    current_round: int
    current_task: int
    attempt: int
    current_step: int
    current_action: int
    """The number of actions in all attempts at the current task, as in the newest result's label."""
    message: str | None
    """The final message of the last round; None while it runs."""
    steps: int
    tokens: int
    cost_nano_usd: int
    seq: int
    """The number of the workflow's records."""
    opened: str
    updated: str
    paused: str | None = None
    """Since when its round is paused; None if it is not."""
    pause_reason: str | None = None
    pause_actor: Actor | None = None
    """Who paused it."""
    budget_question: int | None = None
    """The number of the question for a larger budget that it waits with; None if it waits with none."""
    budget_reason: str | None = None
    forked_from: str | None
    """The workflow that it was forked from; None if it is not a fork."""
    forked_seq: int | None
    """The event of that workflow from which it continues."""
    restarted_from: str | None = None
    """The workflow whose request it repeats; None if it repeats none."""
    restarted_as: tuple[str, ...] = ()
    """The workflows that repeat its request."""
    cursor: str
    """Identifies this entry: the next page of the list begins after it."""


class RoundSummary(Model):
    """One round: what was asked and how it ended."""

    round: int
    prompt: str
    actor: Actor | None = None
    """Who asked for it; None if an older release recorded it."""
    workflow_mode: str
    max_steps: int
    status: str
    reason: str
    stopped_by: str | None
    message: str | None
    steps: int
    input_tokens: int
    output_tokens: int
    cost_nano_usd: int
    duration_ms: int | None
    opened: str


class TaskEntry(Model):
    """One task of a round."""

    round: int
    task: int
    objective: str
    task_type: str
    success_criteria: tuple[str, ...]
    status: str
    attempts: int
    retries: int
    actions: int
    tokens: int
    criteria_progress: JsonValue
    reason: str
    stopped_by: str | None


class StepEntry(Model):
    """One iteration of the loop."""

    round: int
    task: int
    attempt: int
    step: int
    status: str
    action: str | None
    objective: str | None
    parameters: JsonValue
    approval: str | None
    approval_by: str | None
    approval_actor: Actor | None = None
    approval_reason: str | None
    refusals: tuple[str, ...]
    tries: int
    success: bool | None
    outcome: str | None
    error: str | None
    error_code: str | None
    result_label: str | None
    decision: str | None
    decision_reason: str | None
    classification: str | None
    hint: str | None
    stopped_by: str | None
    input_tokens: int
    output_tokens: int
    cost_nano_usd: int
    duration_ms: int | None

    @property
    def place(self) -> Place:
        """The round, task, attempt and step."""
        return self.round, self.task, self.attempt, self.step


class ApprovalEntry(Model):
    """One action that waits for a person's approval, with everything that the decision is about."""

    workflow_id: str
    round: int
    task: int
    attempt: int
    step: int
    action: str
    objective: str
    parameters: JsonValue
    parameters_sha256: str
    prompt: str
    actor: Actor | None = None
    """Who asked for the round."""
    asked: str
    expires: str
    escalates: str | None = None
    """When further groups may answer; None if never, or if they already may."""
    terms: AnswerTerms = ANYONE
    """Who may answer, and who has."""

    @property
    def place(self) -> Place:
        """The round, task, attempt and step."""
        return self.round, self.task, self.attempt, self.step


class PolicyEntry(Model):
    """A policy that was applied."""

    number: int
    sha256: str
    previous: str | None
    """The SHA-256 of the policy that it replaced; None for the first one."""
    name: str
    policy: Policy
    reason: str
    actor: Actor
    time: str


class InstanceEntry(Model):
    """A process: what it recorded when it started, and when it ended."""

    instance: str
    record: InstanceStarted
    started: str
    ended: str | None
    """None if it is running, or was killed."""


class HistoryEntry(Model):
    """One message of the history."""

    seq: int
    round: int
    prompt: str
    """The prompt of its round."""
    task: int
    attempt: int
    step: int
    kind: str
    action: str | None
    status: str
    success: bool | None
    message: str
    summary: str
    review_reason: str | None
    """Why the review of an attempt gave its status; None if the message is not about a review."""
    documents_label: str | None
    documents: tuple[DocumentRef, ...]
    references: tuple[str, ...]
    """Its documents as models name them: `docList:<label>` if there is a label, then each `docItem:<id>:<name>`."""
    error: str
    findings: tuple[str, ...]
    links: tuple[str, ...]
    """Addresses that appear in the result and may be read next."""
    unread: tuple[UnreadDocument, ...]
    unread_left_out: int
    learnings: tuple[str, ...]
    actor: Actor | None = None
    """Who asked for the round, or cancelled it; None for every other message."""
    time: str


class LoggedMessage(HistoryEntry):
    """One message of a history, which names its workflow."""

    workflow_id: str


class EventEntry(Model):
    """One record of a workflow, with its verdict and its payload."""

    seq: int
    type: str
    verdict: str
    partition: int
    offset: int
    time: str
    id: str
    source: str
    """The role and the process that wrote it: `/poweron/<role>/<instance>`."""
    causationid: str | None
    sha256: str
    data: JsonValue


class LoggedEvent(EventEntry):
    """One record of the log, which names its workflow."""

    workflow_id: str


class DocumentEntry(DocumentRef):
    """One document, under the label that names it."""

    round: int
    label: str
    seq: int


class UsageEntry(Model):
    """One model call that was answered, or `tries` calls that failed with this `code`."""

    seq: int
    verdict: str
    type: str
    provider: str
    model: str
    template: str
    template_sha256: str
    prompt_ref: str | None
    answer_ref: str | None
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int
    duration_ms: int
    tries: int
    finish_reason: str | None
    code: str | None
    usage_estimated: bool


class BudgetEntry(Model):
    """A round that asks for a larger budget, with everything that the decision is about."""

    workflow_id: str
    round: int
    task: int
    attempt: int
    step: int
    question: int
    code: str
    """The budget that has no room for the next call: `token_budget`, `cost_budget` or `daily_limit`."""
    reason: str
    prompt: str
    actor: Actor | None = None
    """Who asked for the round."""
    steps: int
    input_tokens: int
    output_tokens: int
    cost_nano_usd: int
    """What the round has used so far."""
    expires: str
    terms: AnswerTerms = ANYONE
    """Who may answer."""

    @property
    def place(self) -> Place:
        """The round, task, attempt and step."""
        return self.round, self.task, self.attempt, self.step


class DeadLetterEntry(Model):
    """One unreadable record."""

    topic: str
    partition: int
    offset: int
    reason: str
    size: int
    raw: Annotated[bytes | None, PlainSerializer(_base64, str | None, when_used="json")] = Field(repr=False)
    """Its bytes, which may be anything, so JSON has them as base64; None if they were too many."""
    time: str
