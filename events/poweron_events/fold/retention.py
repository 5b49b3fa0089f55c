"""How long the content of a workflow is kept, and what of it was erased: a fold over its accepted events."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from poweron_events.archive_events import ContentErased, HoldName, WorkflowRetained
from poweron_events.envelope import parse_time_ms
from poweron_events.event import Commitment, Event, UtcTime
from poweron_events.request import RoundRequested, WorkflowRequested

RETENTION_EVENTS = (WorkflowRequested, RoundRequested, ContentErased, WorkflowRetained)
"""The events that the fold needs; others change nothing."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Until when and why content is kept, and what was erased."""

    until: UtcTime | None = None
    """The content may not be erased before; None if nothing says so."""
    holds: tuple[HoldName, ...] = ()
    """The legal holds that are not released, oldest first."""
    is_erased: bool = False
    """Whether all content was erased, and no round was opened since."""
    erased: frozenset[Commitment] = frozenset()
    """The names of contents that were erased with their documents."""

    def is_over(self, now_ms: int) -> bool:
        """Return whether the time is over until which the content is kept."""
        return now_ms >= self.end_ms

    def ends_before(self, other: "Retention") -> bool:
        """Return whether the content may be erased earlier than with the other: a hold or a later time is missing."""
        return self.end_ms < other.end_ms or not {*other.holds} <= {*self.holds}

    @property
    def end_ms(self) -> float:
        """From when on content without a hold may be erased, in milliseconds since 1970; -inf without a date."""
        if self.until is None:
            return -math.inf
        try:
            return parse_time_ms(self.until)
        except (ValueError, OverflowError):  # intake accepts no such time, but one may be forged
            return math.inf

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the content was kept until a time that is over, and can be erased now."""
        return self.until is not None and self.is_over(now_ms) and not self.holds and not self.is_erased


def retention(events: Iterable[Event]) -> Retention:
    """Fold the accepted events of a workflow, oldest first."""
    state = Retention()
    for event in events:
        state = retention_after(state, event)
    return state


def retention_after(state: Retention, event: Event) -> Retention:
    """Return the retention after one more accepted event."""
    result = state
    match event:
        case WorkflowRequested() | RoundRequested():
            result = replace(state, is_erased=False)
        case ContentErased(documents=()):
            result = replace(state, is_erased=True)
        case ContentErased(contents=contents):
            result = replace(state, erased=state.erased | {*contents})
        case WorkflowRetained(until=str(until)):
            result = replace(state, until=until)
        case WorkflowRetained(hold=str(hold)):
            result = replace(state, holds=(*_without(state.holds, hold), hold))
        case WorkflowRetained(released=str(released)):
            result = replace(state, holds=_without(state.holds, released))
    return result


def _without(holds: tuple[HoldName, ...], name: HoldName) -> tuple[HoldName, ...]:
    return tuple(hold for hold in holds if hold != name)
