"""Queries about the list of all workflows and about one of them, with the field names of `--json`."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from poweron_events.codec import is_uuid
from poweron_events.codes import Code
from poweron_events.errors import Unavailable
from poweron_events.fold.state import Phase
from poweron_events.request import RequestRefused
from poweron_projections import reader, workflow_excerpts
from poweron_projections.entries import (
    DocumentEntry,
    EventEntry,
    HistoryEntry,
    RoundSummary,
    StepEntry,
    TaskEntry,
    UsageEntry,
    WorkflowStatus,
    WorkflowSummary,
)
from poweron_projections.workflow_filter import Condition
from poweron_services.client.cancel import pending_request
from poweron_services.client.client_errors import NotAWorkflowId, UnknownWorkflow, WorkflowPending
from poweron_services.client.connect import Connections
from poweron_services.client.source_check import Sources
from poweron_services.client.workflow_snapshot import folded_history, look_up_snapshot, reasons
from poweron_services.door.access import ContentReader, Reader
from poweron_services.door.door_state import DoorOf, DoorState, Opened
from poweron_services.door.json_responses import ListPage, dumped, json_response, page
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import (
    MAX_SEQ,
    MOST,
    PLACE,
    Limit,
    Moment,
    NumberCursor,
    WorkflowId,
    cursor,
    parse_place,
    place_name,
)
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.source_search import all_sources

router = APIRouter(tags=["workflows"], route_class=QueryRoute)

KAFKA_WITHIN: Final = 1.0  # seconds in which Kafka may say whether an unknown workflow was requested
MAX_PAGE: Final = 60_000  # bytes of a page of workflows, whose prompts and answers may be long
REFUSED: Final = frozenset({RequestRefused.TYPE})
Text = Annotated[str, Field(min_length=1, max_length=255)]
Words = Annotated[str, Query(min_length=1, max_length=1_000)]


async def find_workflow(connections: Connections, workflow_id: str) -> WorkflowSummary:
    """Return the workflow; if the rows do not hold it, Kafka is asked, but not for long.

    Raises:
        NotAWorkflowId: the id is malformed.
        UnknownWorkflow: there is none.
        WorkflowPending: it was requested, but is not open yet.
    """
    if not is_uuid(workflow_id):
        raise NotAWorkflowId(workflow_id)
    workflow = await reader.workflow(connections.pool, workflow_id)
    if workflow is not None:
        return workflow
    try:
        async with asyncio.timeout(KAFKA_WITHIN):
            pending = await pending_request(connections, workflow_id, 1)
            if pending is None:
                await look_up_snapshot(connections, workflow_id)  # catches the rows up
    except (Unavailable, TimeoutError):
        raise Problem(
            "unknown_workflow", f"The rows hold no workflow {workflow_id}. Kafka does not say whether it was requested."
        ) from None
    if pending is not None:
        raise WorkflowPending(workflow_id, pending)
    workflow = await reader.workflow(connections.pool, workflow_id)
    if workflow is None:
        raise UnknownWorkflow(workflow_id)
    return workflow


@router.get("/workflows", response_model=ListPage[WorkflowSummary])
async def list_workflows(
    *,
    request: Request,
    connections: Opened,
    _: Reader,
    status: Annotated[
        list[WorkflowStatus] | None, Query(description="One of these; repeatable, as all filters.")
    ] = None,
    phase: Annotated[list[Phase] | None, Query(description="What it waits for.")] = None,
    action: Annotated[list[Text] | None, Query(description="A step of it chose this action.")] = None,
    model: Annotated[list[Text] | None, Query(description="This model answered a call of it.")] = None,
    actor: Annotated[list[Text] | None, Query(description="This actor asked for a round of it.")] = None,
    code: Annotated[list[Code] | None, Query(description="Why its last round ended.")] = None,
    q: Annotated[Words | None, Query(description="Words of prompts and answers, as in a search engine.")] = None,
    after: Annotated[Moment | None, Query(description="Opened after this time.")] = None,
    before: Annotated[Moment | None, Query(description="Opened before this time.")] = None,
    limit: Limit = 50,
    place: Annotated[str | None, cursor(r"^[0-9]{1,18}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] = None,
) -> Response:
    """List workflows, newest first: those that match all filters.

    A page has at most `limit` entries and about 60 kB.
    """
    listed = {"status": status, "phase": phase, "action": action, "model": model, "actor": actor, "code": code}
    conditions = [Condition.one_of(key, values) for key, values in listed.items() if values]
    conditions += [] if q is None else [Condition.words(q)]
    conditions += [] if after is None else [Condition.opened(">", after)]
    conditions += [] if before is None else [Condition.opened("<", before)]
    entries = await reader.workflows(connections.pool, limit=limit, before=place, conditions=conditions)
    shown, size = list[Any](), 0
    for entry in entries:
        line = orjson.dumps(dumped(entry))
        size += len(line) + 1
        if shown and size > MAX_PAGE:
            break
        shown.append(orjson.Fragment(line))
    is_last = len(shown) == len(entries) < limit
    return page(request, shown, None if is_last or not entries else entries[len(shown) - 1].cursor)


@router.get("/workflows/{workflow_id}", response_model=WorkflowSummary)
async def read_workflow(*, request: Request, workflow_id: WorkflowId, connections: Opened, _: Reader) -> Response:
    """Return the state of a workflow."""
    return json_response(request, await find_workflow(connections, workflow_id))


def _after(place: str | None) -> int:
    """Return the number after which a page begins; -1 for the first page."""
    return -1 if place is None else int(place)


@router.get("/workflows/{workflow_id}/rounds", response_model=ListPage[RoundSummary])
async def list_rounds(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    _: Reader,
    limit: Limit = MOST,
    place: NumberCursor = None,
) -> Response:
    """Return what was asked in each round, and how it ended."""
    await find_workflow(connections, workflow_id)
    entries = await workflow_excerpts.rounds(connections.pool, workflow_id, after=_after(place), limit=limit)
    return page(request, entries, str(entries[-1].round) if len(entries) == limit else None)


@router.get("/workflows/{workflow_id}/tasks", response_model=ListPage[TaskEntry])
async def list_tasks(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    _: Reader,
    limit: Limit = MOST,
    place: Annotated[str | None, cursor(r"^[0-9]{1,9}_[0-9]{1,9}$")] = None,
) -> Response:
    """Return the tasks in the order in which they are worked on."""
    await find_workflow(connections, workflow_id)
    round_, task = (-1, -1) if place is None else map(int, place.split("_"))
    entries = await workflow_excerpts.tasks(connections.pool, workflow_id, after=(round_, task), limit=limit)
    return page(request, entries, f"{entries[-1].round}_{entries[-1].task}" if len(entries) == limit else None)


@router.get("/workflows/{workflow_id}/steps", response_model=ListPage[StepEntry])
async def list_steps(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    _: Reader,
    limit: Limit = MOST,
    place: Annotated[str | None, cursor(PLACE)] = None,
) -> Response:
    """Return the steps in order."""
    await find_workflow(connections, workflow_id)
    after = parse_place(place or "") or workflow_excerpts.BEFORE_ALL
    entries = await workflow_excerpts.steps(connections.pool, workflow_id, after=after, limit=limit)
    return page(request, entries, place_name(entries[-1].place) if len(entries) == limit else None)


@router.get("/workflows/{workflow_id}/history", response_model=ListPage[HistoryEntry])
async def read_history(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    _: Reader,
    limit: Limit = 50,
    place: NumberCursor = None,
) -> Response:
    """Return the history, newest first."""
    await find_workflow(connections, workflow_id)
    before = None if place is None else int(place)
    entries = await reader.history(connections.pool, workflow_id, limit=limit, before_seq=before)
    return page(request, entries, str(entries[-1].seq) if len(entries) == limit else None)


class ListedEvent(EventEntry):
    """One record of a workflow, with its verdict and its payload."""

    why: str | None = Field(default=None, exclude_if=lambda why: why is None)
    """Why a request was refused, or an answer of a person had no effect."""


@router.get("/workflows/{workflow_id}/events", response_model=ListPage[ListedEvent])
async def list_events(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    door: DoorOf,
    _: Reader,
    limit: Limit = 100,
    after: Annotated[int, Query(description="Only events after this number.", ge=-1, le=MAX_SEQ)] = -1,
    place: NumberCursor = None,
) -> Response:
    """Return every record with its verdict, oldest first."""
    await find_workflow(connections, workflow_id)
    last = after if place is None else int(place)
    entries = await reader.events(connections.pool, workflow_id, after_seq=last, limit=limit)
    items = await with_reasons(door, workflow_id, entries)
    return page(request, items, str(entries[-1].seq) if len(entries) == limit else None)


async def with_reasons(door: DoorState, workflow_id: str, entries: list[EventEntry]) -> list[dict[str, Any]]:
    """Return events as JSON, with the reasons of those without effect.

    Raises:
        Refused: a row does not hold the bytes that came.
    """
    whys = dict[int, str]()
    if any(entry.verdict == "superseded" or entry.type in REFUSED for entry in entries):
        async with door.busy:
            records = await reader.stored_records(door.opened.pool, workflow_id, limit=entries[-1].seq + 1)
            whys = await asyncio.to_thread(lambda: reasons(folded_history(workflow_id, records)))
    return [dumped(entry) | ({"why": whys[entry.seq]} if entry.seq in whys else {}) for entry in entries]


def _page_of_events(request: Request, entries: Sequence[UsageEntry | DocumentEntry], limit: int) -> Response:
    """Return a page whose last event is complete, so that it may have a few more entries than `limit`."""
    return page(request, entries, str(entries[-1].seq) if len(entries) >= limit else None)


@router.get("/workflows/{workflow_id}/usage", response_model=ListPage[UsageEntry])
async def list_usage(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    _: Reader,
    limit: Limit = MOST,
    place: NumberCursor = None,
) -> Response:
    """Return every model call, including those of superseded events.

    All calls of an event are on one page, which may have a few more than `limit`.
    """
    await find_workflow(connections, workflow_id)
    entries = await workflow_excerpts.usage(connections.pool, workflow_id, after=_after(place), limit=limit)
    return _page_of_events(request, entries, limit)


@router.get("/workflows/{workflow_id}/documents", response_model=ListPage[DocumentEntry])
async def list_documents(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    _: Reader,
    limit: Limit = MOST,
    place: NumberCursor = None,
) -> Response:
    """Return the documents in the order in which they were added.

    All documents of an event are on one page, which may have a few more than `limit`.
    """
    await find_workflow(connections, workflow_id)
    entries = await workflow_excerpts.documents(connections.pool, workflow_id, after=_after(place), limit=limit)
    return _page_of_events(request, entries, limit)


@router.get("/workflows/{workflow_id}/sources", response_model=Sources)
async def check_sources(
    *, request: Request, workflow_id: WorkflowId, connections: Opened, door: DoorOf, _: ContentReader
) -> Response:
    """Return what the answers cite, and whether the quotes appear there."""
    await find_workflow(connections, workflow_id)
    return json_response(request, await all_sources(door, workflow_id))
