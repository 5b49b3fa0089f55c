"""The steps of a task as rows: what was selected, with which parameters, its result, and what was decided next."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypedDict, assert_never

from poweron_events.archive_events import ArchiveEvent
from poweron_events.codec import dumps, sha256
from poweron_events.envelope import Recorded
from poweron_events.event import StepEvent
from poweron_events.fold.costs import reported
from poweron_events.fold.questions import approval_terms
from poweron_events.fold.stage_specs import AFTER_STEPS
from poweron_events.fold.state import Used, Workflow, gives_up
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
from poweron_projections.table_spec import Json, Table, Uuid, json, optional_text, text


class StepRow(NamedTuple):
    """One iteration of the loop, one action: running, then done, refused or stopped.

    `reviewed_ms` is when its attempt was reviewed, if it is the attempt's last step.
    """

    workflow_id: Uuid
    round: int
    task: int
    attempt: int
    step: int
    status: str
    action: str | None = None
    objective: str | None = None
    parameters: Json | None = None
    approval: str | None = None
    approval_sha256: str | None = None
    approval_by: str | None = None
    approval_actor: Json | None = None
    approval_reason: str | None = None
    approval_ms: int | None = None
    approval_due_ms: int | None = None
    approval_answered_ms: int | None = None
    approval_terms: Json | None = None
    escalation_due_ms: int | None = None
    refusals: Json = "[]"
    tries: int = 0
    claimed_ms: int | None = None
    claims: Json = "[]"
    success: bool | None = None
    outcome: str | None = None
    error: str | None = None
    error_code: str | None = None
    result_label: str | None = None
    decision: str | None = None
    decision_reason: str | None = None
    classification: str | None = None
    hint: str | None = None
    stopped_by: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    duration_ms: int | None = None
    begun_ms: int = 0
    started_ms: int = 0
    selected_ms: int | None = None
    parameterized_ms: int | None = None
    completed_ms: int | None = None
    observed_ms: int | None = None
    refined_ms: int | None = None
    ended_ms: int | None = None
    reviewed_ms: int | None = None


class _Cells(TypedDict, total=False):
    """The cells of a row that events fill; those of later events replace those of earlier ones."""

    action: str
    objective: str
    parameters: Json
    approval: str
    approval_sha256: str
    approval_by: str | None
    approval_actor: Json | None
    approval_reason: str
    approval_ms: int
    approval_due_ms: int
    approval_answered_ms: int
    approval_terms: Json
    escalation_due_ms: int | None
    tries: int
    success: bool
    outcome: str | None
    error: str | None
    error_code: str | None
    result_label: str
    decision: str
    decision_reason: str
    classification: str | None
    hint: str | None
    stopped_by: str | None
    duration_ms: int
    started_ms: int
    selected_ms: int
    parameterized_ms: int
    completed_ms: int
    observed_ms: int
    refined_ms: int


_REJECTED: Final = (SelectionRejected, ParametersRejected)

STEPS = Table("steps", StepRow, key=("workflow_id", "round", "task", "attempt", "step"), keeps="newest")


def step_status(told: Sequence[Recorded], after: Workflow) -> str:
    """Return whether a step with these events is still running; if not, how it ended."""
    if not told:
        return "running"
    here = after.place == _place(told)
    if after.phase in AFTER_STEPS or not here:
        return "refused" if here and after.task.refused is not None else "done"
    return "stopped" if after.phase == "closing" else "running"


def step_row(
    told: Sequence[Recorded],
    status: str,
    *,
    begun_ms: int,
    workflow: Workflow,
    ended_ms: int | None = None,
    stopped_by: str | None = None,
) -> StepRow:
    """Return the row of the step with these accepted events.

    `begun_ms` is when it could begin, `workflow` the state in which the step was last, `ended_ms` when it stopped
    running, `stopped_by` why its round was stopped meanwhile.
    """
    cells: _Cells = {"started_ms": told[0].time_ms}
    for recorded in told:
        cells.update(_cells(recorded))
    events = [recorded.envelope.event for recorded in told]
    rejected = [event for event in events if isinstance(event, _REJECTED)]
    if "approval_due_ms" in cells:
        cells |= _waiting_cells(workflow)
    if status == "refused":
        cells["stopped_by"] = rejected[-1].code
    elif status == "stopped":
        cells["stopped_by"] = stopped_by
    claims = _claims(told) if "tries" in cells else []
    used = Used.by([call for event in events if event is not None for call in reported(event)])
    return StepRow(
        told[0].envelope.workflow_id,
        *_place(told),
        status=status,
        begun_ms=begun_ms,
        ended_ms=ended_ms,
        **cells,
        claimed_ms=claims[0]["startedMs"] if claims else None,
        claims=json(claims) if claims else "[]",
        refusals=json([f"{event.reason}\n{event.detail}".rstrip() for event in rejected]),
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost_nano_usd=used.cost_nano_usd,
    )


def _place(told: Sequence[Recorded]) -> tuple[int, int, int, int]:
    event = told[0].envelope.event
    assert isinstance(event, StepEvent)
    return event.round, event.task, event.attempt, event.step


def _claims(told: Sequence[Recorded]) -> list[dict[str, Any]]:
    """Return each try of the action: when a worker claimed it, when it ended, and its effect class."""
    claims = dict[int, dict[str, Any]]()
    for recorded in told:
        event = recorded.envelope.event
        if isinstance(event, ActionStarted):
            started = {"startedMs": recorded.time_ms, "effectClass": event.effect_class}
            claims[event.try_] = {"try": event.try_, **started}
        elif isinstance(event, ActionCompleted) and event.try_ in claims:
            claims[event.try_] |= {"endedMs": recorded.time_ms, "outcome": event.outcome}
    return list(claims.values())


def _cells(recorded: Recorded) -> _Cells:  # noqa: PLR0911 - one case per event
    """Return the cells of the step's row that an event fills."""
    event = recorded.envelope.event
    match event:
        case ActionSelected():
            return {"action": event.action, "objective": text(event.action_objective), "selected_ms": recorded.time_ms}
        case ParametersSet():
            return {"parameters": json(event.parameters), "parameterized_ms": recorded.time_ms}
        case ActionStarted():
            return {"tries": event.try_}
        case ActionCompleted():
            return _result_cells(event, recorded.time_ms)
        case ObservationRecorded():
            return {"success": event.observation.success, "observed_ms": recorded.time_ms}
        case RefinementDecided():
            return {
                "decision": event.decision,
                "decision_reason": text(event.reason),
                "classification": event.classification,
                "hint": optional_text(event.hint),
                "stopped_by": event.code,
                "refined_ms": recorded.time_ms,
            }
        case ApprovalRequested() | ApprovalGranted() | ApprovalDenied() | ApprovalEscalated() | ParametersChanged():
            return _approval_cells(event, recorded.time_ms)
        case (
            None
            | WorkflowRequested()
            | RoundRequested()
            | CancellationRequested()
            | RoundPaused()
            | RoundResumed()
            | RulesChanged()
            | PolicyApplied()
            | InstanceStarted()
            | InstanceEnded()
            | RequestRefused()
            | DocumentErased()
            | ArchiveEvent()
            | CallReserved()
            | TasksPlanned()
            | ActionsPlanned()
            | SelectionRejected()
            | ParametersRejected()
            | TaskReviewed()
            | AnswerRejected()
            | StageFailed()
            | BudgetRequested()
            | BudgetGranted()
            | BudgetDenied()
            | DeadlinePassed()
            | RoundCompleted()
            | RoundFailed()
            | RoundCancelled()
        ):
            return {}
        case _:
            assert_never(event)


def _result_cells(event: ActionCompleted, time_ms: int) -> _Cells:
    if gives_up(event):
        return {}  # the action will be claimed again
    return {
        "success": event.success,
        "outcome": event.outcome,
        "error": optional_text(event.error),
        "error_code": event.code,
        "result_label": text(event.result_label),
        "duration_ms": event.duration_ms,
        "completed_ms": time_ms,
    }


def _waiting_cells(workflow: Workflow) -> _Cells:
    """Return who may answer and who has, and until when, after all pauses."""
    step = workflow.step
    unanswered: _Cells = {"approval_by": None, "approval_actor": None}  # the first of several may have approved
    return (unanswered if step.answer is None else {}) | {
        "approval": step.approval or "asked",
        "approval_due_ms": step.approval_due_ms,
        "approval_terms": json(approval_terms(workflow)),
        "escalation_due_ms": step.escalation_due_ms or None,
    }


def _approval_cells(
    event: ApprovalRequested | ApprovalGranted | ApprovalDenied | ApprovalEscalated | ParametersChanged, time_ms: int
) -> _Cells:
    if isinstance(event, ApprovalEscalated):
        return {}
    if isinstance(event, ParametersChanged):
        return {"parameters": json(event.parameters), "approval_sha256": sha256(dumps(event.parameters))}
    if isinstance(event, ApprovalRequested):
        return {
            "approval": "asked",
            "approval_sha256": event.parameters_sha256,
            "approval_ms": time_ms,
            "approval_due_ms": time_ms + event.expires_ms,
        }
    return {
        "approval": "granted" if isinstance(event, ApprovalGranted) else "denied",
        "approval_by": text(event.actor.id if event.actor else event.requester.name) or None,
        "approval_actor": None if event.actor is None else json(event.actor),
        "approval_reason": text(event.reason),
        "approval_answered_ms": time_ms,
    }
