"""The steps of a task as rows: what was selected, with which parameters, what came of it, what was decided next."""

from typing import NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.event import StepEvent
from poweron_events.execution import ActionCompleted, ActionStarted
from poweron_events.fold.evolve import model_calls
from poweron_events.fold.state import Workflow
from poweron_events.observation import ObservationRecorded
from poweron_events.parameters import ParametersRejected, ParametersSet
from poweron_events.refinement import RefinementDecided
from poweron_events.selection import ActionSelected, SelectionRejected
from poweron_projections.table import Json, Table, Uuid, json, optional_text, text


class StepRow(NamedTuple):
    """One iteration of the loop, one action: running, then done, refused or stopped."""

    workflow_id: Uuid
    round: int
    task: int
    attempt: int
    step: int
    status: str
    action: str | None
    objective: str | None
    parameters: Json | None
    refusals: Json
    tries: int
    success: bool | None
    outcome: str | None
    error: str | None
    result_label: str | None
    decision: str | None
    decision_reason: str | None
    classification: str | None
    hint: str | None
    input_tokens: int
    output_tokens: int
    cost_nano_usd: int
    duration_ms: int | None
    started_ms: int
    completed_ms: int | None


STEPS = Table("steps", StepRow, key=("workflow_id", "round", "task", "attempt", "step"), keeps="newest")


def step_row(row: StepRow | None, recorded: Recorded, after: Workflow) -> StepRow | None:
    """The step that an accepted event of its round changes; None if it changes none."""
    event = recorded.envelope.event
    if isinstance(event, StepEvent):
        place = (event.round, event.task, event.attempt, event.step)
        row = row if row is not None and row[1:5] == place else _begun(place, recorded, after)
        row = _charged(_told(row, event, recorded), event)
    return _ended(row, after)


def _begun(place: tuple[int, int, int, int], recorded: Recorded, after: Workflow) -> StepRow:
    return StepRow(
        after.id,
        *place,
        status="running",
        action=None,
        objective=None,
        parameters=None,
        refusals="[]",
        tries=0,
        success=None,
        outcome=None,
        error=None,
        result_label=None,
        decision=None,
        decision_reason=None,
        classification=None,
        hint=None,
        input_tokens=0,
        output_tokens=0,
        cost_nano_usd=0,
        duration_ms=None,
        started_ms=recorded.time_ms,
        completed_ms=None,
    )


def _told(row: StepRow, event: StepEvent, recorded: Recorded) -> StepRow:  # noqa: PLR0911 - one case per event
    match event:
        case ActionSelected():
            return row._replace(action=event.action, objective=text(event.action_objective))
        case SelectionRejected() | ParametersRejected():
            return row._replace(refusals=_and(row.refusals, event.reason))
        case ParametersSet():
            return row._replace(parameters=json(event.parameters))
        case ActionStarted():
            return row._replace(tries=event.try_)
        case ActionCompleted():
            return row._replace(
                success=event.success,
                outcome=event.outcome,
                error=optional_text(event.error),
                result_label=text(event.result_label),
                duration_ms=event.duration_ms,
                completed_ms=recorded.time_ms,
            )
        case ObservationRecorded():
            return row._replace(success=event.observation.success)
        case RefinementDecided():
            return row._replace(
                decision=event.decision,
                decision_reason=text(event.reason),
                classification=event.classification,
                hint=optional_text(event.hint),
            )
        case _:  # approvals: the parameters and the outcome tell
            return row


def _and(refusals: Json, reason: str) -> Json:
    more = json([reason])
    return more if refusals == "[]" else f"{refusals[:-1]},{more[1:]}"


def _charged(row: StepRow, event: StepEvent) -> StepRow:
    calls = model_calls(event)
    if not calls:
        return row
    return row._replace(
        input_tokens=row.input_tokens + sum(call.input_tokens for call in calls),
        output_tokens=row.output_tokens + sum(call.output_tokens for call in calls),
        cost_nano_usd=row.cost_nano_usd + sum(call.cost_nano_usd for call in calls),
    )


def _ended(row: StepRow | None, after: Workflow) -> StepRow | None:
    if row is None or row.status != "running":
        return row
    if after.phase == "review" or after.place != row[1:5]:
        refused = after.task.refused is not None and after.place == row[1:5]
        return row._replace(status="refused" if refused else "done")
    if after.phase == "closing":
        return row._replace(status="stopped")
    return row
