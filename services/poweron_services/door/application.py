"""The application: the API below `/api/v1`, and the pages."""

from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from poweron_events.errors import PowerOnError
from poweron_services.door import event_streams, html_pages, probe_routes, workflow_commands, workflow_queries
from poweron_services.door.door_state import API, DoorState
from poweron_services.door.http_guard import HttpGuard
from poweron_services.door.problems import Problem, problem_of, problem_response, wants_page
from poweron_services.door.request_meter import RequestMeter

ERRORS: Final = (Problem, PowerOnError, RequestValidationError, ValidationError, HTTPException, Exception)


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
    for routes in (workflow_commands, workflow_queries, event_streams):
        app.include_router(routes.router, prefix=API)
    app.include_router(html_pages.router, include_in_schema=False)
    app.mount("/static", html_pages.STATIC)
    app.include_router(probe_routes.router, include_in_schema=False)
    for error in ERRORS:
        app.add_exception_handler(error, _answered)
    return RequestMeter(HttpGuard(app, door.hosts), door)


async def _answered(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if wants_page(request):
        return html_pages.problem_page(request, problem)
    return problem_response(problem)
