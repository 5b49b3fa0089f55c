"""What stays of a workflow once its content is erased: text in events, in requests and in records that no one can read.

The rows are made of the events, so they hold the same text.
"""

from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from poweron_events import topics
from poweron_events.codec import InvalidRequest, Undecodable, decode, decode_request, request_address
from poweron_events.dead_letter import DeadLetter, read_dead_letter
from poweron_events.event import Model
from poweron_events.free_text import text_fields
from poweron_events.log import EventLog, Record
from poweron_projections import reader
from poweron_services.client.connect import Connections


class RemainingText(NamedTuple):
    """A field of a record that still holds text of a workflow."""

    topic: str
    partition: int
    offset: int
    seq: int | None
    """The number of the record in its workflow; None outside of the events."""
    type: str
    """The type of the event or request; empty if it cannot be read."""
    field: str
    """The place in its data, such as `documents[0].documentName`; `raw` for bytes that no one could read."""
    characters: int

    def as_object(self) -> dict[str, Any]:
        """Return it with the fields of `--json`."""
        return self._asdict()


async def remaining_text(connections: Connections, workflow_ids: Collection[str]) -> Mapping[str, list[RemainingText]]:
    """Return what stays of each of these workflows; reads all requests and dead letters.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
    """
    found = {id_: [*await _in_events(connections, id_)] for id_ in workflow_ids}
    async for id_, remaining in _in_requests(connections.log, found):
        found[id_].append(remaining)
    async for id_, remaining in _in_dead_letters(connections.log, found):
        found[id_].append(remaining)
    return found


async def _in_events(connections: Connections, workflow_id: str) -> Sequence[RemainingText]:
    records = await reader.stored_records(connections.pool, workflow_id)
    return [
        RemainingText(topics.EVENTS.name, record.partition, record.offset, record.seq, *field)
        for record in records
        for field in _event_fields(record.value)
    ]


def _event_fields(value: bytes) -> Iterator[tuple[str, str, int]]:
    """Yield type, field and characters of an event; of one that only a newer release knows, all of it is one field."""
    try:
        envelope = decode(value)
    except Undecodable:
        yield "", "raw", len(value)
        return
    if envelope.event is None:
        yield envelope.type, "data", len(value)
    else:
        yield from _fields(envelope.event)


def _fields(event: Model) -> Iterator[tuple[str, str, int]]:
    kind = str(getattr(event, "TYPE", ""))
    return ((kind, *field) for field in text_fields(event))


async def _in_requests(log: EventLog, workflow_ids: Collection[str]) -> AsyncGenerator[tuple[str, RemainingText], None]:
    topic = topics.REQUESTS.name
    async for records in log.read(topic, {}, await log.ends(topic)):
        for record in records:
            address = request_address(record.value, record.headers)
            if address is not None and address.workflow_id in workflow_ids:
                for field in _request_fields(record):
                    yield address.workflow_id, RemainingText(topic, record.partition, record.offset, None, *field)


def _request_fields(record: Record) -> Iterator[tuple[str, str, int]]:
    try:
        yield from _fields(decode_request(record.value, record.headers).request)
    except (Undecodable, InvalidRequest):
        yield "", "raw", len(record.value or b"")


async def _in_dead_letters(
    log: EventLog, workflow_ids: Collection[str]
) -> AsyncGenerator[tuple[str, RemainingText], None]:
    topic = topics.DEAD_LETTERS.name
    async for records in log.read(topic, {}, await log.ends(topic)):
        for record in records:
            with suppress(Undecodable):
                letter = read_dead_letter(record.value)
                original = RemainingText(letter.topic, letter.partition, letter.offset, None, "", "raw", letter.size)
                for id_ in _workflows_of(letter, workflow_ids):
                    if letter.topic == topics.REQUESTS.name:  # the rows name what is in the events
                        yield id_, original
                    place = RemainingText(
                        topic, record.partition, record.offset, None, "", "raw", len(letter.raw or b"")
                    )
                    yield id_, place
                    yield id_, place._replace(field="reason", characters=len(letter.reason))


def _workflows_of(letter: DeadLetter, workflow_ids: Collection[str]) -> list[str]:
    """Return which of the workflows the bytes of a dead letter name."""
    raw = letter.raw or b""
    address = request_address(raw, {})
    return [id_ for id_ in workflow_ids if id_.encode() in raw or (address is not None and address.workflow_id == id_)]
