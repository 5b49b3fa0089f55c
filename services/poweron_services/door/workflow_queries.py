"""Queries about one workflow and about the list of all, with the field names of `--json`."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response

from poweron_projections import reader
from poweron_projections.entries import (
    DocumentEntry,
    EventEntry,
    HistoryEntry,
    RoundSummary,
    StepEntry,
    TaskEntry,
    UsageEntry,
    WorkflowSummary,
)
from poweron_services.client.cancel import why_unknown
from poweron_services.client.connect import Connections
from poweron_services.door.access import Reader
from poweron_services.door.door_state import Opened
from poweron_services.door.json_responses import found, page

router = APIRouter(tags=["queries"])

MOST: Final = 500  # entries of a page
UUID: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
WorkflowId = Annotated[
    str, Path(description="The workflow.", pattern=UUID, examples=["8f14e45f-ceea-567a-8f14-e45fceea167a"])
]
Limit = Annotated[int, Query(ge=1, le=MOST)]


async def known(connections: Connections, workflow_id: str) -> WorkflowSummary:
    """Return the workflow.

    Raises:
        UnknownWorkflow: there is none.
        WorkflowPending: it was requested, but is not open yet.
    """
    workflow = await reader.workflow(connections.pool, workflow_id)
    if workflow is None:
        raise await why_unknown(connections, workflow_id)
    return workflow


@router.get("/workflows", response_model=list[WorkflowSummary])
async def list_workflows(
    request: Request, connections: Opened, _: Reader, limit: Limit = 50, after: str | None = None
) -> Response:
    """List workflows, newest first."""
    entries = await reader.workflows(connections.pool, limit=limit, before=after)
    return page(request, entries, entries[-1].cursor if len(entries) == limit else None)


@router.get("/workflows/{workflow_id}", response_model=WorkflowSummary)
async def read_workflow(*, request: Request, workflow_id: WorkflowId, connections: Opened, _: Reader) -> Response:
    """Return the state of a workflow."""
    return found(request, await known(connections, workflow_id))


@router.get("/workflows/{workflow_id}/rounds", response_model=list[RoundSummary])
async def list_rounds(*, request: Request, workflow_id: WorkflowId, connections: Opened, _: Reader) -> Response:
    """Return what was asked in each round, and how it ended."""
    await known(connections, workflow_id)
    return page(request, await reader.rounds(connections.pool, workflow_id), None)


@router.get("/workflows/{workflow_id}/tasks", response_model=list[TaskEntry])
async def list_tasks(*, request: Request, workflow_id: WorkflowId, connections: Opened, _: Reader) -> Response:
    """Return the tasks in the order in which they are worked on."""
    await known(connections, workflow_id)
    return page(request, await reader.tasks(connections.pool, workflow_id), None)


@router.get("/workflows/{workflow_id}/steps", response_model=list[StepEntry])
async def list_steps(*, request: Request, workflow_id: WorkflowId, connections: Opened, _: Reader) -> Response:
    """Return the steps in order."""
    await known(connections, workflow_id)
    return page(request, await reader.steps(connections.pool, workflow_id), None)


@router.get("/workflows/{workflow_id}/history", response_model=list[HistoryEntry])
async def read_history(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    _: Reader,
    limit: Limit = 50,
    after: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Response:
    """Return the history, newest first."""
    await known(connections, workflow_id)
    entries = await reader.history(connections.pool, workflow_id, limit=limit, before_seq=after)
    return page(request, entries, str(entries[-1].seq) if len(entries) == limit else None)


@router.get("/workflows/{workflow_id}/events", response_model=list[EventEntry])
async def list_events(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    _: Reader,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=-1, le=2**31 - 1)] = -1,
) -> Response:
    """Return every record with its verdict, oldest first."""
    await known(connections, workflow_id)
    entries = await reader.events(connections.pool, workflow_id, after_seq=after, limit=limit)
    return page(request, entries, str(entries[-1].seq) if len(entries) == limit else None)


@router.get("/workflows/{workflow_id}/usage", response_model=list[UsageEntry])
async def list_usage(*, request: Request, workflow_id: WorkflowId, connections: Opened, _: Reader) -> Response:
    """Return every model call, including those of superseded events."""
    await known(connections, workflow_id)
    return page(request, await reader.usage(connections.pool, workflow_id), None)


@router.get("/workflows/{workflow_id}/documents", response_model=list[DocumentEntry])
async def list_documents(*, request: Request, workflow_id: WorkflowId, connections: Opened, _: Reader) -> Response:
    """Return the documents in the order in which they were added."""
    await known(connections, workflow_id)
    return page(request, await reader.documents(connections.pool, workflow_id), None)
