"""Dead letters, sent again: a request that could not be read or answered, as it was or with edited bytes."""

import base64
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Path, Request, Response

from poweron_events import topics
from poweron_events.request import RequestApproval, RequestBudget, RequestRound, RequestWorkflow
from poweron_projections.access_keys import AccessScope
from poweron_projections.entries import DeadLetterEntry
from poweron_services.client.connect import Connections
from poweron_services.client.redrive import (
    Redrivable,
    edited,
    expect_request,
    original,
    read_dead_letter,
    redrive,
)
from poweron_services.door.access import HttpCaller, Operator
from poweron_services.door.body_reader import received
from poweron_services.door.dispatch import Dispatching, accepted_response
from poweron_services.door.problems import Problem
from poweron_services.door.request_bodies import RedriveBody, described

router = APIRouter(tags=["commands"])
log = structlog.get_logger()

REQUESTS: Final = topics.REQUESTS.name
EDITED: Final = (
    b"""{"specversion":"1.0","id":"7","source":"/crm","type":"poweron.request.workflow.v1","data":{"prompt":"Hi"}}"""
)
EXAMPLE: Final = {"raw": base64.b64encode(EDITED).decode()}


@router.post("/deadletters/{topic}/{partition}/{offset}/redrive", status_code=202, **described(RedriveBody, EXAMPLE))
async def redrive_dead_letter(
    *,
    request: Request,
    topic: Annotated[str, Path(min_length=1, max_length=255, examples=[REQUESTS])],
    partition: Annotated[int, Path(ge=0, le=2**31 - 1)],
    offset: Annotated[int, Path(ge=0, le=2**63 - 1)],
    caller: Operator,
    dispatch: Dispatching,
) -> Response:
    """Send a request again that became a dead letter, as it was or with edited bytes.

    An edited request has the operator as its actor, and needs the scope of what it asks for.
    """
    async with received(request, RedriveBody) as asked:
        identity = dispatch.identity(caller)
        repeated = await dispatch.first_response(identity, asked.sha256, None)
        if repeated is not None:
            return repeated
        expect_request(topic)
        connections = dispatch.door.opened
        letter = await read_dead_letter(connections, topic, partition, offset)
        redriven = await send_again(connections, caller, letter, asked.body.raw)
        response = accepted_response(redriven.workflow_id, redriven.identity, own=False)
        await dispatch.keep(identity, response)
        return response


async def send_again(
    connections: Connections, caller: HttpCaller, letter: DeadLetterEntry, raw: bytes | None
) -> Redrivable:
    """Send a dead letter as it was, or `raw` as a request of the caller, and log who did it.

    Raises:
        Problem: the caller lacks the scope of what the edited request asks for.
        Refused: it still cannot be read, or only its beginning is kept.
        Unavailable: the log cannot be reached.
    """
    redriven = await original(connections, letter) if raw is None else _edited_by(caller, raw, connections)
    await redrive(connections, redriven)
    log.info(
        "dead_letter_redriven",
        partition=letter.partition,
        offset=letter.offset,
        actor=caller.actor.id,
        edited=raw is not None,
        workflow_id=redriven.workflow_id,
    )
    return redriven


def _edited_by(caller: HttpCaller, raw: bytes, connections: Connections) -> Redrivable:
    redriven = edited(raw, caller.actor, connections.seal)
    needed: AccessScope = "operate"
    if isinstance(redriven.request, RequestWorkflow | RequestRound):
        needed = "request"
    elif isinstance(redriven.request, RequestApproval | RequestBudget):
        needed = "approve"
    if needed not in caller.scopes:
        raise Problem("scope_missing", f"What the edited request asks for needs the scope {needed!r}.", scope=needed)
    return redriven
