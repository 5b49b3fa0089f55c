"""Redrive: send a request again that could not be read, as it was or corrected."""

from typing import Final, NamedTuple

import orjson

from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.codec import (
    InvalidRequest,
    RequestAddress,
    Undecodable,
    decode_request,
    dumps,
    request_address,
)
from poweron_events.dead_letter import MAX_RAW
from poweron_events.errors import Refused
from poweron_events.log import Message
from poweron_events.stream import Request
from poweron_projections import reader
from poweron_projections.entries import DeadLetterEntry
from poweron_services.client.connect import Connections

MAX_REQUEST: Final = topics.MAX_RECORD - 1_000  # bytes; the rest is for the record's own fields


class Redrivable(NamedTuple):
    """A request that can be sent again."""

    request: Request
    address: RequestAddress
    value: bytes


async def read_dead_letter(connections: Connections, topic: str, partition: int, offset: int) -> DeadLetterEntry:
    """Return a dead letter by the place of the unreadable record.

    Raises:
        Refused: there is none (`unknown_dead_letter`).
        Unavailable: Postgres cannot be reached.
    """
    letter = await reader.dead_letter(connections.pool, topic, partition, offset)
    if letter is None:
        raise Refused(f"There is no dead letter for {topic} {partition}/{offset}", code="unknown_dead_letter")
    return letter


def why_not_redriven(letter: DeadLetterEntry) -> str | None:
    """Return why a dead letter cannot be sent again, not even corrected; None if it can."""
    if letter.topic != topics.REQUESTS.name:
        return (
            f"It is from {letter.topic}: only requests, from {topics.REQUESTS.name}, can be sent again. "
            "What else is unreadable there has no effect, and nothing has to be repeated."
        )
    return None


def redrivable(letter: DeadLetterEntry, *, edited: bytes | None = None, actor: Actor) -> Redrivable:
    """Return the request of a dead letter if it can be read now.

    Args:
        letter: the dead letter.
        edited: the corrected bytes, a CloudEvent as JSON; None for those that came.
        actor: who corrected it, on whose behalf the corrected request is.

    Raises:
        Refused: it is no request, or still cannot be read (`not_redrivable`, `dead_letter_unreadable`).
    """
    objection = why_not_redriven(letter)
    if objection is not None:
        raise Refused(objection, code="not_redrivable")
    value = letter.raw if edited is None else _on_behalf_of(actor, edited)
    if edited is None and letter.size > MAX_RAW:
        raise Refused("Only its beginning is kept, so it cannot be sent as it was", code="dead_letter_unreadable")
    if not value or len(value) > MAX_REQUEST:
        raise Refused(f"A request has at least 1 and at most {MAX_REQUEST:,} bytes", code="dead_letter_unreadable")
    try:
        request = decode_request(value, {}).request
        address = request_address(value, {})
    except (Undecodable, InvalidRequest) as error:
        raise Refused(f"It still cannot be read: {error}", code="dead_letter_unreadable") from error
    assert address is not None
    return Redrivable(request, address, value)


async def redrive(connections: Connections, redrivable: Redrivable, *, actor: Actor | None = None) -> None:
    """Send the request again.

    A request with the id of an earlier one is the same request: sent again, it has no further effect.

    Args:
        connections: where to send it.
        redrivable: the request.
        actor: who corrected it; sealed if a door has verified them. None if it is sent as it was.

    Raises:
        Unavailable: the log cannot be reached.
    """
    value = redrivable.value
    if actor is not None and actor.verified and connections.seal is not None:
        value = connections.seal(value)
    await connections.log.append(topics.REQUESTS.name, [Message(redrivable.address.workflow_id.encode(), value)])


def _on_behalf_of(actor: Actor, edited: bytes) -> bytes:
    """Return the corrected request with who corrected it as its actor; what is no JSON object stays as it is."""
    try:
        attributes = orjson.loads(edited)
    except orjson.JSONDecodeError:
        return edited
    if not isinstance(attributes, dict) or not isinstance(attributes.get("data"), dict):
        return edited
    data = attributes["data"] | {"actor": actor.model_dump(mode="json", by_alias=True)}
    return dumps({**attributes, "data": data})
