"""Redrive: send a request again that could not be read or answered, as it was or with edited bytes."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.codec import InvalidRequest, Undecodable, decode_request, encode_request, request_address
from poweron_events.envelope import rfc3339
from poweron_events.errors import Refused
from poweron_events.log import Message, Record
from poweron_events.request import RequestIdentity
from poweron_events.stream import Request
from poweron_projections import reader
from poweron_projections.entries import DeadLetterEntry
from poweron_services.client.connect import Connections

REQUESTS = topics.REQUESTS.name


class Redrivable(NamedTuple):
    """A request that can be sent again."""

    key: bytes
    value: bytes
    request: Request
    identity: RequestIdentity
    workflow_id: str
    """The workflow that it is about, or that it opens."""


async def read_dead_letter(connections: Connections, topic: str, partition: int, offset: int) -> DeadLetterEntry:
    """Return a dead letter by the place of the record.

    Raises:
        Refused: there is none (`unknown_dead_letter`).
        Unavailable: Postgres cannot be reached.
    """
    letter = await reader.dead_letter(connections.pool, topic, partition, offset)
    if letter is None:
        raise Refused(
            f"Record {offset} of partition {partition} of {topic} is no dead letter", code="unknown_dead_letter"
        )
    return letter


def expect_request(topic: str) -> None:
    """Raise Refused (`not_redrivable`) unless records of the topic are requests."""
    if topic != REQUESTS:
        raise Refused(
            f"Only requests can be sent again, not a record of {topic[:100]!r}: what is unreadable there has no effect",
            code="not_redrivable",
        )


async def original(connections: Connections, letter: DeadLetterEntry) -> Redrivable:
    """Return the request as it was, from the log or else from the dead letter.

    Raises:
        Refused: it still cannot be read, or only its beginning is kept (`invalid_request`, `not_redrivable`).
        Unavailable: the log cannot be reached.
    """
    start = {letter.partition: letter.offset}
    record: Record | None = None
    async for records in connections.log.read(REQUESTS, start, {letter.partition: letter.offset + 1}):
        record = next(iter(records), record)
    value, headers = (letter.raw, {}) if record is None else (record.value, record.headers)
    if record is None and letter.size != len(letter.raw or b""):
        kept = len(letter.raw or b"")
        raise Refused(
            f"Only the first {kept:,} of its {letter.size:,} bytes are kept: send edited bytes", code="not_redrivable"
        )
    return _redrivable(value, dict(headers), None if record is None else record.key)


def edited(raw: bytes, actor: Actor, seal: Callable[[bytes], bytes] | None = None) -> Redrivable:
    """Return edited bytes, a CloudEvent as JSON, as a request of who edited them; `seal` proves that a door knows who.

    Raises:
        Refused: they cannot be read (`invalid_request`).
    """
    given = _redrivable(raw, {}, None)
    own = given.request.model_copy(update={"actor": actor})
    value = _encoded(own, given.identity)
    return given._replace(request=own, value=seal(value) if seal is not None and actor.verified else value)


async def redrive(connections: Connections, redrivable: Redrivable) -> None:
    """Send the request; with the identity of an earlier one it is the same request, and has no further effect.

    Raises:
        Unavailable: the log cannot be reached.
    """
    await connections.log.append(REQUESTS, [Message(redrivable.key, redrivable.value)])


def _redrivable(value: bytes | None, headers: Mapping[str, bytes], key: bytes | None) -> Redrivable:
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
    key = key or address.workflow_id.encode()
    return Redrivable(key, written, received.request, received.identity, address.workflow_id)


def _encoded(request: Request, identity: RequestIdentity) -> bytes:
    time = rfc3339(datetime.now(UTC))
    return encode_request(request, source=identity.source, request_id=identity.id, time=time)
