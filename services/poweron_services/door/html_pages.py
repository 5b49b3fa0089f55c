"""The pages for people, written on the server; scripts only add live updates and shortcuts."""

from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.staticfiles import StaticFiles

from poweron_projections import reader
from poweron_services.door.access import Reader
from poweron_services.door.door_state import Opened
from poweron_services.door.problems import Problem, explained, retry_header
from poweron_services.door.session_cookies import form_token
from poweron_services.door.workflow_queries import WorkflowId, known

HERE: Final = Path(__file__).parent
STATIC: Final = StaticFiles(directory=HERE / "static")
TEMPLATES: Final = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

router = APIRouter()


def rendered(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Render a page."""
    html = TEMPLATES.get_template(template).render(
        nonce=request.state.nonce, path=request.url.path, token=form_token(request), **values
    )
    return Response(html, status, media_type="text/html")


def problem_page(request: Request, problem: Problem) -> Response:
    """Render what went wrong, and what to do about it."""
    response = rendered(
        request, "problem.html", status=int(problem.status), problem=problem, meaning=explained(problem.code)
    )
    response.headers.update(retry_header(problem))
    return response


@router.get("/")
async def workflows_page(request: Request, connections: Opened, _: Reader) -> Response:
    """Show a box to ask with, and the list of workflows."""
    return rendered(request, "workflows.html", workflows=await reader.workflows(connections.pool))


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
