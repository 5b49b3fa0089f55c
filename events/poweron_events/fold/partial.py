"""A fold that starts in the middle of the log and agrees with one that starts at its beginning (E-07).

A reader of a partition starts from what Postgres holds at some offset: the open workflows. It knows
nothing about other workflows, so when one of them is opened, it looks up the stub in Postgres.

Speculative work starts from the workflow as it will be if an event that has not been read back is accepted (E-17).
That is only a guess: the log alone decides what is accepted, and when.
"""

from dataclasses import dataclass
from typing import Final

from poweron_events.archive_events import ArchiveEvent
from poweron_events.envelope import Cause, Envelope, Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.request import DocumentErased, RequestRefused, RoundRequested, WorkflowRequested


@dataclass(frozen=True, slots=True)
class Stub:
    """What Postgres keeps of any workflow: enough to judge an opening."""

    workflow_id: str
    openings: tuple[int, ...]
    is_open: bool
    seq: int
    last: int

    def before(self, round_number: int) -> Workflow:
        """Return the workflow as it was before the opening of this round."""
        openings = self.openings[: round_number - 1]
        return Workflow(self.workflow_id, "ended" if openings else "none", openings)


def judge_opening(stub: Stub | None, recorded: Recorded) -> tuple[Workflow, Verdict]:
    """Judge an opening of a workflow that the reader does not hold."""
    event = recorded.envelope.event
    assert isinstance(event, WorkflowRequested | RoundRequested)
    if stub is None:
        return evolve(Workflow(recorded.envelope.workflow_id), recorded)
    if stub.last >= recorded.offset:  # the projector has already judged this record
        accepted = recorded.offset in stub.openings[event.round - 1 : event.round]
        base = stub.before(event.round if accepted else 1)
        return evolve(base, recorded) if accepted else (base, "superseded")
    if stub.is_open:
        return stub.before(1), "superseded"
    return evolve(stub.before(len(stub.openings) + 1), recorded)


OPENINGS: Final = (WorkflowRequested, RoundRequested)


class PartialFold:
    """The workflows of one partition that a reader holds, by id."""

    def __init__(self, workflows: dict[str, Workflow] | None = None) -> None:
        self.workflows = workflows or {}

    def must_look_up(self, recorded: Recorded) -> bool:
        """Return whether the record opens a workflow that is not held, so that its stub must be read from Postgres."""
        opens = type(recorded.envelope.event) in OPENINGS
        return opens and recorded.envelope.workflow_id not in self.workflows

    def apply(self, recorded: Recorded, stub: Stub | None = None) -> Verdict | None:
        """Fold in a record; return None if it is about a workflow that is not held and has no effect.

        `stub` is what Postgres returned, if `must_look_up` asked for it.
        """
        workflow_id = recorded.envelope.workflow_id
        held = self.workflows.get(workflow_id)
        if held is not None:
            self.workflows[workflow_id], verdict = evolve(held, recorded)
            return verdict
        if self.must_look_up(recorded):
            opened, verdict = judge_opening(stub, recorded)
            if verdict == "accepted":
                self.workflows[workflow_id] = opened
            return verdict
        return (
            "accepted" if isinstance(recorded.envelope.event, RequestRefused | DocumentErased | ArchiveEvent) else None
        )

    def forget_ended(self, projected: int) -> bool:
        """Drop ended workflows that lie before `projected`, the projector's next offset; return whether any did."""
        done = [held.id for held in self.workflows.values() if not held.is_open and held.last < projected]
        for workflow_id in done:
            del self.workflows[workflow_id]
        return bool(done)


NOT_READ_BACK = -1  # instead of partition and offset


def expected(workflow: Workflow, envelope: Envelope, *, sha256: str, time_ms: int) -> Workflow | None:
    """Return the workflow after the event, as if it came next at this time; None if it would have no effect."""
    recorded = Recorded(envelope, partition=NOT_READ_BACK, offset=NOT_READ_BACK, time_ms=time_ms, sha256=sha256)
    after, verdict = evolve(workflow, recorded)
    return after._replace(head=Cause(envelope.id, sha256)) if verdict == "accepted" else None
