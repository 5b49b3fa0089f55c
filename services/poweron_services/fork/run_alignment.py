"""Two workflows side by side: what each did at the same place, and where they first differ. Pure."""

from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from poweron_events.event import ModelCall
from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Place
from poweron_services.fork.original import AcceptedEvent
from poweron_services.fork.run_comparison import Turn, turns


class PlacedTurn(NamedTuple):
    """What an event did, with its number and the model call that decided it."""

    seq: int
    turn: Turn
    call: ModelCall | None


class AlignedTurn(NamedTuple):
    """The same turn of two workflows; None where only the other one has it."""

    a: PlacedTurn | None
    b: PlacedTurn | None

    @property
    def place(self) -> Place:
        turn = self.a or self.b
        assert turn is not None
        return turn.turn.place

    @property
    def what(self) -> str:
        turn = self.a or self.b
        assert turn is not None
        return turn.turn.what

    @property
    def differs(self) -> bool:
        """Whether they did not do the same."""
        return self.a is None or self.b is None or self.a.turn != self.b.turn


def aligned(
    a: Sequence[AcceptedEvent], b: Sequence[AcceptedEvent], changed: Collection[str] = frozenset()
) -> list[AlignedTurn]:
    """Align the turns of two workflows by place and kind, in the order in which they happened.

    `changed` are the contents of documents that differ although their names and sizes are equal.
    """
    of_a, of_b = _by_kind(a, changed), _by_kind(b, changed)
    order = dict.fromkeys([*of_a, *(kind for kind in of_b if kind not in of_a)])
    result = [
        AlignedTurn(*pair) for kind in sorted(order) for pair in zip_longest(of_a.get(kind, ()), of_b.get(kind, ()))
    ]
    return sorted(result, key=_moment)


_Kind = tuple[Place, str]


def _by_kind(events: Sequence[AcceptedEvent], changed: Collection[str]) -> dict[_Kind, list[PlacedTurn]]:
    found = dict[_Kind, list[PlacedTurn]]()
    for placed in _placed(events, changed):
        found.setdefault((placed.turn.place, placed.turn.what), []).append(placed)
    return found


def _placed(events: Sequence[AcceptedEvent], changed: Collection[str]) -> Iterator[PlacedTurn]:
    for accepted in events:
        calls = model_calls(accepted.event)
        for turn in turns([accepted.event], changed):
            yield PlacedTurn(accepted.seq, turn, calls[0] if calls else None)


def _moment(pair: AlignedTurn) -> int:
    """Return when it happened, by the number of the event in the workflow that has it."""
    return min(turn.seq for turn in pair if turn is not None)
