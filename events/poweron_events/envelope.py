"""The envelope around every event: a CloudEvent 1.0 whose attributes carry identity and cause."""

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from poweron_events.event import CATALOGUE, Event, Role
from poweron_events.request import NAMESPACE, RequestIdentity
from poweron_events.round_events import AnswerRejected
from poweron_events.stream import WorkflowEvent

SPECVERSION = "1.0"
CONTENT_TYPE = "application/json"
_NAMESPACE_BYTES: Final = NAMESPACE.bytes


class Cause(NamedTuple):
    """The accepted event that another event responds to: its id, the SHA-256 of its bytes, and its offset.

    The offset is unknown (None) if both events travel in one append. The verdict compares id and
    hash only: together they identify the bytes in any copy of the log.
    """

    id: str
    sha256: str
    offset: int | None = None

    def names(self, other: "Cause | None") -> bool:
        return other is not None and (self.id, self.sha256) == (other.id, other.sha256)


class Envelope(NamedTuple):
    """A CloudEvent of `poweron.events`. `event` is None if its type is not in our catalogue."""

    id: str
    source: str
    type: str
    workflow_id: str
    time: str
    event: WorkflowEvent | None
    cause: Cause | None = None
    catalogue: int = CATALOGUE
    traceparent: str | None = None


class Recorded(NamedTuple):
    """An envelope as read back from the log, the input of the fold. `time_ms` is the broker's time."""

    envelope: Envelope
    partition: int
    offset: int
    time_ms: int
    sha256: str

    @property
    def cause(self) -> Cause:
        return Cause(self.envelope.id, self.sha256, self.offset)


def slot(event: Event) -> str:
    """Return `round|task|attempt|step|kind|try`: the place in the workflow that this event fills (E-03).

    An event written by intake carries the request's source and id instead of the try (E-04), a reservation or a budget
    question its number; the kind of a rejected answer includes its stage.
    """
    field = event.__dict__.get  # faster than attribute access, since many events lack some of these
    request: RequestIdentity | None = field("request")
    number = field("try_") or field("reservation") or field("question", 0)
    last = number if request is None else f"{request.source}|{request.id}"
    kind = f"{event.TYPE}|{event.stage}" if isinstance(event, AnswerRejected) else event.TYPE
    return f"{field('round', 0)}|{field('task', 0)}|{field('attempt', 0)}|{field('step', 0)}|{kind}|{last}"


def event_id(workflow_id: str, event: Event) -> str:
    """Return uuid5(NAMESPACE, "workflow id|slot"): work repeated after a crash has the same id."""
    return _uuid5(f"{workflow_id}|{slot(event)}")


def idempotency_key(workflow_id: str, place: tuple[int, int, int, int]) -> str:
    """Return the key by which a connector recognises a retry as the same effect (E-08).

    uuid5(NAMESPACE, "workflow id|round|task|attempt|step"): no kind, no try.
    """
    return _uuid5("|".join(map(str, (workflow_id, *place))))


def _uuid5(name: str) -> str:
    """Return `uuid.uuid5` of a name as text, in a quarter of the time, since no UUID object is created."""
    digest = hashlib.sha1(_NAMESPACE_BYTES + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


Writer = Role | Literal["process"]
"""A role, or the process that plays it."""


def source(writer: Writer, instance: str) -> str:
    """Return `/poweron/<role>/<instance>`: the writer of an event."""
    return f"/poweron/{writer}/{instance}"


def rfc3339(moment: datetime) -> str:
    """Format a UTC time with milliseconds: `2026-11-21T00:00:01.000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time_ms(time: str) -> int:
    """Return a time in RFC 3339, or a date (0:00 UTC), in milliseconds since 1970.

    Raises:
        ValueError, OverflowError: it is no such time.
    """
    moment = datetime.fromisoformat(time)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


def rfc3339_of(time_ms: int) -> str:
    """Format milliseconds since 1970 in the same way."""
    seconds, milliseconds = divmod(time_ms, 1000)
    return f"{_rfc3339_second(seconds)}.{milliseconds:03}Z"


@lru_cache(maxsize=1)
def _rfc3339_second(seconds: int) -> str:
    """Format seconds since 1970; a process writes many events within one of them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def envelop(
    event: WorkflowEvent,
    *,
    workflow_id: str,
    source: str,
    time: str,
    cause: Cause | None = None,
    traceparent: str | None = None,
) -> Envelope:
    """Put an event into its envelope."""
    return Envelope(
        id=event_id(workflow_id, event),
        source=source,
        type=event.TYPE,
        workflow_id=workflow_id,
        time=time,
        event=event,
        cause=cause,
        traceparent=traceparent,
    )
