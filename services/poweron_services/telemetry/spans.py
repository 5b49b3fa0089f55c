"""Spans: how long each part of the work took and what it was part of; they are created once the work has ended.

Processes share nothing but the log, so the trace id is derived from the workflow's id, and the span id of a round, an
attempt or a step from its place: any process can create a child of a span that another process will export.
A span never contains text by a user or a model.
"""

import hashlib
import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from poweron_events.codec import TRACEPARENT
from poweron_events.event import Event
from poweron_events.fold.state import Place
from poweron_events.request import RequestIdentity

SAMPLED = 1

Value = str | int | float | bool
Kind = Literal["internal", "client", "consumer"]


class Context(NamedTuple):
    """The ids of a span and of its trace."""

    trace_id: int
    span_id: int
    flags: int = SAMPLED

    def __str__(self) -> str:
        """Return the context as a W3C `traceparent`."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"

    @classmethod
    def read(cls, text: str | None) -> "Context | None":
        """Return the context in a `traceparent`; None if it has none."""
        match = TRACEPARENT.fullmatch(text or "")
        return cls(*(int(part, 16) for part in match.groups())) if match else None

    def child(self) -> "Context":
        """Return the context of a new span under this one."""
        return self._replace(span_id=secrets.randbits(64) or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span that has ended. Times are in ns since 1970; `failed` names the kind of error."""

    name: str
    context: Context
    parent: Context | None
    began_ns: int
    ended_ns: int
    kind: Kind = "internal"
    attributes: Mapping[str, Value]
    failed: str | None = None
    link: Context | None = None


Sink = Callable[[Span], None]
"""A function that accepts a span; it never waits and never raises."""


def context_of(workflow_id: str, place: Place) -> Context:
    """Return the context of a round (other numbers 0), of an attempt at a task (step 0) or of a step."""
    return Context(uuid.UUID(workflow_id).int, _derive(workflow_id, *place))


def derived_context(workflow_id: str, *parts: object) -> Context:
    """Return the context of any other span in the workflow's trace, identified by these parts."""
    return Context(uuid.UUID(workflow_id).int, _derive(workflow_id, *parts))


def traceparent(workflow_id: str, event: Event) -> str:
    """Return the `traceparent` of an event: that of the step, the attempt or the round that it names."""
    fields = event.__dict__
    place = [fields.get(name, 0) for name in ("round", "task", "attempt", "step")]
    return str(context_of(workflow_id, (place[0], place[1], place[2], place[3])))


def answer_context(workflow_id: str, identity: RequestIdentity, upstream: Context | None) -> Context:
    """Return the context of a request's answer: in the sender's trace if there is one, else in the workflow's."""
    span_id = _derive(workflow_id, identity.source, identity.id)
    if upstream is not None:
        return upstream._replace(span_id=span_id)
    return Context(uuid.UUID(workflow_id).int, span_id)


def _derive(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256("|".join(map(str, parts)).encode()).digest()[:8]) or 1
