"""What each event of a workflow is to a reader who knows only requests, decisions, actions and answers of people."""

from typing import Final, Literal, NamedTuple, assert_never

from poweron_events.actor import Actor
from poweron_events.archive_events import ContentErased, WorkflowExported, WorkflowRetained
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    PolicyApplied,
    RequestRefused,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    WorkflowRequested,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    DeadlinePassed,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import WorkflowEvent

Kind = Literal[
    "request", "control", "decision", "question", "approval", "refusal", "action", "failure", "end", "archive", "notice"
]
"""`control` changes how work goes on, `archive` what is kept of it; `notice` repeats what other events say."""


class EventKind(NamedTuple):
    """The kind of an event, what was done, and whether it succeeded."""

    kind: Kind
    verb: str
    success: bool = True


NOTICE: Final = EventKind("notice", "Note")


def kind_of(event: WorkflowEvent) -> EventKind:  # noqa: C901, PLR0911, PLR0912 - one case per kind
    """Return the kind of an event."""
    match event:
        case WorkflowRequested() | RoundRequested():
            return EventKind("request", "Request")
        case CancellationRequested() | RoundPaused() | RoundResumed() | RulesChanged() | PolicyApplied():
            return EventKind("control", "Control")
        case TasksPlanned() | ActionsPlanned() | ActionSelected() | ParametersSet():
            return EventKind("decision", "Decide")
        case RefinementDecided() | TaskReviewed():
            return EventKind("decision", "Decide")
        case ApprovalRequested() | ApprovalEscalated() | BudgetRequested():
            return EventKind("question", "Ask")
        case ApprovalGranted() | BudgetGranted():
            return EventKind("approval", "Approve")
        case ApprovalDenied() | BudgetDenied():
            return EventKind("approval", "Deny", success=False)
        case ParametersChanged():
            return EventKind("approval", "Change")
        case RequestRefused() | SelectionRejected() | ParametersRejected() | AnswerRejected():
            return EventKind("refusal", "Refuse", success=False)
        case ActionStarted():
            return EventKind("action", "Start")
        case ActionCompleted():
            return EventKind("action", "Execute", event.success)
        case StageFailed() | DeadlinePassed():
            return EventKind("failure", "Fail", success=False)
        case RoundCompleted():
            return EventKind("end", "End")
        case RoundFailed() | RoundCancelled():
            return EventKind("end", "End", success=False)
        case DocumentErased() | ContentErased():
            return EventKind("archive", "Erase")
        case WorkflowExported():
            return EventKind("archive", "Export")
        case WorkflowRetained():
            return EventKind("archive", "Retain")
        case CallReserved() | ObservationRecorded() | InstanceStarted() | InstanceEnded():
            return NOTICE
        case _:
            assert_never(event)


def actor_of_event(event: WorkflowEvent) -> Actor | None:
    """Return the person or service whose request an event records; None if a role wrote it by itself."""
    actor: Actor | None = getattr(event, "actor", None)
    requester = getattr(event, "requester", None)
    return actor if actor is not None or requester is None or not requester.name else Actor(id=requester.name)
