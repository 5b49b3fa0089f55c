"""The events of a round: its tasks (in Actionplan mode with their actions), and how a task, a stage and a round end."""

from typing import Literal

from pydantic import Field

from poweron_events.actor import Actor
from poweron_events.codes import Code
from poweron_events.event import (
    MAX_CALLS,
    ActionName,
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
    RoundEvent,
    StageEvent,
    TaskEvent,
    TaskType,
    Tokens,
    is_empty,
    is_none,
)
from poweron_events.request import MAX_STEPS, RequestIdentity
from poweron_events.step_events import Classification, DecidedBy

MAX_TASKS = 10
MAX_CRITERIA = 10


class TaskPlan(Model):
    """One task: its goal, and the criteria of its success."""

    objective: FreeText = Field(min_length=1, max_length=2_000)
    success_criteria: tuple[FreeText, ...] = Field(min_length=1, max_length=MAX_CRITERIA)
    task_type: TaskType
    expected_formats: tuple[FreeText, ...] = ()
    max_steps: Number | None = None
    """The most steps for this task, if fewer than the round allows (1 for the formatting task)."""


class TasksPlanned(RoundEvent):
    """The planner divided the request into tasks."""

    tasks: tuple[TaskPlan, ...] = Field(min_length=1, max_length=MAX_TASKS)
    model_call: ModelCall
    failed_calls: FailedCallsByCode = ()


class PlannedAction(Model):
    """One action of a whole plan, with its references and parameters (Actionplan mode, deprecated)."""

    action: ActionName
    action_objective: FreeText
    learnings: tuple[FreeText, ...] = ()
    required_input_documents: tuple[FreeText, ...] = ()
    required_connection: str | None = None
    parameters: JsonValues = {}


class ActionsPlanned(TaskEvent):
    """The planner listed all actions of a task at once (Actionplan mode, deprecated)."""

    actions: tuple[PlannedAction, ...] = Field(min_length=1, max_length=MAX_STEPS)
    model_call: ModelCall
    failed_calls: FailedCallsByCode = ()


Stage = Literal["plan", "plan_actions", "select", "parameterize", "execute", "observe", "refine", "review"]
AskedStage = Literal["plan", "plan_actions", "refine", "review"]
MAX_MESSAGE = 8_000  # characters
MAX_TOLD = 2_000  # characters


class Totals(Model):
    """The usage of a round, over accepted events."""

    steps: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_nano_usd: Count = 0


class TaskReviewed(TaskEvent):
    """The reviewer judged the task against its success criteria."""

    status: Classification
    reason: FreeText = Field(default="", max_length=2_000)
    code: Code | None = None
    improvements: tuple[FreeText, ...] = ()
    criteria_progress: tuple[CriterionProgress, ...] = ()
    decided_by: DecidedBy = "model"
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()


class AnswerRejected(StageEvent):
    """The model's plan, refinement or review was rejected; after the second rejected answer, code decides.

    Selections and parameters have rejection events of their own.
    """

    try_: Number = Field(alias="try")
    stage: AskedStage
    reason: FreeText = Field(max_length=2_000)
    detail: FreeText = Field(default="", max_length=2_000)
    """More about the reason, for the log; never shown to a model."""
    code: Code | None = None
    model_call: ModelCall
    failed_calls: FailedCallsByCode = ()


class StageFailed(StageEvent):
    """A stage failed; the round will end as failed."""

    stage: Stage
    error: FreeText = Field(max_length=4_000)
    code: Code | None = None
    tries: Number
    model_calls: tuple[ModelCall, ...] = Field(default=(), max_length=MAX_CALLS)
    """Calls that were answered, but whose answers could not be stored, or not recorded in an event of their own."""
    failed_calls: FailedCallsByCode = ()


class BudgetRequested(StageEvent):
    """A budget has no room for the next call of a stage; the round waits until a person grants more."""

    question: Number
    stage: Stage
    code: Code
    reason: FreeText = Field(max_length=2_000)
    """Which budget it is, what was used of it, and what the next call may take."""
    totals: Totals
    """What the round has used so far."""
    expires_ms: Milliseconds
    failed_calls: FailedCallsByCode = ()


class BudgetGranted(StageEvent):
    """The round may use more: every limit of tokens or money of the task, the round and the workflow rises by that.

    Without `request`, no one granted it: a daily limit was reached, and the next day has begun.
    """

    question: Number
    tokens: Tokens = 0
    cost_nano_usd: NanoUsd = 0
    reason: FreeText = ""
    actor: Actor | None = Field(default=None, exclude_if=is_none)
    request: RequestIdentity | None = None


class BudgetDenied(StageEvent):
    """A person granted no more, or did not answer in time: the round ends as if it had not asked."""

    question: Number
    reason: FreeText = ""
    actor: Actor | None = Field(default=None, exclude_if=is_none)
    request: RequestIdentity | None = None


class DeadlinePassed(RoundEvent):
    """The round's deadline passed."""

    which: Literal["round"] = "round"
    due_ms: Milliseconds
    """Broker time of the opening plus the round's deadline and the time people took to decide, in ms since 1970."""
    moves: int = Field(default=0, ge=0, le=2**31 - 1, exclude_if=is_empty)
    """How often pauses and budget questions had moved the deadline when this was written."""


class RoundEnd(RoundEvent):
    """What every ending reports to the person who asked."""

    message: FreeText = Field(max_length=MAX_MESSAGE)
    told: FreeText | None = Field(default=None, min_length=1, max_length=MAX_TOLD, exclude_if=is_empty)
    """What models of later rounds see instead of the message, if the message names something for people only."""
    documents: tuple[DocumentRef, ...] = Field(default=(), max_length=100)
    totals: Totals
    model_calls: tuple[ModelCall, ...] = Field(default=(), max_length=MAX_CALLS)
    failed_calls: FailedCallsByCode = ()


class RoundCompleted(RoundEnd):
    """The round completed the request, as far as the sources allow it."""


class RoundFailed(RoundEnd):
    """The round ended without doing what the user asked for."""

    reason: FreeText = Field(max_length=4_000)
    code: Code | None = None


class RoundCancelled(RoundEnd):
    """The round was stopped on request."""

    reason: FreeText = Field(default="", max_length=4_000)
