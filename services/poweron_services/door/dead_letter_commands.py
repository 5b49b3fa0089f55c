"""Dead letters, sent again: a request that could not be read or answered, as it was or with edited bytes."""

import base64
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Path, Request, Response

from poweron_events import topics
from poweron_events.errors import Refused
from poweron_events.request import RequestApproval, RequestBudget, RequestIdentity, RequestRound, RequestWorkflow
from poweron_events.stream import Request as LogRequest
from poweron_projections.access_keys import AccessScope
from poweron_services.client.redrive import read_dead_letter, redrivable, redrive
from poweron_services.door.access import Operator
from poweron_services.door.body_reader import received
from poweron_services.door.dispatch import Dispatching, accepted
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
        identity, edited = dispatch.identity(caller), asked.body.raw
        repeated = await dispatch.first_response(identity, asked.sha256, None)
        if repeated is not None:
            return repeated
        if topic != REQUESTS:
            raise Refused(f"Only requests can be sent again, not a record of {topic[:100]!r}", code="not_redrivable")
        connections = dispatch.door.opened
        letter = await read_dead_letter(connections, topic, partition, offset)
        wanted = redrivable(letter, edited=edited, actor=caller.actor)
        scope = _scope(wanted.request)
        if edited is not None and scope not in caller.scopes:
            raise Problem("scope_missing", f"What the edited request asks for needs the scope {scope!r}.", scope=scope)
        await redrive(connections, wanted, actor=None if edited is None else caller.actor)
        log.info(
            "dead_letter_redriven",
            partition=partition,
            offset=offset,
            actor=caller.actor.id,
            edited=edited is not None,
            workflow_id=wanted.address.workflow_id,
        )
        sent = RequestIdentity(source=wanted.address.source, id=wanted.address.id)
        response = accepted(wanted.address.workflow_id, sent, own=False)
        await dispatch.keep(identity, response)
        return response


def _scope(request: LogRequest) -> AccessScope:
    """Return the scope that a sender of this request needs."""
    if isinstance(request, RequestWorkflow | RequestRound):
        return "request"
    return "approve" if isinstance(request, RequestApproval | RequestBudget) else "operate"
