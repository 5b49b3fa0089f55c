"""What became of a request: pending, accepted or refused."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel

from poweron_events.codes import Code
from poweron_events.request import RequestIdentity, workflow_id
from poweron_projections import request_answers, request_digests
from poweron_services.client.cancel import pending_request
from poweron_services.client.connect import Connections
from poweron_services.door.access import Reader
from poweron_services.door.dispatch import links_of
from poweron_services.door.door_state import Opened
from poweron_services.door.json_responses import json_response
from poweron_services.door.problems import Problem

router = APIRouter(tags=["queries"])


class RequestJson(BaseModel):
    """A request, and its answer if there is one."""

    requestId: str  # noqa: N815 - the name in JSON
    source: str
    workflowId: str | None  # noqa: N815 - the name in JSON
    status: Literal["pending", "accepted", "refused"]
    code: Code | None = None
    """Why it was refused."""
    detail: str = ""
    """The reason as a sentence, or why it has no answer yet."""
    round: int | None = None
    seq: int | None = None
    """The record of the workflow that answers it."""
    links: dict[str, str]


@router.get("/requests/{request_id:path}", response_model=RequestJson)
async def read_request(
    *,
    request: Request,
    request_id: Annotated[str, Path(min_length=1, max_length=255, pattern=r"^[!-~]+$", examples=["1"])],
    connections: Opened,
    caller: Reader,
    source: Annotated[
        str | None, Query(min_length=1, max_length=255, description="Its CloudEvent source; your own if absent.")
    ] = None,
) -> Response:
    """Return whether a request was accepted or refused, and why; `pending` while it has no answer."""
    identity = RequestIdentity(source=source or caller.source, id=request_id)
    shown = await _answered(connections, identity) or await _pending(connections, identity)
    shown = shown or await _answered(connections, identity)  # meanwhile
    if shown is None:
        raise Problem(
            "not_found", f"No request {request_id[:100]!r} of {identity.source[:100]!r} is known.", status=404
        )
    links = links_of(shown["workflowId"], identity, own=identity.source == caller.source)
    response = json_response(request, {"requestId": identity.id, "source": identity.source, **shown, "links": links})
    if shown["status"] == "pending":
        response.headers["Retry-After"] = "1"
    return response


async def _answered(connections: Connections, identity: RequestIdentity) -> dict[str, Any] | None:
    answer = await request_answers.answer(connections.pool, identity.source, identity.id)
    if answer is None:
        return None
    return {
        "workflowId": answer.workflow_id,
        "status": answer.answer,
        "code": answer.code or answer.reason,
        "detail": answer.detail,
        "round": answer.round,
        "seq": answer.seq,
    }


async def _pending(connections: Connections, identity: RequestIdentity) -> dict[str, Any] | None:
    """Return the request if it was received here, or opens a workflow and is in the log; None otherwise."""
    claimed = await request_digests.find(connections.pool, identity)
    opened = workflow_id(identity.source, identity.id)
    target = opened if claimed is None else claimed.workflow_id
    waiting = await pending_request(connections, opened, 1) if target == opened else None
    is_sent = waiting is not None or (claimed is not None and claimed.response is not None)
    if not is_sent:
        return None
    detail = "" if waiting is None else f"It has no answer yet: {waiting.reason}."
    return {
        "workflowId": target,
        "status": "pending",
        "code": None,
        "detail": detail,
        "round": None,
        "seq": None,
    }
