"""The state of a workflow: a fold over its events.

No clock, no random id, no log line, no await: the same events always give the same `Workflow`.
Audit replay depends on that. A workflow has rounds, a round has tasks, a task has attempts, an attempt
has steps, a step has one action; only the open round is kept in full.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypedDict, TypeVar

from poweron_events.actor import Actor
from poweron_events.codec import dumps, sha256
from poweron_events.codes import Code
from poweron_events.envelope import Cause
from poweron_events.event import (
    AnyCall,
    CriterionProgress,
    DocumentRef,
    FreeText,
    Model,
    StageEvent,
    StepEvent,
    UnreadDocument,
)
from poweron_events.instance_events import InstanceStarted
from poweron_events.policy import AppliedPolicy, PolicyTerms, Rule
from poweron_events.request import RequestIdentity, RoundRequested, WorkflowRequested
from poweron_events.round_events import AnswerRejected, PlannedAction, TaskPlan, Totals
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ApprovalDenied,
    ApprovalGranted,
    EffectClass,
    ObservationRecorded,
    ParametersRejected,
    ParametersSet,
    SelectionRejected,
)

_REQUEST_LABEL = re.compile(r"round[1-9][0-9]*_request")
PAUSED: Final = "paused"
"""The code of an action that did not begin because its round was paused: its step is as ready as before the claim."""
STUCK_AFTER = 3  # events that respond to one head and have no effect

Phase = Literal[
    "none",
    "plan",
    "plan_actions",
    "select",
    "parameterize",
    "ready",
    "approve",
    "started",
    "draining",
    "observe",
    "refine",
    "review",
    "closing",
    "ended",
]
"""What the workflow waits for; `draining` waits for a started action after the round was stopped."""

Verdict = Literal["accepted", "superseded", "unknown"]
"""`unknown`: an event of a newer catalogue, which only a newer release can judge."""

Place = tuple[int, int, int, int]
"""(round, task, attempt, step)."""

Ending = Literal["completed", "failed", "cancelled"]
MessageKind = Literal["workflow_start", "task_start", "step", "task_end", "round_end"]
MessageStatus = Literal["first", "step", "last"]
Opening = WorkflowRequested | RoundRequested
Rejection = AnswerRejected | SelectionRejected | ParametersRejected
"""A model's answer that could not be used."""
MAX_REFUSALS = 2  # per model; after the refusals of the last model, code decides or the task is reviewed


Fields = TypeVar("Fields", bound=tuple[Any, ...])


def quick_replace(named_tuple: type[Fields]) -> type[Fields]:
    """Let a named tuple replace few of many fields: its own `_replace` looks for each field among the changes."""
    places = {name: place for place, name in enumerate(named_tuple._fields)}  # type: ignore[attr-defined] # a named tuple

    def replaced(self: Fields, /, **changes: object) -> Fields:
        values = [*self]
        for name, value in changes.items():
            values[places[name]] = value
        return tuple.__new__(named_tuple, values)

    named_tuple._replace = replaced  # type: ignore[attr-defined] # as above
    return named_tuple


class ChatMessage(Model):
    """One entry of the history, written once for every event that a person would want to know about (M-06)."""

    seq: int
    time_ms: int
    kind: MessageKind
    status: MessageStatus
    round: int
    task: int = 0
    attempt: int = 0
    step: int = 0
    action: str | None = None
    success: bool | None = None
    message: FreeText
    summary: FreeText = ""
    documents_label: str | None = None
    documents: tuple[DocumentRef, ...] = ()
    error: FreeText = ""
    """Why the step failed, if the reason is for people only; never shown to a model."""
    told: FreeText | None = None
    """What models see instead of the message; None if they see the message."""
    findings: tuple[FreeText, ...] = ()
    links: tuple[str, ...] = ()
    """Addresses that appear in the result of the step and may be read next."""
    unread: tuple[UnreadDocument, ...] = ()
    unread_left_out: int = 0
    learnings: tuple[FreeText, ...] = ()
    actor: Actor | None = None
    """Who asked for the round, or cancelled it; never shown to a model."""


class Start(NamedTuple):
    """An accepted claim on the action: its token, and how long it is valid (broker time)."""

    cause: Cause
    claim: str
    effect_class: EffectClass
    time_ms: int
    deadline_ms: int
    given_up: bool = False
    """A pause came before the action began: the claim cannot have another end."""

    @property
    def due_ms(self) -> int:
        return self.time_ms + self.deadline_ms


class Used(NamedTuple):
    """What model calls used: tokens, nano-USD, ms."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    duration_ms: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @classmethod
    def by(cls, calls: Iterable[AnyCall]) -> "Used":
        """Return what these calls used together."""
        used = [cls(call.input_tokens, call.output_tokens, call.cost_nano_usd, call.duration_ms) for call in calls]
        return used[0] if len(used) == 1 else sum(used, cls())

    def __add__(self, other: "Used") -> "Used":  # type: ignore[override] # sums, where a tuple would grow longer
        return Used(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_nano_usd + other.cost_nano_usd,
            self.duration_ms + other.duration_ms,
        )

    def __sub__(self, other: "Used") -> "Used":
        return Used(*(ours - theirs for ours, theirs in zip(self, other, strict=True)))


class Reservation(NamedTuple):
    """A model call that no event has reported yet: its number, its task (0 for none) and the most that it can use."""

    number: int
    task: int
    most: Used


@quick_replace
class Step(NamedTuple):
    """One iteration of the loop."""

    number: int
    try_: int = 1
    refusals: tuple[SelectionRejected | ParametersRejected, ...] = ()
    selection: ActionSelected | None = None
    parameters: ParametersSet | None = None
    approval: Literal["asked", "granted", "denied"] | None = None
    approval_due_ms: int = 0
    escalation_due_ms: int = 0
    """When further groups may answer (broker time); 0 if they never may, or already do."""
    escalated: bool = False
    approved_by: tuple[Actor, ...] = ()
    """Who has approved the parameters so far."""
    proposed_by: Actor | None = None
    """The approver who changed the parameters; None if they are as the parameterizer set them."""
    answer: ApprovalGranted | ApprovalDenied | None = None
    starts: tuple[Start, ...] = ()
    completed: ActionCompleted | None = None
    observation: ObservationRecorded | None = None
    used: Used = Used()

    @property
    def newest_try(self) -> int:
        """The number of the newest try whose claim no pause has ended; 0 if there is none."""
        return max((number for number, start in enumerate(self.starts, start=1) if not start.given_up), default=0)

    @property
    def newest_start(self) -> Start:
        """The claim of the newest try; read it only while an action is claimed."""
        return self.starts[self.newest_try - 1]


@quick_replace
class Task(NamedTuple):
    """The current task. `actions`, `retries`, `waited_ms`, `used` and `progress` count over all its attempts."""

    number: int
    plan: TaskPlan
    attempt: int = 1
    actions: int = 0
    retries: int = 0
    began_ms: int = 0
    waited_ms: int = 0
    used: Used = Used()
    announced: bool = False
    refused: SelectionRejected | ParametersRejected | None = None
    """The second refusal in a row, which ends the attempt."""
    stopped: FreeText = ""
    """Why the last refinement stopped the attempt, as a sentence."""
    stop_code: Code | None = None
    """The same reason as a code."""
    hint: str | None = None
    improvements: tuple[str, ...] = ()
    progress: tuple[CriterionProgress, ...] = ()
    planned: tuple[PlannedAction, ...] = ()
    step: Step = Step(1)


class Pause(NamedTuple):
    """A pause of the round: since when (broker time), why, and who asked for it."""

    since_ms: int
    reason: FreeText
    actor: Actor | None


class BudgetQuestion(NamedTuple):
    """A question for a larger budget: its number in the round, which budget, and when it expires (broker time)."""

    number: int
    code: Code
    reason: FreeText
    due_ms: int


class Grant(NamedTuple):
    """What a person granted beyond the budgets of the opening, and where the round was then."""

    place: Place
    tokens: int
    cost_nano_usd: int
    phase: Phase
    before: Used
    """What the round had used before."""


@quick_replace
class Round(NamedTuple):
    """The open round, or the last one that ended.

    `usage` and the task's `used` hold what accepted events report plus, for each of `reservations`, the most that its
    call can use. `steps` counts the selected steps, `reserved` is the number of the last reservation.
    `attempt_ms` and `step_ms` are when the current attempt and step began (broker time); `traceparent` is the
    trace context of the opening. No verdict depends on these three.
    """

    number: int
    opening: Opening
    opened_ms: int
    traceparent: str | None = None
    attempt_ms: int = 0
    step_ms: int = 0
    tasks: tuple[TaskPlan, ...] = ()
    task: Task | None = None
    steps: int = 0
    usage: Used = Used()
    reservations: tuple[Reservation, ...] = ()
    reserved: int = 0
    retries: int = 0
    ending: Ending | None = None
    reason: str = ""
    code: Code | None = None
    """Why the round ends; None while it is running."""
    cancelled_by: Actor | None = None
    rejected: tuple[AnswerRejected, ...] = ()
    policy: PolicyTerms | None = None
    """The rules of the policy that applies to the round; None if there was none when it was opened."""
    messages: tuple[ChatMessage, ...] = ()
    waited_ms: int = 0
    question: BudgetQuestion | None = None
    """The budget question that the round waits with; None if it waits with none."""
    grants: tuple[Grant, ...] = ()
    budget_denied: bool = False
    """Whether a larger budget was denied: the round does not ask again."""
    pause: Pause | None = None
    pause_requests: tuple[RequestIdentity, ...] = ()
    """The requests that paused or resumed the round; each counts once, however late it is repeated."""

    @property
    def moves(self) -> int:
        """How often pauses and budget questions have moved the deadline of the round."""
        return len(self.pause_requests) + len(self.grants) + self.budget_denied

    @property
    def totals(self) -> Totals:
        """The round's steps, tokens and cost."""
        return Totals(
            steps=self.steps,
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            cost_nano_usd=self.usage.cost_nano_usd,
        )

    @property
    def due_ms(self) -> int:
        """When the round's time is over; pauses and the time that people take to approve or deny do not count."""
        return self.opened_ms + self.opening.deadline_ms + self.waited_ms


class Instance(NamedTuple):
    """A process that has started, and when it ended (broker times); None if it is running, or was killed."""

    started: InstanceStarted
    started_ms: int
    ended_ms: int | None = None


@quick_replace
class Workflow(NamedTuple):
    """The state of a workflow after its events so far. `openings` holds the offset of each round's opening."""

    id: str
    phase: Phase = "none"
    openings: tuple[int, ...] = ()
    round: Round | None = None
    head: Cause | None = None
    head_ms: int = 0
    frozen: bool = False
    superseded: frozenset[str] = frozenset()
    """The hashes of records that responded to `head` without effect: roles and fold disagree, or one was forged."""
    seq: int = 0
    last: int = -1
    policy: AppliedPolicy | None = None
    """The newest policy, under the key of the policies; other keys have none."""
    instance: Instance | None = None
    """The process, under the key of an instance; other keys have none."""

    @property
    def is_open(self) -> bool:
        return self.phase not in ("none", "ended")

    @property
    def is_paused(self) -> bool:
        """Whether nothing new may begin until the round is resumed; what runs is finished."""
        return self.is_open and self.current.pause is not None

    @property
    def asks_for_budget(self) -> bool:
        """Whether the round waits for a person to grant a larger budget."""
        return self.is_open and self.current.question is not None

    @property
    def stuck(self) -> bool:
        """Whether the roles have given up: only a cancellation or the round's deadline moves the workflow on."""
        return self.is_open and len(self.superseded) >= STUCK_AFTER

    @property
    def current(self) -> Round:
        """The current round; read it only while the workflow is open."""
        assert self.round is not None
        return self.round

    @property
    def task(self) -> Task:
        """The current task; read it only once tasks are planned."""
        round_ = self.round
        assert round_ is not None
        assert round_.task is not None
        return round_.task

    @property
    def step(self) -> Step:
        """The current step, once tasks are planned. It repeats the code of `task`, since it is read most often."""
        round_ = self.round
        assert round_ is not None
        assert round_.task is not None
        return round_.task.step

    @property
    def place(self) -> Place:
        """(round, task, attempt, step), with zeros for what the workflow has not reached yet."""
        round_ = self.round
        if round_ is None:
            return (0, 0, 0, 0)
        task = round_.task
        if task is None:
            return (round_.number, 0, 0, 0)
        return (round_.number, task.number, task.attempt, task.step.number)


class TaskPlace(TypedDict):
    """The fields of an event that identify its attempt at a task."""

    round: int
    task: int
    attempt: int


class StepPlace(TaskPlace):
    """The fields of an event that identify its step."""

    step: int


def task_place(workflow: Workflow) -> TaskPlace:
    """Return the current attempt as fields of an event."""
    round_number, task, attempt, _ = workflow.place
    return {"round": round_number, "task": task, "attempt": attempt}


def step_place(workflow: Workflow) -> StepPlace:
    """Return the current step as fields of an event."""
    round_number, task, attempt, step = workflow.place
    return {"round": round_number, "task": task, "attempt": attempt, "step": step}


def parameters_sha256(workflow: Workflow) -> str:
    """Return the hash that binds an approval to the current step's parameters, as its action gets them."""
    parameters = workflow.step.parameters
    assert parameters is not None
    return sha256(dumps(parameters.parameters))


class TaskContext(NamedTuple):
    """The terms of the current task (M-05)."""

    react_mode: bool
    """Whether its actions are selected one at a time; otherwise all are planned at once (deprecated)."""
    max_steps: int
    """The number of steps that an attempt may take."""


def task_context(workflow: Workflow) -> TaskContext:
    """Return the terms of the current task: those of its round, with fewer steps if its plan says so."""
    return TaskContext(react_mode=workflow.current.opening.workflow_mode == "React", max_steps=max_steps(workflow))


def max_steps(workflow: Workflow) -> int:
    """Return how many steps an attempt at the current task may take."""
    limit = workflow.current.opening.max_steps
    return min(limit, workflow.task.plan.max_steps or limit)


def rule(workflow: Workflow) -> Rule | None:
    """Return the rule of the round's policy about the action of the current step; None without policy or action."""
    policy, selection = workflow.current.policy, workflow.step.selection
    if policy is None or selection is None:
        return None
    return policy.rule(selection.action, workflow.task.plan.task_type)


def rejections(workflow: Workflow) -> tuple[Rejection, ...]:
    """Return the answers in the current stage that have been rejected so far."""
    if workflow.phase in ("select", "parameterize"):
        return workflow.step.refusals
    here = (workflow.phase, *workflow.place)
    return tuple(
        event
        for event in workflow.current.rejected
        if (event.stage, event.round, event.task, event.attempt, event.step) == here
    )


def may_ask_again(refusals: Sequence[Rejection]) -> bool:
    """Return whether there is a model to ask after these rejections: each model is asked twice, then the next one."""
    if len(refusals) % MAX_REFUSALS or not refusals:
        return True
    call = refusals[-1].model_call
    return call is not None and call.next_model is not None


def request_label(round_number: int) -> str:
    """Return the label of the documents that came with a round's request."""
    return f"round{round_number}_request"


def is_request_label(label: str) -> bool:
    """Return whether the label is that of documents that came with a request."""
    return _REQUEST_LABEL.fullmatch(label) is not None


def result_label(workflow: Workflow, action: str, ahead: int = 0) -> str:
    """Return `round{r}_task{t}_action{a}_{label}` of the current action, or of one `ahead` actions later (M-08)."""
    return f"{result_place(workflow)}_action{workflow.task.actions + ahead}_{action_label(action)}"


def result_place(workflow: Workflow) -> str:
    """Return the prefix of the labels of all results of the current task."""
    return f"round{workflow.current.number}_task{workflow.task.number}"


def action_label(action: str) -> str:
    """Return the action's name in snake_case, without its method."""
    return re.sub(r"(?<=[^_-])(?=[A-Z])", "_", action.rpartition(".")[2]).replace("-", "_").lower()


def gives_up(event: ActionCompleted) -> bool:
    """Return whether a pause ended the claim before the action began, so that the action is claimed again."""
    return event.outcome == "not_begun" and event.code == PAUSED


def is_at_place(workflow: Workflow, event: StageEvent | StepEvent) -> bool:
    """Return whether an event names exactly where the workflow is."""
    return (event.round, event.task, event.attempt, event.step) == workflow.place


def with_task(workflow: Workflow, task: Task, phase: Phase | None = None) -> Workflow:
    """Return the workflow with this task, in another phase if one is given."""
    return workflow._replace(phase=phase or workflow.phase, round=workflow.current._replace(task=task))


def with_step(workflow: Workflow, step: Step, phase: Phase | None = None) -> Workflow:
    """Return the workflow with this step, in another phase if one is given."""
    return with_task(workflow, workflow.task._replace(step=step), phase)
