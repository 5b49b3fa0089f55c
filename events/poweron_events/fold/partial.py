"""A fold that did not begin at the beginning, and agrees with the one that did (E-07).

A reader of a partition starts from what Postgres holds at some offset: the open workflows. It knows
nothing of the others, so the opening of a workflow that it does not hold is looked up there.
"""

from dataclasses import dataclass

from poweron_events.envelope import Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.request import DocumentErased, RequestRefused, RoundRequested, WorkflowRequested


@dataclass(frozen=True, slots=True)
class Stub:
    """What Postgres remembers of any workflow: enough to judge an opening."""

    workflow_id: str
    openings: tuple[int, ...]
    is_open: bool
    seq: int
    last: int

    def before(self, round_number: int) -> Workflow:
        """The workflow as it stood when `round_number` rounds had not been opened yet."""
        openings = self.openings[: round_number - 1]
        return Workflow(self.workflow_id, "ended" if openings else "none", openings)


def judge_opening(stub: Stub | None, recorded: Recorded) -> tuple[Workflow, Verdict]:
    """The verdict on an opening of a workflow that the reader does not hold."""
    event = recorded.envelope.event
    assert isinstance(event, WorkflowRequested | RoundRequested)
    if stub is None:
        return evolve(Workflow(recorded.envelope.workflow_id), recorded)
    if stub.last >= recorded.offset:  # the projector has judged this very record
        accepted = recorded.offset in stub.openings[event.round - 1 : event.round]
        base = stub.before(event.round if accepted else 1)
        return evolve(base, recorded) if accepted else (base, "superseded")
    if stub.is_open:
        return stub.before(1), "superseded"
    return evolve(stub.before(len(stub.openings) + 1), recorded)


class PartialFold:
    """The workflows that a reader holds of one partition, by id."""

    def __init__(self, workflows: dict[str, Workflow] | None = None) -> None:
        self.workflows = workflows or {}

    def must_look_up(self, recorded: Recorded) -> bool:
        """Whether the record opens a workflow that is not held: Postgres must be asked for its stub."""
        opens = isinstance(recorded.envelope.event, WorkflowRequested | RoundRequested)
        return opens and recorded.envelope.workflow_id not in self.workflows

    def apply(self, recorded: Recorded, stub: Stub | None = None) -> Verdict | None:
        """Fold one record in; None where it concerns a workflow that is not held and is without effect.

        `stub` is what Postgres answered where `must_look_up` said so.
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
        return "accepted" if isinstance(recorded.envelope.event, RequestRefused | DocumentErased) else None

    def forget_ended(self, projected: int) -> bool:
        """Drop ended workflows whose last record the projector (its next offset given) has passed."""
        done = [held.id for held in self.workflows.values() if not held.is_open and held.last < projected]
        for workflow_id in done:
            del self.workflows[workflow_id]
        return bool(done)
