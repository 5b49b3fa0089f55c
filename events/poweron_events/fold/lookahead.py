"""The workflow as it will be if an event that has not been read back yet is accepted (E-17).

Speculative work starts from it. It is only a guess: the log alone decides what is accepted, and when.
"""

from poweron_events.envelope import Cause, Envelope, Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow

NOT_READ_BACK = -1  # instead of partition and offset


def expected(workflow: Workflow, envelope: Envelope, *, sha256: str, time_ms: int) -> Workflow | None:
    """Return the workflow after the event, as if it came next at this time; None if it would have no effect."""
    recorded = Recorded(envelope, partition=NOT_READ_BACK, offset=NOT_READ_BACK, time_ms=time_ms, sha256=sha256)
    after, verdict = evolve(workflow, recorded)
    return after._replace(head=Cause(envelope.id, sha256)) if verdict == "accepted" else None
