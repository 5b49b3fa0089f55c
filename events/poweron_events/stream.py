"""The stream: every event that a workflow's log can hold, distinguished by its type."""

from typing import Final, get_args

from poweron_events.actor import Actor, actor_of
from poweron_events.archive_events import (
    ContentErased,
    RequestErasure,
    RequestExport,
    RequestRetention,
    WorkflowExported,
    WorkflowRetained,
)
from poweron_events.event import Event
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    PolicyApplied,
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    Requester,
    RequestPause,
    RequestPolicy,
    RequestRefused,
    RequestResume,
    RequestRound,
    RequestRules,
    RequestWorkflow,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    Terms,
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

WorkflowEvent = (
    WorkflowRequested
    | RoundRequested
    | CancellationRequested
    | RoundPaused
    | RoundResumed
    | RulesChanged
    | PolicyApplied
    | InstanceStarted
    | InstanceEnded
    | RequestRefused
    | DocumentErased
    | WorkflowExported
    | ContentErased
    | WorkflowRetained
    | CallReserved
    | TasksPlanned
    | ActionsPlanned
    | ActionSelected
    | SelectionRejected
    | ParametersSet
    | ParametersRejected
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalDenied
    | ApprovalEscalated
    | ParametersChanged
    | ActionStarted
    | ActionCompleted
    | ObservationRecorded
    | RefinementDecided
    | TaskReviewed
    | AnswerRejected
    | StageFailed
    | BudgetRequested
    | BudgetGranted
    | BudgetDenied
    | DeadlinePassed
    | RoundCompleted
    | RoundFailed
    | RoundCancelled
)
"""The events on `poweron.events`."""

Request = (
    RequestWorkflow
    | RequestRound
    | RequestCancellation
    | RequestApproval
    | RequestBudget
    | RequestPause
    | RequestResume
    | RequestPolicy
    | RequestRules
    | RequestExport
    | RequestErasure
    | RequestRetention
)
"""The requests on `poweron.requests`."""

WORKFLOW_EVENTS: Final[dict[str, type[Event]]] = {cls.TYPE: cls for cls in get_args(WorkflowEvent)}
REQUESTS: Final[dict[str, type[Event]]] = {cls.TYPE: cls for cls in get_args(Request)}


def claimed_actor(request: Request | Terms, source: str) -> Actor:
    """Return the actor that a request claims to be from; it is `verified` only if a seal proves it (`decode_request`).

    A request without an actor comes from the requester that it names, or else from the service that is its source.
    """
    if request.actor is not None:
        return request.actor
    requester: Requester | None = getattr(request, "requester", None)
    return actor_of(requester.name if requester else "", source)
