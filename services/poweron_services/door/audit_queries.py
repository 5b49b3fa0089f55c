"""Queries about how a workflow came to be as it is: states, decisions, replays and the bytes of its records."""

import asyncio
import base64
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field, JsonValue

from poweron_events.errors import MissingContent
from poweron_events.event import Model
from poweron_events.fold.state import ChatMessage
from poweron_events.fold.state_json import as_json
from poweron_projections import reader, record_queries, workflow_excerpts
from poweron_projections.audit.ledger_status import newest_checkpoint
from poweron_projections.connection import acquire
from poweron_projections.entries import DocumentEntry, StepEntry, TaskEntry, UsageEntry
from poweron_projections.reader import StoredRecord
from poweron_services.client.client_errors import UnknownSeq
from poweron_services.client.connect import Connections
from poweron_services.client.workflow_snapshot import last_state
from poweron_services.door.access import Auditor, HttpCaller, Reader
from poweron_services.door.door_state import DoorOf, Opened
from poweron_services.door.json_responses import JSON, CamelModel, cacheable_response, dumped, json_response
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import (
    EXAMPLE_ID,
    IN_LOWER_CASE,
    MAX_SEQ,
    UUID,
    Seq,
    StepPlace,
    WorkflowId,
    parse_place,
)
from poweron_services.door.query_route import QueryRoute, expect_accepted
from poweron_services.door.state_schema import WorkflowState
from poweron_services.door.workflow_queries import ListedEvent, find_workflow, with_reasons
from poweron_services.fork.original import accepted
from poweron_services.fork.run_comparison import Divergence, compare
from poweron_services.fork.run_documents import changed_documents
from poweron_services.replay.action_specs import known_actions
from poweron_services.replay.decision_view import as_object, view
from poweron_services.replay.prompt_check import Sameness
from poweron_services.replay.replay_processes import Counted, replay

router = APIRouter(tags=["audit"], route_class=QueryRoute)

BYTES: Final = "application/octet-stream"
NO_SCOPE: Final = "A key needs the scope 'content' to see it."


class StepCall(UsageEntry):
    """One model call of a step, with what the model saw and what it answered."""

    prompt: str | None
    answer: str | None
    missing: str | None
    """Why prompt or answer is not shown; None if both are."""


class WholeStep(Model):
    """Everything about one step."""

    step: StepEntry
    task: TaskEntry | None
    events: list[ListedEvent]
    """All records that name it, including superseded ones."""
    calls: list[StepCall]
    documents: list[DocumentEntry]


@router.get("/workflows/{workflow_id}/steps/{place}", response_model=WholeStep)
async def read_step(
    *, request: Request, workflow_id: WorkflowId, place: StepPlace, connections: Opened, door: DoorOf, caller: Reader
) -> Response:
    """Return everything about one step: its records, its model calls with prompt and answer, its documents."""
    await find_workflow(connections, workflow_id)
    pool, wanted = connections.pool, parse_place(place)
    assert wanted is not None
    step = await workflow_excerpts.step(pool, workflow_id, wanted)
    if step is None:
        raise Problem("not_found", f"Workflow {workflow_id} has no step {place}.")
    events = await record_queries.step_events(pool, workflow_id, step.place)
    seqs = [event.seq for event in events]
    calls = await workflow_excerpts.usage_of(pool, workflow_id, seqs)
    tasks = await workflow_excerpts.tasks_of_rounds(pool, workflow_id, step.round, step.round)
    whole = {
        "step": step,
        "task": next((task for task in tasks if task.task == step.task), None),
        "events": await with_reasons(door, workflow_id, events),
        "calls": [await _shown_call(connections, workflow_id, call, caller) for call in calls],
        "documents": await workflow_excerpts.documents_of(pool, workflow_id, seqs),
    }
    return json_response(request, whole)


async def _shown_call(
    connections: Connections, workflow_id: str, call: UsageEntry, caller: HttpCaller
) -> dict[str, Any]:
    if "content" not in caller.scopes:
        return {**dumped(call), "prompt": None, "answer": None, "missing": NO_SCOPE}
    texts, missing = dict[str, str | None](), list[str]()
    for name, reference in (("prompt", call.prompt_ref), ("answer", call.answer_ref)):
        texts[name] = None
        try:
            if reference is not None:
                texts[name] = (await connections.content.get(workflow_id, reference)).decode("utf-8", "replace")
            elif call.code is None:
                missing.append(f"The {name} was never kept.")
        except MissingContent:
            missing.append(f"The {name} was erased.")
    return {**dumped(call), **texts, "missing": " ".join(missing) or None}


# --- states and decisions -----------------------------------------------------------------------------


async def stored(connections: Connections, workflow_id: str, *, until: int | None = None) -> list[StoredRecord]:
    """Return the records of a workflow, or those up to one.

    Raises:
        UnknownWorkflow, WorkflowPending: as `find_workflow`.
        UnknownSeq: it has no such record.
    """
    await find_workflow(connections, workflow_id)
    limit = None if until is None else until + 1
    records = await reader.stored_records(connections.pool, workflow_id, limit=limit)
    last = records[-1].seq
    if until is not None and last != until:
        raise UnknownSeq(workflow_id, until, superseded=False, nearest=last, last=last)
    return records


@router.get("/workflows/{workflow_id}/state", response_model=WorkflowState)
async def read_state(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    door: DoorOf,
    _: Reader,
    at: Annotated[
        int | None, Query(description="After this event; otherwise after the last.", ge=0, le=MAX_SEQ)
    ] = None,
) -> Response:
    """Return the state after an event, as the roles fold it."""
    records = await stored(connections, workflow_id, until=at)

    def fold() -> Any:
        return as_json(last_state(workflow_id, records))

    async with door.busy:
        return json_response(request, await asyncio.to_thread(fold))


class SeenDocument(CamelModel):
    """A document that the decision could use."""

    reference: str
    document_name: str
    mime_type: str
    size: int
    label: str | None


class SeenBudget(CamelModel):
    """What a budget allowed, and what was used of it."""

    of: str
    code: str
    used: int
    limit: int


class NextDecision(CamelModel):
    """The decision that came next."""

    seq: int
    type: str
    data: dict[str, JsonValue]


class SeenByDecision(CamelModel):
    """The workflow after an event, and what the next decision saw, said and decided."""

    seq: int
    type: str
    phase: str
    round: int
    task: int
    attempt: int
    step: int
    history: list[ChatMessage]
    documents: list[SeenDocument]
    budgets: list[SeenBudget]
    model: str | None = Field(description="Null if code decided without a model.")
    template: str | None
    prompt: str | None
    answer: str | None
    decision: NextDecision | None = Field(description="Null if no decision has followed.")
    missing: str | None = Field(description="Why prompt or answer is not shown; null if both are.")


@router.get("/workflows/{workflow_id}/decisions/{seq}", response_model=SeenByDecision)
async def read_decision(
    *, request: Request, workflow_id: WorkflowId, seq: Seq, connections: Opened, door: DoorOf, caller: Reader
) -> Response:
    """Return what the decision after an event saw: history, documents, budgets, prompt and answer."""
    records = await stored(connections, workflow_id)
    async with door.busy:
        shown = as_object(await view(workflow_id, records, connections.content, at=seq))
    if "content" not in caller.scopes and (shown["prompt"] or shown["answer"]):
        shown |= {"prompt": None, "answer": None, "missing": NO_SCOPE}
    return json_response(request, shown)


class ReplayedDecision(CamelModel):
    """A decision that was made again from its record."""

    seq: int
    type: str
    decision: Sameness
    prompt: Sameness
    detail: str


class ReplayedDecisions(CamelModel):
    """All decisions of a workflow, made again, and how many gave the same result."""

    items: list[ReplayedDecision]
    decisions: int
    same: int
    differs: int
    inconclusive: int


@router.get("/workflows/{workflow_id}/replay", response_model=ReplayedDecisions)
async def replay_workflow(
    *, request: Request, workflow_id: WorkflowId, connections: Opened, door: DoorOf, _: Auditor
) -> Response:
    """Make every decision again from what is recorded, and compare; no model is asked and nothing is written."""
    records = await stored(connections, workflow_id)
    async with door.busy, known_actions(door.settings) as actions:
        results = [result async for result in replay(workflow_id, records, connections.content, actions)]
    return json_response(request, {"items": [result._asdict() for result in results], **Counted.of(results)._asdict()})


# --- the ledger ---------------------------------------------------------------------------------------


@router.get("/ledger/checkpoint", response_class=PlainTextResponse)
async def read_checkpoint(*, request: Request, connections: Opened, _: Reader) -> Response:
    """Return the newest signed checkpoint of the audit ledger, as C2SP `tlog-checkpoint` has it.

    Keep it: the verification compares the ledger with every older checkpoint that you hold.
    """
    async with acquire(connections.pool) as connection:
        note = await newest_checkpoint(connection)
    if note is None:
        raise Problem("not_found", "The ledger has not signed a checkpoint yet.")
    return cacheable_response(request, note.encode(), "text/plain; charset=utf-8")


# --- records as bytes ---------------------------------------------------------------------------------


class RawRecord(CamelModel):
    """The bytes of a record, and where they are in the log."""

    partition: int
    offset: int
    time: str
    sha256: str
    value: str = Field(description="The bytes, as base64.")


@router.get(
    "/workflows/{workflow_id}/events/{seq}/raw",
    response_class=Response,
    responses={200: {"content": {BYTES: {}, JSON: {"schema": RawRecord.model_json_schema()}}}},
)
async def read_record(
    *, request: Request, workflow_id: WorkflowId, seq: Seq, connections: Opened, _: Auditor
) -> Response:
    """Return the bytes of a record; as JSON if `Accept` asks for it."""
    media_type = expect_accepted(request, BYTES, JSON)
    await find_workflow(connections, workflow_id)
    records = await reader.stored_records(connections.pool, workflow_id, after_seq=seq - 1, limit=1)
    if not records or records[0].seq != seq:
        last = (await reader.record_counts(connections.pool, [workflow_id]))[workflow_id] - 1
        raise UnknownSeq(workflow_id, seq, superseded=False, nearest=min(seq, last), last=last)
    record = records[0]
    if not record.is_whole:
        raise Problem("rows_differ", f"The row of event {seq} does not hold the bytes that came.")
    facts = {"partition": record.partition, "offset": record.offset, "time": reader.time(record.time_ms)}
    if media_type == JSON:
        value = base64.b64encode(record.value).decode()
        return json_response(request, {**facts, "sha256": record.sha256.hex(), "value": value})
    headers = {f"PowerOn-{name.title()}": str(value) for name, value in facts.items()}
    headers["Repr-Digest"] = f"sha-256=:{base64.b64encode(record.sha256).decode()}:"
    return cacheable_response(request, record.value, BYTES, more=headers)


# --- two workflows ------------------------------------------------------------------------------------


class RunCostShown(CamelModel):
    """What a workflow cost."""

    workflow_id: str
    steps: int
    calls: int
    recorded_calls: int
    tokens: int
    model_ms: int
    action_ms: int
    cost_usd: float


class ComparedRuns(CamelModel):
    """Where two workflows first differ, and what each cost."""

    same: bool
    same_steps: bool = Field(description="Whether actions, parameters, outcomes and decisions are the same.")
    different: list[str] = Field(description="Which of `documents`, `request` and `answer` differ.")
    divergence: Divergence | None
    a: RunCostShown
    b: RunCostShown


@router.get("/workflows/{workflow_id}/diff", response_model=ComparedRuns)
async def compare_workflows(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    door: DoorOf,
    _: Reader,
    other: Annotated[
        str,
        IN_LOWER_CASE,
        Query(alias="with", description="The workflow to compare it with.", pattern=UUID, examples=[EXAMPLE_ID]),
    ],
) -> Response:
    """Return where two workflows first differ: in what was given, in steps or in answers."""
    runs = []
    for id_ in (workflow_id, other):
        await find_workflow(connections, id_)
        judged = await reader.judged_records(connections.pool, id_)
        runs.append([entry.event for entry in accepted(judged)])
    async with door.busy:
        changed = await changed_documents(connections.content, (workflow_id, runs[0]), (other, runs[1]))
        comparison = await asyncio.to_thread(compare, runs[0], runs[1], changed)
    return json_response(request, comparison.as_object(workflow_id, other))
