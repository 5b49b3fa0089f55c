"""Requests as rows: the log's answer to each under the request's own identity (E-15), and the dead letters.

Every accepted event that names a request is an answer to it. If intakes raced, there can be several;
for readers, accepted outranks refused. A dead letter is a record of any topic that could not be read, and why.
"""

from typing import NamedTuple

from poweron_events.actor import Actor
from poweron_events.codec import Undecodable
from poweron_events.dead_letter import DeadLetter, read_dead_letter
from poweron_events.envelope import Recorded
from poweron_events.log import Record
from poweron_events.request import Requester, RequestIdentity, RequestRefused
from poweron_projections.table_spec import Json, Table, Uuid, json, text


class RequestRow(NamedTuple):
    """One answer to the request (source, id)."""

    source: str
    id: str
    workflow_id: Uuid
    seq: int
    type: str
    answer: str
    round: int | None
    reason: str | None
    code: str | None
    detail: str
    requester: str | None
    actor: Json | None
    time_ms: int


REQUESTS = Table("requests", RequestRow, key=("source", "id", "workflow_id", "seq"))


def request_rows(recorded: Recorded, seq: int) -> list[RequestRow]:
    """Return the answer that an accepted event gives, if it names a request."""
    event = recorded.envelope.event
    request: RequestIdentity | None = vars(event).get("request")  # most events have none, and getattr is slow then
    if request is None:
        return []
    requester: Requester | None = getattr(event, "requester", None)
    actor: Actor | None = getattr(event, "actor", None)
    refused = event if isinstance(event, RequestRefused) else None
    row = RequestRow(
        source=text(request.source),
        id=text(request.id),
        workflow_id=recorded.envelope.workflow_id,
        seq=seq,
        type=recorded.envelope.type,
        answer="accepted" if refused is None else "refused",
        round=getattr(event, "round", None),
        reason=None if refused is None else refused.reason,
        code=None if refused is None else refused.code,
        detail="" if refused is None else text(refused.detail),
        requester=None if requester is None else text(requester.name) or None,
        actor=None if actor is None else json(actor),
        time_ms=recorded.time_ms,
    )
    return [row]


class DeadLetterRow(NamedTuple):
    """One unreadable record; if it is reported twice, the first report is kept."""

    topic: str
    partition: int
    log_offset: int
    reason: str
    size: int
    raw: bytes | None
    time_ms: int


DEAD_LETTERS = Table("dead_letters", DeadLetterRow, key=("topic", "partition", "log_offset"), keeps="first")


def dead_letter_row(record: Record) -> DeadLetterRow:
    """Return the row of a record of `poweron.deadletter`; a record that is not a dead letter gets one of its own."""
    try:
        letter = read_dead_letter(record.value)
    except Undecodable as error:
        letter = DeadLetter.of(record, f"not a dead letter: {error}")
    return DeadLetterRow(
        topic=text(letter.topic),
        partition=letter.partition,
        log_offset=letter.offset,
        reason=text(letter.reason),
        size=letter.size,
        raw=letter.raw,
        time_ms=record.time_ms,
    )
