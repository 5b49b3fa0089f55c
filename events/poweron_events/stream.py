"""The stream: every event that a workflow's log can hold, distinguished by its type."""

from typing import Final, get_args

from poweron_events.event import Event
from poweron_events.execution import (
    ActionCompleted,
    ActionStarted,
    ApprovalDenied,
    ApprovalGranted,
    ApprovalRequested,
)
from poweron_events.observation import ObservationRecorded
from poweron_events.outcome import (
    AnswerRejected,
    DeadlinePassed,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
)
from poweron_events.parameters import ParametersRejected, ParametersSet
from poweron_events.planning import ActionsPlanned, TasksPlanned
from poweron_events.refinement import RefinementDecided
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    RequestApproval,
    RequestCancellation,
    RequestRefused,
    RequestRound,
    RequestWorkflow,
    RoundRequested,
    WorkflowRequested,
)
from poweron_events.reservation import CallReserved
from poweron_events.selection import ActionSelected, SelectionRejected

WorkflowEvent = (
    WorkflowRequested
    | RoundRequested
    | CancellationRequested
    | RequestRefused
    | DocumentErased
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
    | ActionStarted
    | ActionCompleted
    | ObservationRecorded
    | RefinementDecided
    | TaskReviewed
    | AnswerRejected
    | StageFailed
    | DeadlinePassed
    | RoundCompleted
    | RoundFailed
    | RoundCancelled
)
"""The events on `poweron.events`."""

Request = RequestWorkflow | RequestRound | RequestCancellation | RequestApproval
"""The requests on `poweron.requests`."""

WORKFLOW_EVENTS: Final[dict[str, type[Event]]] = {cls.TYPE: cls for cls in get_args(WorkflowEvent)}
REQUESTS: Final[dict[str, type[Event]]] = {cls.TYPE: cls for cls in get_args(Request)}
