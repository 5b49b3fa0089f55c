"""Workflows and their rounds as rows."""

from typing import Final, NamedTuple, TypedDict

from poweron_events.envelope import Recorded
from poweron_events.fold.questions import budget_terms
from poweron_events.fold.state import Workflow
from poweron_events.request import WorkflowRequested
from poweron_projections.table_spec import Json, Table, Uuid, json, text


class WorkflowRow(NamedTuple):
    """The state of a workflow: where it is and how far its records go. One that was never opened is in round 0."""

    workflow_id: Uuid
    partition: int
    status: str
    phase: str
    stopped_by: str | None
    round: int
    task: int
    attempt: int
    step: int
    is_open: bool
    frozen: bool
    stuck: bool
    seq: int
    last_offset: int
    opened_ms: int
    updated_ms: int
    paused_ms: int | None
    pause_reason: str | None
    pause_actor: Json | None
    budget_question: int | None
    budget_code: str | None
    budget_reason: str | None
    budget_due_ms: int | None
    budget_terms: Json | None
    forked_from: str | None
    forked_seq: int | None
    restarted_from: str | None


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
    requester: str | None
    actor: Json | None
    policy_number: int | None
    policy_sha256: str | None
    status: str
    reason: str
    stopped_by: str | None
    message: str | None
    steps: int
    input_tokens: int
    output_tokens: int
    cost_nano_usd: int
    opened_ms: int
    ended_ms: int | None
    ended_seq: int | None


NO_WORKFLOW: Final = "no_workflow"
"""The status of the keys of policies and processes, which no list of workflows shows."""
WORKFLOWS = Table("workflows", WorkflowRow, key=("workflow_id",), keeps="newest")
ROUNDS = Table("rounds", RoundRow, key=("workflow_id", "round"), keeps="newest")


def workflow_row(row: WorkflowRow | None, newest: Recorded, after: Workflow) -> WorkflowRow:
    """Return the row of the workflow after its newest record, of any verdict; `row` is its previous row."""
    if row is not None and after.round is None:  # only the count of its records can have changed
        status = _status(after) if row.round == 0 else row.status
        return row._replace(status=status, seq=after.seq, last_offset=after.last, updated_ms=newest.time_ms)
    round_number, task, attempt, step = after.place
    return WorkflowRow(
        workflow_id=after.id,
        partition=newest.partition,
        status=_status(after),
        phase=after.phase,
        stopped_by=after.round.code if after.round else None,
        round=round_number,
        task=task,
        attempt=attempt,
        step=step,
        is_open=after.is_open,
        frozen=after.frozen,
        stuck=after.stuck,
        seq=after.seq,
        last_offset=after.last,
        opened_ms=_opened_ms(row, newest, after),
        updated_ms=newest.time_ms,
        **_paused(after),
        **_budget(after),
        **_origin(row, after),
    )


class _Paused(TypedDict):
    """Since when a round is paused, why, and who asked for it."""

    paused_ms: int | None
    pause_reason: str | None
    pause_actor: Json | None


_NO_PAUSE = _Paused(paused_ms=None, pause_reason=None, pause_actor=None)


def _paused(workflow: Workflow) -> _Paused:
    pause = workflow.current.pause if workflow.is_open else None
    if pause is None:
        return _NO_PAUSE
    actor = None if pause.actor is None else json(pause.actor)
    return _Paused(paused_ms=pause.since_ms, pause_reason=text(pause.reason), pause_actor=actor)


class _Budget(TypedDict):
    """The question for a larger budget that a round waits with."""

    budget_question: int | None
    budget_code: str | None
    budget_reason: str | None
    budget_due_ms: int | None
    budget_terms: Json | None


_NO_QUESTION = _Budget(
    budget_question=None, budget_code=None, budget_reason=None, budget_due_ms=None, budget_terms=None
)


def _budget(workflow: Workflow) -> _Budget:
    question = workflow.current.question if workflow.is_open else None
    if question is None:
        return _NO_QUESTION
    return _Budget(
        budget_question=question.number,
        budget_code=question.code,
        budget_reason=text(question.reason),
        budget_due_ms=question.due_ms,
        budget_terms=json(budget_terms(workflow)),
    )


class _Origin(TypedDict):
    """The workflow that another one was forked from, at which event, or whose request it repeats."""

    forked_from: str | None
    forked_seq: int | None
    restarted_from: str | None


_NO_ORIGIN = _Origin(forked_from=None, forked_seq=None, restarted_from=None)


def _origin(row: WorkflowRow | None, after: Workflow) -> _Origin:
    """Return the workflow that the first opening names; later rounds need not name it."""
    if after.round is not None and isinstance(opening := after.round.opening, WorkflowRequested):
        fork = opening.forked_from
        return _Origin(
            forked_from=None if fork is None else text(fork.workflow),
            forked_seq=None if fork is None else fork.seq,
            restarted_from=None if opening.restarted_from is None else text(opening.restarted_from),
        )
    if row is None:
        return _NO_ORIGIN
    return _Origin(forked_from=row.forked_from, forked_seq=row.forked_seq, restarted_from=row.restarted_from)


def _opened_ms(row: WorkflowRow | None, newest: Recorded, after: Workflow) -> int:
    if after.round is not None and len(after.openings) == 1:
        return after.round.opened_ms
    return newest.time_ms if row is None else row.opened_ms


def _status(workflow: Workflow) -> str:
    if workflow.is_open:
        return "paused" if workflow.is_paused else "running"
    if workflow.round is None:
        return "never_opened" if workflow.policy is None and workflow.instance is None else NO_WORKFLOW
    if workflow.round.ending is None:
        return "never_opened"
    return workflow.round.ending


def round_row(workflow: Workflow) -> RoundRow:
    """Return the row of the current round, or of the last one that ended."""
    round_ = workflow.current
    opening, totals, last = round_.opening, round_.totals, None if workflow.is_open else round_.messages[-1]
    return RoundRow(
        workflow_id=workflow.id,
        round=round_.number,
        opening_offset=workflow.openings[-1],
        opening_seq=round_.messages[0].seq,
        mode=opening.workflow_mode,
        prompt=text(opening.prompt),
        max_steps=opening.max_steps,
        request_source=text(opening.request.source),
        request_id=text(opening.request.id),
        requester=text(opening.requester.name) or None,
        actor=None if opening.actor is None else json(opening.actor),
        policy_number=None if round_.policy is None else round_.policy.number,
        policy_sha256=None if round_.policy is None else round_.policy.sha256,
        status=_status(workflow),
        reason=text(round_.reason),
        stopped_by=round_.code,
        message=None if last is None else text(last.message),
        steps=totals.steps,
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cost_nano_usd=totals.cost_nano_usd,
        opened_ms=round_.opened_ms,
        ended_ms=None if last is None else last.time_ms,
        ended_seq=None if last is None else last.seq,
    )
