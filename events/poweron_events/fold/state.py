"""What we remember of a workflow: a fold over its events.

No clock, no random id, no log line, no await: the same events always give the same `Workflow`.
Audit replay rests on that. A workflow has rounds, a round has tasks, a task has attempts, an attempt
has steps, a step has one action; only the open round is remembered in full.
"""

import re
from typing import Literal, NamedTuple, TypedDict

from poweron_events.envelope import Cause
from poweron_events.event import CriterionProgress, DocumentRef, FreeText, Model
from poweron_events.execution import ActionCompleted, EffectClass
from poweron_events.observation import ObservationRecorded
from poweron_events.outcome import Totals
from poweron_events.parameters import ParametersSet
from poweron_events.planning import PlannedAction, TaskPlan
from poweron_events.request import RoundRequested, WorkflowRequested
from poweron_events.selection import ActionSelected

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

Ending = Literal["completed", "failed", "cancelled"]
MessageKind = Literal["workflow_start", "task_start", "step", "task_end", "round_end"]
MessageStatus = Literal["first", "step", "last"]
Opening = WorkflowRequested | RoundRequested


class ChatMessage(Model):
    """One entry of the history, written once for every event that a person would want to hear of (M-06)."""

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
    findings: tuple[FreeText, ...] = ()
    learnings: tuple[FreeText, ...] = ()


class Start(NamedTuple):
    """An accepted claim on the action: whose it is and how long it holds (broker time)."""

    cause: Cause
    claim: str
    effect_class: EffectClass
    time_ms: int
    deadline_ms: int

    @property
    def due_ms(self) -> int:
        return self.time_ms + self.deadline_ms


class Step(NamedTuple):
    """One iteration of the loop."""

    number: int
    try_: int = 1
    refusals: tuple[str, ...] = ()
    selection: ActionSelected | None = None
    parameters: ParametersSet | None = None
    approval: Literal["asked", "granted", "denied"] | None = None
    approval_due_ms: int = 0
    starts: tuple[Start, ...] = ()
    completed: ActionCompleted | None = None
    observation: ObservationRecorded | None = None


class Task(NamedTuple):
    """The task at hand. `actions` and `retries` count over all its attempts; so does `progress`."""

    number: int
    plan: TaskPlan
    attempt: int = 1
    actions: int = 0
    retries: int = 0
    tokens: int = 0
    announced: bool = False
    refused: str | None = None
    hint: str | None = None
    improvements: tuple[str, ...] = ()
    progress: tuple[CriterionProgress, ...] = ()
    planned: tuple[PlannedAction, ...] = ()
    step: Step = Step(1)


class Round(NamedTuple):
    """The open round, or the one that ended last."""

    number: int
    opening: Opening
    opened_ms: int
    tasks: tuple[TaskPlan, ...] = ()
    task: Task | None = None
    totals: Totals = Totals()
    ending: Ending | None = None
    reason: str = ""
    messages: tuple[ChatMessage, ...] = ()

    @property
    def due_ms(self) -> int:
        return self.opened_ms + self.opening.deadline_ms


class Workflow(NamedTuple):
    """A workflow as its events so far tell it. `openings` holds the offset of each round's opening."""

    id: str
    phase: Phase = "none"
    openings: tuple[int, ...] = ()
    round: Round | None = None
    head: Cause | None = None
    head_ms: int = 0
    frozen: bool = False
    seq: int = 0
    last: int = -1

    @property
    def is_open(self) -> bool:
        return self.phase not in ("none", "ended")

    @property
    def current(self) -> Round:
        """The round at hand; only asked for while the workflow is open."""
        assert self.round is not None
        return self.round

    @property
    def task(self) -> Task:
        """The task at hand; only asked for once tasks are planned."""
        assert self.current.task is not None
        return self.current.task

    @property
    def step(self) -> Step:
        return self.task.step

    @property
    def place(self) -> tuple[int, int, int, int]:
        """(round, task, attempt, step), zeros where the workflow has not come that far."""
        if self.round is None:
            return (0, 0, 0, 0)
        task = self.round.task
        if task is None:
            return (self.round.number, 0, 0, 0)
        return (self.round.number, task.number, task.attempt, task.step.number)


class TaskPlace(TypedDict):
    """The fields by which an event names its attempt at a task."""

    round: int
    task: int
    attempt: int


class StepPlace(TaskPlace):
    """The fields by which an event names its step."""

    step: int


def task_place(workflow: Workflow) -> TaskPlace:
    """The attempt at hand, as an event names it."""
    round_number, task, attempt, _ = workflow.place
    return {"round": round_number, "task": task, "attempt": attempt}


def step_place(workflow: Workflow) -> StepPlace:
    """The step at hand, as an event names it."""
    round_number, task, attempt, step = workflow.place
    return {"round": round_number, "task": task, "attempt": attempt, "step": step}


def max_steps(workflow: Workflow) -> int:
    """How many steps an attempt at the task at hand may take."""
    limit = workflow.current.opening.max_steps
    return min(limit, workflow.task.plan.max_steps or limit)


def request_label(round_number: int) -> str:
    """The label of the documents that came with a round's request."""
    return f"round{round_number}_request"


def result_label(workflow: Workflow, action: str) -> str:
    """`round{r}_task{t}_action{a}_{label}`; label is the action's name in snake_case (M-08)."""
    name = action.rpartition(".")[2]
    label = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    task = workflow.task
    return f"round{workflow.current.number}_task{task.number}_action{task.actions}_{label}"


def change_task(workflow: Workflow, phase: Phase | None = None, **changes: object) -> Workflow:
    """The workflow with its task changed, in another phase where one is named."""
    task = workflow.task._replace(**changes)  # type: ignore[arg-type] # the callers name fields of Task
    return workflow._replace(phase=phase or workflow.phase, round=workflow.current._replace(task=task))


def change_step(workflow: Workflow, phase: Phase | None = None, **changes: object) -> Workflow:
    """The workflow with its step changed, in another phase where one is named."""
    return change_task(workflow, phase, step=workflow.step._replace(**changes))  # type: ignore[arg-type] # of Step
