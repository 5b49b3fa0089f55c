"""What went wrong, as RFC 9457 problems: a status, a code, a sentence, and advice on the page that `type` names."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from poweron_events.codes import CODES, Code, Explained
from poweron_events.errors import Conflict, MissingContent, PowerOnError, Unavailable
from poweron_events.validation_messages import explain, named, worded
from poweron_services.client.client_errors import NotAWorkflowId

log = structlog.get_logger()

MEDIA_TYPE: Final = "application/problem+json"
MAX_SHOWN: Final = 100  # characters of a wrong parameter
_PARTS: Final[Mapping[str, str]] = {"query": "the query", "path": "the address", "header": "a header"}
POWERON: Final = "uv run poweron"
"""The command in the advice of pages and problems, as the README has it; the door does not know how it was started."""
_COMMAND: Final = re.compile(r"`poweron(?= )")
RETRY_AFTER: Final = 1.0  # seconds, where an unavailable server says nothing else

HTTP_CODES: Final[dict[str, Explained]] = {
    "conflict": Explained(
        "Another request came first, or the state does not allow this one.", "Read the state again, and decide again."
    ),
    "form_outdated": Explained(
        "The form comes from another session, or from before the door's secret changed.",
        "Load the page again and send the form once more.",
    ),
    "foreign_origin": Explained(
        "The request comes from a page of another site.", "Send it from a page of this door, or without `Origin`."
    ),
    "host_unknown": Explained(
        "The header `Host` names a host that this door does not serve.",
        "Use the address that the door prints at its start, or name the host with `poweron door --host`.",
    ),
    "key_expired": Explained("The key has expired.", "Create another one with `poweron keys add`."),
    "key_missing": Explained(
        "A request from another machine, or through a proxy, needs a key.",
        "Send `Authorization: Bearer KEY`; `poweron keys add` creates a key.",
    ),
    "key_revoked": Explained("The key was revoked.", "Create another one with `poweron keys add`."),
    "key_unknown": Explained("The key is not one of this door's.", "Check the key; `poweron keys list` lists them."),
    "method_not_allowed": Explained(
        "The path does not accept this method.", "The page `/api` lists the methods of each path."
    ),
    "not_acceptable": Explained(
        "The answer has none of the types that `Accept` lists.", "Accept `application/json`, or leave the header out."
    ),
    "not_found": Explained(
        "Nothing is at this address.",
        "Check the address; the page `/` lists the workflows, and `/api` the addresses of the API.",
    ),
    "idempotency_key_reused": Explained(
        "This `Idempotency-Key` was used for another request.",
        "Repeat the first request unchanged, or send this one with a new key.",
    ),
    "media_type_unknown": Explained(
        "The type of the body is not one that this path reads.",
        "Send `application/json`, or `multipart/form-data` with files.",
    ),
    "request_unreadable": Explained(
        "The body, a header or the address of the request cannot be read.", "Correct it; the detail says where."
    ),
    "scope_missing": Explained(
        "The key may not do this.",
        "Use a key with this scope. The operator of this door creates one with "
        "`poweron keys add NAME --actor ACTOR --scope SCOPES`; the scopes of a key do not change.",
    ),
    "too_many_requests": Explained(
        "The key has reached its limit of requests, uploads or streams.", "Wait as long as `Retry-After` says."
    ),
    "nothing_to_edit": Explained(
        "The event is not followed by a decision of a model that could be edited.",
        "Fork at the event before a decision; the page of each event says which one that is.",
    ),
    "not_a_workflow_id": Explained(
        "The id is no UUID.",
        "Copy the whole id from the list of workflows; on pages, its first eight digits or more also do if no other "
        "workflow has them.",
    ),
    "nobody_serves": Explained(
        "No process has taken the request yet; it remains in the log.", "Start `poweron serve` on these servers."
    ),
    "newer_release": Explained("A newer release worked on the workflow.", "Use that release, or a later one."),
    "rows_behind": Explained("The rows do not show the answer yet.", "Read again in a moment."),
    "round_overdue": Explained("The round has not ended in time.", "Start `poweron serve` on these servers."),
    "workflow_pending": Explained("The workflow is requested, but not open yet.", "Read it again in a moment."),
}
"""The codes that only this door, or the client below it, uses."""

_BY_CODE: Final[Mapping[str, HTTPStatus]] = {
    "invalid_request": HTTPStatus.UNPROCESSABLE_ENTITY,
    "not_a_workflow_id": HTTPStatus.NOT_FOUND,
    "not_found": HTTPStatus.NOT_FOUND,
    "unknown_workflow": HTTPStatus.NOT_FOUND,
    "unknown_seq": HTTPStatus.NOT_FOUND,
    "unknown_dead_letter": HTTPStatus.NOT_FOUND,
    "workflow_pending": HTTPStatus.NOT_FOUND,
    "request_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    **dict.fromkeys(
        (
            "foreign_origin",
            "form_outdated",
            "not_an_approver",
            "not_permitted",
            "own_proposal",
            "own_request",
            "scope_missing",
        ),
        HTTPStatus.FORBIDDEN,
    ),
    **dict.fromkeys(
        (
            "already_approved",
            "already_denied",
            "already_paused",
            "answer_superseded",
            "answered_already",
            "approval_overdue",
            "newer_release",
            "no_such_round",
            "not_paused",
            "not_redrivable",
            "nothing_to_approve",
            "other_parameters",
            "policy_applies_already",
            "policy_changed",
            "round_ended",
            "round_open",
            "rows_differ",
            "rows_missing",
        ),
        HTTPStatus.CONFLICT,
    ),
    **dict.fromkeys(("key_missing", "key_unknown", "key_expired", "key_revoked"), HTTPStatus.UNAUTHORIZED),
    "host_unknown": HTTPStatus.MISDIRECTED_REQUEST,
    "idempotency_key_reused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "media_type_unknown": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "not_acceptable": HTTPStatus.NOT_ACCEPTABLE,
    "request_unreadable": HTTPStatus.BAD_REQUEST,
    "too_many_requests": HTTPStatus.TOO_MANY_REQUESTS,
    "too_many_waiting": HTTPStatus.TOO_MANY_REQUESTS,
}
STATUS_CODES: Final[Mapping[int, Code]] = {
    400: "request_unreadable",
    401: "key_missing",
    403: "scope_missing",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "conflict",
    410: "document_missing",
    413: "request_too_large",
    415: "media_type_unknown",
    421: "host_unknown",
    422: "invalid_request",
    429: "too_many_requests",
    503: "unavailable",
}


class Problem(Exception):
    """A request that this door answers with a problem."""

    def __init__(
        self,
        code: Code,
        detail: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status or _BY_CODE.get(code, HTTPStatus.BAD_REQUEST)
        self.retry_after = retry_after
        self.facts = facts


def explained(code: str) -> Explained | None:
    """Return what a code means and what to do; None if there is no such code."""
    return HTTP_CODES.get(code) or CODES.get(code)


def with_typed_commands(text: str) -> str:
    """Return a text of ours with the commands that it sets in backticks as a person types them."""
    return _COMMAND.sub(f"`{POWERON}", text)


def problem_of(error: Exception) -> Problem:
    """Return the problem that an error is to the sender of the request."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, PowerOnError):
        return _of_ours(error)
    if isinstance(error, RequestValidationError):
        return _of_parameter(error.errors()[0])
    if isinstance(error, ValidationError):
        return Problem("invalid_request", f"{explain(error)}.")
    log.error("http_error", exc_info=error)
    return Problem("unexpected_error", "PowerOn met an unexpected error; its log says more.", status=500)


def routing_problem(error: HTTPException, request: Request) -> Problem:
    """Return the problem that no route takes the request."""
    address = repr(request.url.path[:MAX_SHOWN])
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            detail = f"This door has no address {address}."
        case HTTPStatus.METHOD_NOT_ALLOWED:
            detail = f"{address} does not accept {request.method[:MAX_SHOWN]}."
        case _:
            detail = f"{error.detail.removesuffix('.')}."
    return Problem(STATUS_CODES.get(error.status_code, "request_unreadable"), detail, status=error.status_code)


def _of_parameter(wrong: Mapping[str, Any]) -> Problem:
    """Describe what is wrong with a parameter in the address, the query or a header."""
    kind, *place = wrong["loc"]
    if (kind, *place) == ("path", "workflow_id"):
        return _of_ours(NotAWorkflowId(str(wrong["input"])[:MAX_SHOWN]))
    where = [part for part in place if isinstance(part, str)] or [_PARTS.get(str(kind), "the body")]
    ours = wrong["ctx"]["error"] if wrong["type"] == "value_error" else None
    sentence = f"{named(where)}: {ours}" if ours is not None else worded(where, wrong["type"], wrong.get("ctx", {}))
    given = f"{str(wrong['input'])[:MAX_SHOWN]!r}"
    fallback = f"{named(where)} cannot be {given}; the page `/api` shows an example"
    return Problem("invalid_request", f"{sentence or fallback}.", status=422)


def _of_ours(error: PowerOnError) -> Problem:
    text = str(error)
    sentence = text[:1].upper() + text[1:].removesuffix(".") + "."
    if isinstance(error, Unavailable) and error.code not in _BY_CODE:
        return Problem(error.code, sentence, status=503, retry_after=error.retry_after or RETRY_AFTER)
    if isinstance(error, MissingContent):
        return Problem(error.code, sentence, status=410)
    if isinstance(error, Conflict):
        return Problem(error.code, sentence, status=409)
    retry_after = RETRY_AFTER if error.code == "workflow_pending" else None
    status = _BY_CODE.get(error.code, HTTPStatus.UNPROCESSABLE_ENTITY)
    return Problem(error.code, sentence, status=status, retry_after=retry_after)


def problem_response(problem: Problem, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return the problem as JSON."""
    meaning = explained(problem.code)
    body = {
        "type": f"/problems/{problem.code}",
        "title": meaning.meaning if meaning else HTTPStatus(problem.status).phrase,
        "status": int(problem.status),
        "detail": str(problem),
        "code": problem.code,
        "advice": with_typed_commands(meaning.remedy) if meaning else "",
        **problem.facts,
    }
    return Response(
        orjson.dumps(body), int(problem.status), {**(headers or {}), **retry_header(problem)}, media_type=MEDIA_TYPE
    )


def retry_header(problem: Problem) -> dict[str, str]:
    """Return the headers that say when to try again, and how to identify oneself."""
    headers = {}
    if problem.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(problem.retry_after)))
    if int(problem.status) == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def wants_page(request: Request) -> bool:
    """Return whether a person's browser asks, and not a program."""
    return not request.url.path.startswith(("/api/", "/static/")) and "text/html" in request.headers.get("accept", "")


def status_of_code(code: str) -> HTTPStatus | None:
    """Return the status of answers with this code; None if it depends on the error."""
    return _BY_CODE.get(code)
