"""The application: the API below `/api/v1`, and the pages."""

from http import HTTPStatus
from typing import Final

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from poweron_events.errors import PowerOnError
from poweron_services.door import event_streams, html_pages, login_pages, workflow_commands, workflow_queries
from poweron_services.door.access import caller_of, stream_slot
from poweron_services.door.door_state import API, DoorState
from poweron_services.door.http_guard import HttpGuard
from poweron_services.door.problems import Problem, problem_of, problem_response, wants_page

ERRORS: Final = (Problem, PowerOnError, RequestValidationError, ValidationError, HTTPException, Exception)

IDENTIFIED: Final = Depends(caller_of)
"""Comes before all other dependencies of a route: a stranger learns nothing of the servers, and sends no files."""


def build(door: DoorState) -> ASGIApp:
    """Build the application of a door."""
    app = FastAPI(
        title="PowerOn",
        version="0.4.0",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.door = door
    for routes in (workflow_commands, workflow_queries):
        app.include_router(routes.router, prefix=API, dependencies=[IDENTIFIED])
    app.include_router(event_streams.router, prefix=API, dependencies=[IDENTIFIED, Depends(stream_slot)])
    app.include_router(login_pages.router, include_in_schema=False)
    app.include_router(html_pages.router, include_in_schema=False, dependencies=[IDENTIFIED])
    app.mount("/static", html_pages.STATIC)
    for error in ERRORS:
        app.add_exception_handler(error, _answered)
    return HttpGuard(app, door.hosts)


async def _answered(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if wants_page(request):
        if problem.status == HTTPStatus.UNAUTHORIZED:
            return login_pages.login_redirect(request)
        return html_pages.problem_page(request, problem)
    return problem_response(problem)
