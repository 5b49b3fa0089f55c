"""Commands: requests in the log, each answered with 202 as soon as it is there."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import orjson
from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException

from poweron_events.event import NANO
from poweron_events.request import Requester, RequestIdentity, RequestWorkflow, workflow_id
from poweron_services.client.ask import File, ask
from poweron_services.client.follow import Outcome
from poweron_services.door.access import Sender
from poweron_services.door.dispatch import IdempotencyKey, Prefer, dispatched, identity_of, wait_seconds
from poweron_services.door.door_state import API, Opened
from poweron_services.door.json_responses import JSON
from poweron_services.door.problems import Problem

router = APIRouter(tags=["commands"])

MAX_FILES: Final = 100
MAX_FILE: Final = 200_000_000  # bytes
MAX_JSON: Final = 1_000_000  # bytes
NOT_FROM_SENDERS: Final = frozenset({"actor", "requester", "documents", "forked_from", "restarted_from"})
"""Fields of a request that this door sets itself."""


async def received(request: Request, kind: type[RequestWorkflow]) -> tuple[dict[str, Any], list[File]]:
    """Read the request and its files from the body, JSON or multipart.

    Raises:
        Problem: the body is of another type, too large or unreadable.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == JSON:
        body = await request.body()
        return _fields(body, kind), []
    if media_type != "multipart/form-data":
        raise Problem("media_type_unknown", f"The body is {media_type[:100] or 'of no known type'!r}.")
    try:
        async with request.form(max_files=MAX_FILES, max_fields=10, max_part_size=MAX_JSON) as form:
            given = form.get("request", "")
            data = await given.read() if isinstance(given, UploadFile) else given.encode()
            files = [
                File(upload.filename or "document", await upload.read())
                for name, upload in form.multi_items()
                if name != "request" and isinstance(upload, UploadFile)
            ]
    except MultiPartException as error:
        raise Problem("request_unreadable", f"The form cannot be read: {error.message}") from error
    return _fields(data, kind), files


def _fields(data: bytes, kind: type[RequestWorkflow]) -> dict[str, Any]:
    if len(data) > MAX_JSON:
        raise Problem("request_too_large", f"The request has {len(data):,} bytes; at most {MAX_JSON:,} are allowed.")
    try:
        fields = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Problem("request_unreadable", f"The request is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise Problem("request_unreadable", "The request is not a JSON object.")
    if forbidden := [
        field.alias for name, field in kind.model_fields.items() if name in NOT_FROM_SENDERS and field.alias in fields
    ]:
        raise Problem("invalid_request", f"{forbidden[0]}: is set by the door, not by the sender.")
    return fields


def accepted(workflow: str, identity: RequestIdentity) -> Response:
    """Return the answer to a request that is in the log."""
    base = f"{API}/workflows/{workflow}"
    links = {
        "workflow": base,
        "history": f"{base}/history",
        "events": f"{base}/events",
        "stream": f"{base}/stream",
        "page": f"/w/{workflow}",
    }
    body = {"workflowId": workflow, "requestId": identity.id, "links": links}
    return Response(orjson.dumps(body), 202, {"Location": base}, media_type=JSON)


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a request, with the fields of `--json`."""
    return {
        "workflowId": outcome.workflow_id,
        "round": outcome.round,
        "status": "refused" if outcome.refusal else outcome.status,
        "code": outcome.code,
        "message": outcome.message,
        "documents": [document.model_dump(mode="json", by_alias=True) for document in outcome.documents],
        "steps": outcome.totals.steps,
        "tokens": outcome.totals.input_tokens + outcome.totals.output_tokens,
        "costUsd": outcome.totals.cost_nano_usd / NANO,
        "durationMs": outcome.duration_ms,
    }


@router.post("/workflows", status_code=202)
async def start_workflow(
    *,
    request: Request,
    connections: Opened,
    caller: Sender,
    key: IdempotencyKey = None,
    prefer: Prefer = None,
) -> Response:
    """Ask for work: open a workflow, with documents as further parts of a form."""
    fields, files = await received(request, RequestWorkflow)
    identity = identity_of(caller, key)
    asked = RequestWorkflow.model_validate(
        {**fields, "actor": caller.actor, "requester": Requester(name=caller.actor.id)}
    )
    work = partial(_ask, connections, asked, files, identity)
    outcome = await dispatched(work, wait_seconds(prefer))
    if outcome is not None:
        return Response(orjson.dumps(outcome_json(outcome)), media_type=JSON)
    return accepted(workflow_id(identity.source, identity.id), identity)


async def _ask(
    connections: Any, asked: Any, files: Sequence[File], identity: RequestIdentity, callbacks: Any
) -> Outcome:
    return await ask(connections, asked, files, identity=identity, callbacks=callbacks)
