"""Spans: what took how long, and as part of what; whole facts, made once they are over.

Processes share nothing but the log, so the trace is named by the workflow's id and the span of a round, an
attempt or a step by its place: any process can make a child under a parent that another one will export.
A span never holds what a person or a model wrote.
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
    """Which span it is, in which trace."""

    trace_id: int
    span_id: int
    flags: int = SAMPLED

    def __str__(self) -> str:
        """As W3C `traceparent`."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"

    @classmethod
    def read(cls, text: str | None) -> "Context | None":
        """The context that a `traceparent` names; None where it names none."""
        found = TRACEPARENT.fullmatch(text or "")
        return cls(*(int(part, 16) for part in found.groups())) if found else None

    def child(self) -> "Context":
        """A new span under this one."""
        return self._replace(span_id=secrets.randbits(64) or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span that is over. Times are in ns since 1970; `failed` names the kind of error."""

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
"""Takes a span at once; never waits, never raises."""


def context_of(workflow_id: str, place: Place) -> Context:
    """The span of a round (its other numbers are 0), of an attempt at a task (its step is 0) or of a step."""
    return Context(uuid.UUID(workflow_id).int, _derived(workflow_id, *place))


def derived_context(workflow_id: str, *parts: object) -> Context:
    """The span of anything else in the workflow's trace, by what names it there."""
    return Context(uuid.UUID(workflow_id).int, _derived(workflow_id, *parts))


def traceparent(workflow_id: str, event: Event) -> str:
    """The span that an event comes of: that of the step, the attempt or the round that it names."""
    fields = event.__dict__
    place = [fields.get(name, 0) for name in ("round", "task", "attempt", "step")]
    return str(context_of(workflow_id, (place[0], place[1], place[2], place[3])))


def answer_context(workflow_id: str, identity: RequestIdentity, upstream: Context | None) -> Context:
    """The span of a request's answer: in the sender's trace if there is one, else in the workflow's."""
    span_id = _derived(workflow_id, identity.source, identity.id)
    if upstream is not None:
        return upstream._replace(span_id=span_id)
    return Context(uuid.UUID(workflow_id).int, span_id)


def _derived(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256("|".join(map(str, parts)).encode()).digest()[:8]) or 1
