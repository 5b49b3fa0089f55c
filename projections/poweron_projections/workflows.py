"""Workflows and their rounds as rows."""

from typing import NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.fold.state import Workflow
from poweron_events.outcome import RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.request import RoundRequested, WorkflowRequested
from poweron_projections.table import Table, Uuid, text


class WorkflowRow(NamedTuple):
    """A workflow as it stands: where it is and how far its records go. One never opened is in round 0."""

    workflow_id: Uuid
    partition: int
    status: str
    phase: str
    round: int
    task: int
    attempt: int
    step: int
    is_open: bool
    frozen: bool
    seq: int
    last_offset: int
    opened_ms: int
    updated_ms: int


class RoundRow(NamedTuple):
    """One round: what was asked, how it ended, what it used over accepted events."""

    workflow_id: Uuid
    round: int
    opening_offset: int
    opening_seq: int
    mode: str
    prompt: str
    max_steps: int
    request_source: str
    request_id: str
    status: str
    reason: str
    message: str | None
    steps: int
    input_tokens: int
    output_tokens: int
    cost_nano_usd: int
    opened_ms: int
    ended_ms: int | None


WORKFLOWS = Table("workflows", WorkflowRow, key=("workflow_id",), keeps="newest")
ROUNDS = Table("rounds", RoundRow, key=("workflow_id", "round"), keeps="newest")


def workflow_row(row: WorkflowRow | None, recorded: Recorded, after: Workflow) -> WorkflowRow:
    """The workflow after a record of any verdict."""
    if row is not None and after.round is None:  # nothing but the count of its records can have changed
        return row._replace(seq=after.seq, last_offset=after.last, updated_ms=recorded.time_ms)
    opened_now = after.openings == (recorded.offset,)
    round_number, task, attempt, step = after.place
    return WorkflowRow(
        workflow_id=after.id,
        partition=recorded.partition,
        status=_status(after),
        phase=after.phase,
        round=round_number,
        task=task,
        attempt=attempt,
        step=step,
        is_open=after.is_open,
        frozen=after.frozen,
        seq=after.seq,
        last_offset=after.last,
        opened_ms=recorded.time_ms if row is None or opened_now else row.opened_ms,
        updated_ms=recorded.time_ms,
    )


def _status(workflow: Workflow) -> str:
    if workflow.is_open:
        return "running"
    if workflow.round is None or workflow.round.ending is None:
        return "never_opened"
    return workflow.round.ending


def round_row(row: RoundRow | None, recorded: Recorded, after: Workflow) -> RoundRow:
    """The round after an accepted event of it."""
    match recorded.envelope.event:
        case WorkflowRequested() | RoundRequested():
            row = _opened(recorded, after)
        case RoundCompleted() | RoundFailed() | RoundCancelled() as event:
            assert row is not None
            assert after.current.ending is not None
            row = row._replace(status=after.current.ending, message=text(event.message), ended_ms=recorded.time_ms)
    assert row is not None
    totals = after.current.totals
    return row._replace(
        reason=text(after.current.reason),
        steps=totals.steps,
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cost_nano_usd=totals.cost_nano_usd,
    )


def _opened(recorded: Recorded, after: Workflow) -> RoundRow:
    opening = after.current.opening
    return RoundRow(
        workflow_id=after.id,
        round=opening.round,
        opening_offset=recorded.offset,
        opening_seq=after.seq - 1,
        mode=opening.workflow_mode,
        prompt=text(opening.prompt),
        max_steps=opening.max_steps,
        request_source=text(opening.request.source),
        request_id=text(opening.request.id),
        status="running",
        reason="",
        message=None,
        steps=0,
        input_tokens=0,
        output_tokens=0,
        cost_nano_usd=0,
        opened_ms=recorded.time_ms,
        ended_ms=None,
    )
