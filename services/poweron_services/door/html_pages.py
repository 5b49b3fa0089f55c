"""The pages for people, written on the server; scripts only add live updates and shortcuts."""

from typing import Final

from fastapi import APIRouter, Request, Response

from poweron_projections import reader
from poweron_services.door import workflow_list_page
from poweron_services.door.access import Reader
from poweron_services.door.door_state import Opened
from poweron_services.door.page_rendering import STATIC, problem_page, rendered
from poweron_services.door.workflow_queries import WorkflowId, known

__all__: Final = ["STATIC", "problem_page", "rendered", "router"]

router = APIRouter()
router.include_router(workflow_list_page.router)


@router.get("/w/{workflow_id}")
async def workflow_page(*, request: Request, workflow_id: WorkflowId, connections: Opened, _: Reader) -> Response:
    """Show a workflow: the answer first."""
    workflow = await known(connections, workflow_id)
    return rendered(
        request,
        "workflow.html",
        workflow=workflow,
        rounds=await reader.rounds(connections.pool, workflow_id),
        steps=await reader.steps(connections.pool, workflow_id),
        history=await reader.history(connections.pool, workflow_id),
    )
