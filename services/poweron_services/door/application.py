"""The application: the API below `/api/v1`, and the pages."""

from http import HTTPStatus
from typing import Final

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Scope

from poweron_events.errors import PowerOnError
from poweron_services.door import (
    api_document,
    approval_answers,
    approval_pages,
    audit_queries,
    batch_commands,
    comparison_page,
    content_downloads,
    cost_page,
    dead_letter_commands,
    dead_letter_pages,
    document_page,
    event_streams,
    fork_requests,
    key_page,
    log_pages,
    login_pages,
    operation_page,
    overview_queries,
    permission_pages,
    probe_routes,
    problem_pages,
    request_status,
    step_page,
    workflow_commands,
    workflow_list_page,
    workflow_page,
    workflow_queries,
)
from poweron_services.door.access import caller_of
from poweron_services.door.api_document import DocumentedApi
from poweron_services.door.door_state import API, DoorState
from poweron_services.door.http_guard import HttpGuard
from poweron_services.door.http_methods import HttpMethods, allowed
from poweron_services.door.page_rendering import STATIC, VERSION, page_of_form, problem_page
from poweron_services.door.problems import Problem, problem_of, problem_response, routing_problem, wants_page
from poweron_services.door.request_meter import RequestMeter
from poweron_services.door.short_ids import whole_address

ERRORS: Final = (Problem, PowerOnError, RequestValidationError, ValidationError, HTTPException, Exception)

ROUTES: Final = (
    workflow_commands,
    approval_answers,
    batch_commands,
    fork_requests,
    dead_letter_commands,
    request_status,
    workflow_queries,
    audit_queries,
    content_downloads,
    overview_queries,
)
PAGES: Final = (
    workflow_list_page,
    workflow_page,
    document_page,
    step_page,
    comparison_page,
    log_pages,
    approval_pages,
    operation_page,
    dead_letter_pages,
    cost_page,
    permission_pages,
    key_page,
)
IDENTIFIED: Final = Depends(caller_of)
"""Comes before all other dependencies of a route: a stranger learns nothing of the servers, and sends no files."""


def build(door: DoorState) -> ASGIApp:
    """Build the application of a door."""
    app = routed(door)
    sender = event_streams.StreamSender(app)

    def refuse(scope: Scope, problem: Problem) -> Response:
        return _shown(Request({**scope, "app": app}), problem)

    return RequestMeter(HttpGuard(HttpMethods(sender, app.routes), door.hosts, refuse), door)


def routed(door: DoorState) -> DocumentedApi:
    """Build the routes of a door, with the OpenAPI document that describes them."""
    app = DocumentedApi(version=VERSION)
    app.state.door = door
    for routes in (*ROUTES, event_streams):
        app.include_router(routes.router, prefix=API, dependencies=[IDENTIFIED])
    for pages in PAGES:
        app.include_router(pages.router, include_in_schema=False, dependencies=[IDENTIFIED])
    for open_to_all in (api_document, login_pages, problem_pages):
        app.include_router(open_to_all.router, include_in_schema=False)
    app.mount("/static", STATIC)
    app.include_router(probe_routes.router, include_in_schema=False)
    for error in ERRORS:
        app.add_exception_handler(error, _answered)
    return app


async def _answered(request: Request, error: Exception) -> Response:
    if (address := await whole_address(request, error)) is not None:
        return RedirectResponse(address, 303)
    return _shown(request, routing_problem(error, request) if isinstance(error, HTTPException) else problem_of(error))


def _shown(request: Request, problem: Problem) -> Response:
    """Return a problem as a page for browsers, and as JSON for programs.

    A browser that reads an address to which a form is sent is led to the page of the form.
    """
    if wants_page(request):
        page = page_of_form(request.url.path)
        if problem.code == "method_not_allowed" and request.method == "GET" and page != request.url.path:
            return RedirectResponse(page, 303)
        if problem.status == HTTPStatus.UNAUTHORIZED:
            return login_pages.login_redirect(request)
        return problem_page(request, problem)
    is_wrong_method = int(problem.status) == HTTPStatus.METHOD_NOT_ALLOWED
    headers = {"Allow": allowed(request.app.routes, request.scope)} if is_wrong_method else None
    return problem_response(problem, headers=headers)
