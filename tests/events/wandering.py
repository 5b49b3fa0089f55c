"""Whole partitions as they could come about: competing writers who lag, repeat themselves, err and lie."""

from dataclasses import dataclass

import orjson
from hypothesis import strategies as st

from builders import Told, honest_cause, next_events, refused, requested, under_policy
from poweron_events import codec
from poweron_events.documentation.examples import EXAMPLES
from poweron_events.envelope import Cause, Recorded, envelop
from poweron_events.event import CATALOGUE
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.request import CancellationRequested
from poweron_events.round_events import DeadlinePassed, StageFailed
from poweron_events.stream import WORKFLOW_EVENTS, WorkflowEvent

KINDS = ("honest",) * 14 + ("late", "late", "again", "wrong cause", "wrong slot", "foreign", "newer", "refusal")
FOREIGN = tuple(event for event in EXAMPLES if event.TYPE in WORKFLOW_EVENTS)
LATE = 4  # records that a late writer has not read yet


@dataclass(frozen=True, slots=True)
class Entry:
    """One record with the verdict of the full fold."""

    recorded: Recorded
    value: bytes
    verdict: Verdict


class Partition:
    """The log of a partition with the full fold of every workflow, after every record."""

    def __init__(self) -> None:
        self.records: list[Entry] = []
        self.states: dict[str, list[Workflow]] = {}

    def state(self, workflow_id: str, late: int = 0) -> Workflow:
        """A workflow as a writer knows it that has not read the last records about it."""
        states = self.states.setdefault(workflow_id, [Workflow(workflow_id)])
        return states[max(0, len(states) - 1 - late)]

    def append(self, value: bytes) -> None:
        recorded = record(value, len(self.records))
        workflow_id = recorded.envelope.workflow_id
        after, verdict = evolve(self.state(workflow_id), recorded)
        self.states[workflow_id].append(after)
        self.records.append(Entry(recorded, value, verdict))

    @property
    def values(self) -> list[bytes]:
        return [told.value for told in self.records]

    @property
    def verdicts(self) -> list[Verdict]:
        return [told.verdict for told in self.records]


def record(value: bytes, offset: int) -> Recorded:
    """A record as it is read at an offset."""
    return Recorded(codec.decode(value), 0, offset, offset * 1_000, codec.sha256(value))


def fold(values: list[bytes]) -> Partition:
    """The full fold of these records in this order."""
    partition = Partition()
    for value in values:
        partition.append(value)
    return partition


@st.composite
def partitions(draw: st.DrawFn, *, workflows: int = 1, length: int = 50) -> Partition:
    """A log of some workflows, written by writers who do not wait for one another."""
    partition = Partition()
    stories = [Told(str(number)).id for number in range(workflows)]
    openings = {
        story: requested(
            str(number),
            max_steps=draw(st.integers(1, 3)),
            max_retries=draw(st.integers(0, 2)),
            on_budget=draw(st.sampled_from(("stop", "ask"))),
            workflow_mode=draw(st.sampled_from(("React", "React", "Actionplan"))),
            **draw(st.sampled_from(({}, {}, under_policy()))),
        )
        for number, story in enumerate(stories)
    }
    for _ in range(draw(st.integers(length // 3, length))):
        story = draw(st.sampled_from(stories))
        partition.append(_written(draw, partition, story, openings[story]))
    return partition


def _written(draw: st.DrawFn, partition: Partition, story: str, opening: WorkflowEvent) -> bytes:
    kind = draw(st.sampled_from(KINDS))
    seen = partition.state(story, draw(st.integers(1, LATE)) if kind == "late" else 0)
    event = _next(draw, seen, opening)
    cause = honest_cause(seen, event)
    match kind:
        case "again" if partition.records:
            return draw(st.sampled_from(partition.values))
        case "wrong cause":
            cause = draw(st.sampled_from((None, Cause(seen.id, "00" * 32))))
        case "wrong slot":
            event = _elsewhere(draw, event)
        case "foreign":
            event = placed(draw, draw(st.sampled_from(FOREIGN)))
            cause = cause and honest_cause(seen, event)
        case "newer" if seen.is_open and draw(st.booleans()):
            return _newer(_bytes(event, story, cause))
        case "refusal":
            event = refused(str(draw(st.integers(0, 9))))
    return _bytes(event, story, cause)


def _bytes(event: WorkflowEvent, workflow_id: str, cause: Cause | None) -> bytes:
    enveloped = envelop(
        event, workflow_id=workflow_id, source="/poweron/test/1", time="2026-11-21T00:00:00.000Z", cause=cause
    )
    return codec.encode(enveloped)


def _next(draw: st.DrawFn, seen: Workflow, opening: WorkflowEvent) -> WorkflowEvent:
    """Something that would be acceptable in the state seen; rarely something that stops the round."""
    if seen.phase == "none":
        return opening
    offers = list(next_events(seen))
    going_on = [
        event for event in offers if not isinstance(event, CancellationRequested | DeadlinePassed | StageFailed)
    ]
    stops = draw(st.integers(0, 3 if seen.phase == "started" else 19)) == 0
    return draw(st.sampled_from(offers if stops or not going_on else going_on))


def _elsewhere(draw: st.DrawFn, event: WorkflowEvent) -> WorkflowEvent:
    places = [name for name in ("round", "task", "attempt", "step", "try_") if hasattr(event, name)]
    if not places:
        return event
    return event.model_copy(update={draw(st.sampled_from(places)): draw(st.integers(1, 4))})


def placed(draw: st.DrawFn, event: WorkflowEvent) -> WorkflowEvent:
    """Any event, at a place that workflows come to."""
    places = [name for name in ("round", "task", "attempt", "step", "try_") if hasattr(event, name)]
    return event.model_copy(update={name: draw(st.integers(1, 2)) for name in places})


def _newer(value: bytes) -> bytes:
    return codec.dumps({**orjson.loads(value), "catalogue": CATALOGUE + 1, "type": "poweron.moon.landed.v1"})


def comparable(workflow: Workflow) -> Workflow:
    """What every reader must agree upon: all but the count of records, which only whole folds know."""
    if workflow.round is None:
        return workflow._replace(seq=0, last=0)
    messages = tuple(message.model_copy(update={"seq": 0}) for message in workflow.round.messages)
    return workflow._replace(seq=0, last=0, round=workflow.round._replace(messages=messages))
