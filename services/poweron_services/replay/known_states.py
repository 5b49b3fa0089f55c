"""The states of a workflow that the author of an event may have known when its role began.

New rules, pauses and reservations keep the head: work that runs meanwhile does not know them, and is accepted when it
ends (decisions 63, 86 and 88). Work that continues from events not read back yet knows only what its process knew
before them (E-17). No event records how far its author had read, but its cause tells from where on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from poweron_events.envelope import Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.request import RoundPaused, RoundResumed, RulesChanged
from poweron_events.step_events import CallReserved

UNNOTICED: Final = (RulesChanged, RoundPaused, RoundResumed)
"""Events that a running role does not notice."""
RUNNING: Final = frozenset({"started", "draining"})
"""The phases in which an action may run, even if it is claimed again or the round is stopped meanwhile."""


@dataclass(slots=True)
class KnownStates:
    """Follows a workflow from its beginning; `newest` is its state after all records so far."""

    newest: Workflow
    _read: Sequence[Workflow] = field(default=(), init=False)
    """What a reader who has read the head may know, other than the newest state: newest first."""
    _ahead: Sequence[Workflow] = field(default=(), init=False)
    """What the author of the head knew, with the head added: the states from which it works ahead, newest first."""

    def of(self, recorded: Recorded) -> Sequence[Workflow]:
        """Return the states that the author of the next record may have known, the most likely one first."""
        cause = recorded.envelope.cause
        if cause is not None and cause.offset is None and self._ahead:
            return self._ahead
        return (self.newest, *self._read)

    def take(self, recorded: Recorded, after: Workflow) -> None:
        """Take in the next record, and the workflow after it."""
        if after.head != self.newest.head:
            self._ahead = self._following(self.of(recorded), recorded, after)
            is_running = {self.newest.phase, after.phase} <= RUNNING
            self._read = self._following(self._read, recorded, after) if is_running else ()
        elif isinstance(recorded.envelope.event, CallReserved):
            self._ahead = self._following(self._ahead, recorded, after)
            self._read = self._following(self._read, recorded, after)
        elif isinstance(recorded.envelope.event, UNNOTICED) and after.round != self.newest.round:
            self._read = (self.newest, *self._read)
        self.newest = after

    def _following(self, states: Iterable[Workflow], recorded: Recorded, after: Workflow) -> Sequence[Workflow]:
        return tuple(self._each_following(states, recorded, after))

    def _each_following(self, states: Iterable[Workflow], recorded: Recorded, after: Workflow) -> Iterator[Workflow]:
        """Yield each state with the record added, unless the record has no effect there."""
        for state in states:
            following, verdict = (after, "accepted") if state is self.newest else evolve(state, recorded)
            if verdict == "accepted":
                yield following
