"""The stages of the loop: one table from which turns, deadlines, prompts, spans and reports are derived (E-06, E-16).

To add a stage, add a row here; docs/architecture.md lists what else it needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from poweron_events.event import Event, Role
from poweron_events.fold.state import Phase, Workflow
from poweron_events.request import LAWS
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetRequested,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    Stage,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalRequested,
    ObservationRecorded,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)

PromptStage = Literal["plan", "plan_actions", "select", "parameterize", "process", "refine", "review", "message"]
"""The kinds of prompts, each of which may have its own model."""


class StageSpec(NamedTuple):
    """All facts about one stage that more than one module needs."""

    name: Stage | Literal["message"]
    """Its name in events, in the views of `bi` and in spans."""
    label: str
    """Its name in reports."""
    role: Role
    phases: tuple[Phase, ...]
    """The phases in which the workflow waits for this stage."""
    events: tuple[type[Event], ...]
    """The events that report its outcome, and with it its model calls."""
    scope: Literal["round", "task", "step"]
    """Whether it works on a round, a task or a step."""
    prompt: PromptStage | None = None
    """The prompt that it sends to a model; None if it asks none."""
    is_timed: bool = True
    """Whether `stageTimeoutMs` limits it, so that it can end in `StageFailed`."""


STAGES: Final = (
    StageSpec("plan", "Planning", "planner", ("plan",), (TasksPlanned,), "round", "plan"),
    StageSpec(
        "plan_actions",
        "Planning the actions",
        "planner",
        ("plan_actions",),
        (ActionsPlanned,),
        "task",
        "plan_actions",
    ),
    StageSpec(
        "select",
        "Choosing an action",
        "selector",
        ("select",),
        (ActionSelected, SelectionRejected),
        "step",
        "select",
    ),
    StageSpec(
        "parameterize",
        "Setting parameters",
        "parameterizer",
        ("parameterize",),
        (ParametersSet, ParametersRejected),
        "step",
        "parameterize",
    ),
    StageSpec(
        "execute",
        "Executing the action",
        "executor",
        ("ready", "approve", "started", "draining"),
        (ApprovalRequested, ActionStarted, ActionCompleted),
        "step",
        "process",
        is_timed=False,
    ),
    StageSpec("observe", "Observing the result", "observer", ("observe",), (ObservationRecorded,), "step"),
    StageSpec("refine", "Deciding whether to continue", "refiner", ("refine",), (RefinementDecided,), "step", "refine"),
    StageSpec("review", "Reviewing the task", "reviewer", ("review",), (TaskReviewed,), "task", "review"),
    StageSpec(
        "message",
        "Writing the answer",
        "reviewer",
        ("closing",),
        (RoundCompleted, RoundFailed, RoundCancelled),
        "round",
        "message",
        is_timed=False,
    ),
)

TURNS: Final[Mapping[Phase, Role]] = {phase: stage.role for stage in STAGES for phase in stage.phases}
TIMED_PHASES: Final = frozenset(phase for stage in STAGES if stage.is_timed for phase in stage.phases)
"""The phases in which a role decides; each has its own deadline and can end in `StageFailed`."""
STEP_PHASES: Final = frozenset(phase for stage in STAGES if stage.scope == "step" for phase in stage.phases)
TASK_PHASES: Final = frozenset(phase for stage in STAGES if stage.scope == "task" for phase in stage.phases)
AFTER_STEPS: Final = frozenset[Phase]({"review"})
"""The phases of a task in which its last step is over, but the task is not."""
PROMPT_STAGES: Final[tuple[PromptStage, ...]] = tuple(stage.prompt for stage in STAGES if stage.prompt is not None)

_BY_NAME: Final = {stage.name: stage for stage in STAGES}
_BY_EVENT: Final[Mapping[type[Event], StageSpec]] = {event: stage for stage in STAGES for event in stage.events}


def stage_of(event: Event) -> StageSpec:
    """Return the stage whose outcome, and whose model calls, an event reports."""
    stage = _BY_EVENT.get(type(event))
    if stage is not None:
        return stage
    return _BY_NAME[event.stage if isinstance(event, AnswerRejected | StageFailed | BudgetRequested) else "message"]


def role_of(prompt: PromptStage) -> Role:
    """Return the role that sends this kind of prompt."""
    return next(stage.role for stage in STAGES if stage.prompt == prompt)


def turn(workflow: Workflow) -> Role | None:
    """Return the role whose turn it is; None if there is none, or if the workflow is paused, stuck or frozen.

    A workflow that asks for a budget waits for a person; a paused one only for the end of an action claimed before.

    A workflow frozen by an unknown type can still be brought to its end once it is stopped; one whose
    laws this release does not know is left to releases that do (E-13).
    """
    if workflow.frozen and (workflow.phase not in ("closing", "draining") or workflow.current.opening.laws > LAWS):
        return None
    if workflow.asks_for_budget or (workflow.is_paused and workflow.phase != "started"):
        return None
    return None if workflow.stuck else TURNS.get(workflow.phase)


@dataclass(frozen=True, slots=True)
class Due:
    """A broker time (ms since 1970) from which on `role` may record that time is up."""

    what: Literal["round", "stage", "claim", "escalation", "approval", "budget"]
    role: Role
    at_ms: int


def due(workflow: Workflow) -> tuple[Due, ...]:
    """Return everything that becomes due while the workflow stays as it is.

    Each time is the broker time of the event that started the wait plus a duration written in an event.
    """
    if not workflow.is_open or workflow.frozen or workflow.is_paused:
        return ()
    if (question := workflow.current.question) is not None:
        return (Due("budget", "reviewer", question.due_ms),)
    phase, found = workflow.phase, list[Due]()
    if (round_ms := round_due_ms(workflow)) is not None:
        found.append(Due("round", "reviewer", round_ms))
    if phase in TIMED_PHASES:
        found.append(Due("stage", TURNS[phase], workflow.head_ms + workflow.current.opening.stage_timeout_ms))
    if phase in ("started", "draining"):
        found.append(Due("claim", "executor", workflow.step.newest_start.due_ms))
    if phase == "approve" and workflow.step.escalation_due_ms:
        found.append(Due("escalation", "executor", workflow.step.escalation_due_ms))
    if phase == "approve":
        found.append(Due("approval", "executor", workflow.step.approval_due_ms))
    return tuple(found)


def round_due_ms(workflow: Workflow) -> int | None:
    """Return when the reviewer may record that the time of the round, or of its budget question, is over; else None."""
    if not workflow.is_open or workflow.frozen or workflow.is_paused:
        return None
    if (question := workflow.current.question) is not None:
        return question.due_ms
    if workflow.phase in ("closing", "draining", "approve"):
        return None
    return workflow.current.due_ms
