"""Dead letters, sent again: a request that could not be read or answered, as it was or with edited bytes."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

import structlog
from fastapi import APIRouter, Path, Request, Response

from poweron_events import topics
from poweron_events.codec import InvalidRequest, Undecodable, decode_request, encode_request, request_address
from poweron_events.envelope import rfc3339
from poweron_events.errors import Refused
from poweron_events.log import Message, Record
from poweron_events.request import RequestApproval, RequestBudget, RequestIdentity, RequestRound, RequestWorkflow
from poweron_events.stream import Request as LogRequest
from poweron_projections import reader
from poweron_projections.access_keys import AccessScope
from poweron_projections.entries import DeadLetterEntry
from poweron_services.client.connect import Connections
from poweron_services.door.access import Caller, Operator
from poweron_services.door.dispatch import Dispatching, accepted
from poweron_services.door.problems import Problem
from poweron_services.door.received_requests import received
from poweron_services.door.request_bodies import RedriveBody, described

router = APIRouter(tags=["commands"])
log = structlog.get_logger()

REQUESTS: Final = topics.REQUESTS.name
EDITED: Final = (
    b"""{"specversion":"1.0","id":"7","source":"/crm","type":"poweron.request.workflow.v1","data":{"prompt":"Hi"}}"""
)
EXAMPLE: Final = {"raw": base64.b64encode(EDITED).decode()}


class Redriven(NamedTuple):
    """A record to send."""

    key: bytes
    value: bytes
    identity: RequestIdentity
    workflow_id: str


@router.post(
    "/deadletters/{topic}/{partition}/{offset}/redrive", status_code=202, **described(RedriveBody, EXAMPLE, outcome={})
)
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
        if topic != REQUESTS:
            raise Problem("not_redrivable", f"Only requests can be sent again, not a record of {topic[:100]!r}.")
        connections = dispatch.door.opened
        letter = await reader.dead_letter(connections.pool, topic, partition, offset)
        if letter is None:
            raise Problem("not_found", f"Record {offset} of partition {partition} is no dead letter.", status=404)
        raw = asked.body.raw
        redriven = await _original(connections, letter) if raw is None else _edited(raw, caller)
        await connections.log.append(REQUESTS, [Message(redriven.key, redriven.value)])
        log.info(
            "dead_letter_redriven",
            partition=partition,
            offset=offset,
            actor=caller.actor.id,
            edited=raw is not None,
            workflow_id=redriven.workflow_id,
        )
        response = accepted(redriven.workflow_id, redriven.identity)
        await dispatch.keep(identity, response)
        return response


async def _original(connections: Connections, letter: DeadLetterEntry) -> Redriven:
    """Return the record as it was, from the log or else from the dead letter."""
    start = {letter.partition: letter.offset}
    record: Record | None = None
    async for records in connections.log.read(REQUESTS, start, {letter.partition: letter.offset + 1}):
        record = next(iter(records), record)
    value, headers = (letter.raw, {}) if record is None else (record.value, record.headers)
    if record is None and letter.size != len(letter.raw or b""):
        raise Problem(
            "not_redrivable",
            f"Only the first {len(letter.raw or b''):,} of its {letter.size:,} bytes are kept: send edited bytes.",
        )
    return _redriven(value, dict(headers), None if record is None else record.key)


def _edited(raw: bytes, caller: Caller) -> Redriven:
    """Return the edited bytes as a request of the caller."""
    redriven = _redriven(raw, {}, None)
    request = decode_request(raw, {}).request
    needed: AccessScope = "operate"
    if isinstance(request, RequestWorkflow | RequestRound):
        needed = "request"
    elif isinstance(request, RequestApproval | RequestBudget):
        needed = "approve"
    if needed not in caller.scopes:
        raise Problem("scope_missing", f"What the edited request asks for needs the scope {needed!r}.", scope=needed)
    own = request.model_copy(update={"actor": caller.actor})
    return redriven._replace(value=_encoded(own, redriven.identity))


def _redriven(value: bytes | None, headers: Mapping[str, bytes], key: bytes | None) -> Redriven:
    """Return a record that intake can read, as a structured CloudEvent.

    Raises:
        Refused: it would become a dead letter again, or be refused.
    """
    try:
        received = decode_request(value, headers)
    except (Undecodable, InvalidRequest) as error:
        raise Refused(f"The bytes are no request that can be answered: {error}", code="invalid_request") from error
    address = request_address(value, headers)
    assert value is not None
    assert address is not None
    written = _encoded(received.request, received.identity) if headers else value
    return Redriven(key or address.workflow_id.encode(), written, received.identity, address.workflow_id)


def _encoded(request: LogRequest, identity: RequestIdentity) -> bytes:
    time = rfc3339(datetime.now(UTC))
    return encode_request(request, source=identity.source, request_id=identity.id, time=time)
