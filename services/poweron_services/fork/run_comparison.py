"""A comparison of two workflows: where they first diverge, and what each cost. Pure.

Of texts, the requests and the answers of rounds count; how prompts and answers of models are worded does not.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, Literal, NamedTuple, get_args

from poweron_events.event import NANO, Model
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.state import Opening, Place, Used
from poweron_events.request import RoundRequested, WorkflowRequested
from poweron_events.round_events import (
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ParametersChanged,
    ParametersSet,
    RefinementDecided,
)
from poweron_events.stream import WorkflowEvent
from poweron_services.fork.original import place_of

What = Literal["documents", "request", "action", "parameters", "outcome", "decision", "length", "answer"]
AROUND_STEPS: Final[Sequence[What]] = ("documents", "request", "answer")
"""What was given and what came of it, between which the steps are."""


class Turn(NamedTuple):
    """A comparable result of a workflow at one place."""

    place: Place
    what: What
    value: Any


class Divergence(Model):
    """The first place where two workflows differ."""

    round: int
    task: int
    attempt: int
    step: int
    what: What
    a: Any = None
    b: Any = None


class RunCost(Model):
    """The cost of a workflow, summed over its accepted events."""

    steps: int
    calls: int
    recorded_calls: int
    tokens: int
    cost_nano_usd: int
    model_ms: int
    action_ms: int

    def as_object(self) -> dict[str, Any]:
        """Return the cost as `--json` prints it: the money in USD."""
        fields = self.model_dump(mode="json", by_alias=True, exclude={"cost_nano_usd"})
        return {**fields, "costUsd": self.cost_nano_usd / NANO}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing two workflows."""

    divergence: Divergence | None
    a: RunCost
    b: RunCost
    different: Sequence[What] = ()
    """Which of `AROUND_STEPS` differ."""
    same_steps: bool = True

    @property
    def summary(self) -> str:
        """Say whether they did the same, as a heading; "" if their steps differ."""
        if not self.same_steps:
            return ""
        names = [f"{what}s" if what != "documents" else what for what in self.different]
        joined = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
        return f"Same steps, different {joined}" if names else "Both did the same"

    @property
    def same(self) -> bool:
        return self.divergence is None

    def as_object(self, a: str, b: str) -> dict[str, Any]:
        """Return the comparison of the workflows with these ids as `--json` prints it."""
        return {
            "same": self.same,
            "sameSteps": self.same_steps,
            "different": [*self.different],
            "divergence": None if self.divergence is None else self.divergence.model_dump(mode="json", by_alias=True),
            "a": {"workflowId": a, **self.a.as_object()},
            "b": {"workflowId": b, **self.b.as_object()},
        }


def compare(
    a: Sequence[WorkflowEvent], b: Sequence[WorkflowEvent], changed: Collection[str] = frozenset()
) -> Comparison:
    """Compare the accepted events of two workflows, place by place.

    `changed` are the contents of documents that differ although their names and sizes are equal.
    """
    of_a, of_b = list(turns(a, changed)), list(turns(b, changed))
    different = [what for what in AROUND_STEPS if _only(of_a, {what}) != _only(of_b, {what})]
    steps = {*get_args(What)} - {*AROUND_STEPS}
    same_steps = _only(of_a, steps) == _only(of_b, steps)
    return Comparison(_divergence(of_a, of_b), _cost(a), _cost(b), different, same_steps)


def _only(found: Sequence[Turn], kinds: Collection[str]) -> list[Turn]:
    return [turn for turn in found if turn.what in kinds]


def decides_the_same(a: WorkflowEvent, b: WorkflowEvent) -> bool:
    """Return whether two events make the same decision at the same place; wording does not count."""
    first, second = ([turn for turn in turns([event]) if turn.what != "answer"] for event in (a, b))
    return type(a) is type(b) and first == second


def _divergence(a: Sequence[Turn], b: Sequence[Turn]) -> Divergence | None:
    for first, second in zip_longest(a, b):
        if first != second:
            return _as_divergence(first, second)
    return None


def _as_divergence(a: Turn | None, b: Turn | None) -> Divergence:
    """Return the different values of the same kind of turn at the same place, or else the turn that only one has."""
    if a is not None and b is not None and (a.place, a.what) == (b.place, b.what):
        return _at(a.place, a.what, a.value, b.value)
    first = min((turn for turn in (a, b) if turn is not None), key=lambda turn: turn.place)
    return _at(first.place, "length", _description(a), _description(b))


def _at(place: Place, what: What, a: Any, b: Any) -> Divergence:
    round_, task, attempt, step = place
    return Divergence(round=round_, task=task, attempt=attempt, step=step, what=what, a=a, b=b)


def _description(turn: Turn | None) -> Any:
    return None if turn is None else {"place": list(turn.place), turn.what: turn.value}


def turns(events: Sequence[WorkflowEvent], changed: Collection[str] = frozenset()) -> Iterator[Turn]:
    """Yield what can be compared of each event."""
    for event in events:
        if isinstance(event, Opening):
            yield Turn(place_of(event), "documents", _given(event, changed))
        for kind, what, value in _COMPARISONS:
            if isinstance(event, kind):
                yield Turn(place_of(event), what, value(event))


def _given(opening: Opening, changed: Collection[str]) -> list[dict[str, Any]]:
    """Return name and size of each document, and its content where only that differs."""
    return [
        {"name": document.document_name, "size": document.size}
        | ({"content": document.content} if document.content in changed else {})
        for document in opening.documents
    ]


_COMPARISONS: Final[Sequence[tuple[type[WorkflowEvent], What, Callable[[Any], Any]]]] = (
    (WorkflowRequested, "request", lambda event: event.prompt),
    (RoundRequested, "request", lambda event: event.prompt),
    (TasksPlanned, "length", lambda event: {"tasks": len(event.tasks)}),
    (ActionSelected, "action", lambda event: event.action),
    (ParametersSet, "parameters", lambda event: event.parameters),
    (ParametersChanged, "parameters", lambda event: event.parameters),
    (ActionCompleted, "outcome", lambda event: event.outcome),
    (RefinementDecided, "decision", lambda event: event.decision),
    (TaskReviewed, "decision", lambda event: event.status),
    (StageFailed, "outcome", lambda event: {"stage": event.stage, "code": event.code}),
    (RoundCompleted, "outcome", lambda _: "completed"),
    (RoundCompleted, "answer", lambda event: event.message),
    (RoundFailed, "outcome", lambda _: "failed"),
    (RoundCancelled, "outcome", lambda _: "cancelled"),
)


def _cost(events: Sequence[WorkflowEvent]) -> RunCost:
    calls = [call for event in events for call in model_calls(event)]
    usage = Used.by([*calls, *(call for event in events for call in failed_calls(event))])
    completed = [event for event in events if isinstance(event, ActionCompleted)]
    return RunCost(
        steps=len(completed),
        calls=sum(not call.is_taken_over for call in calls),
        recorded_calls=sum(call.is_taken_over for call in calls),
        tokens=usage.tokens,
        cost_nano_usd=usage.cost_nano_usd,
        model_ms=usage.duration_ms,
        action_ms=sum(event.duration_ms for event in completed),
    )
