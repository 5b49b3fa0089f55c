"""Replays a workflow: makes each of its decisions again and compares the results."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import NamedTuple

from poweron_events.content import ContentStore
from poweron_projections.reader import StoredRecord
from poweron_services.replay.action_specs import KnownActions
from poweron_services.replay.decision_replay import DecisionReplay, Replayed, is_decision
from poweron_services.replay.replay_content import StoredContent
from poweron_services.replay.workflow_records import Damaged, Folded, folded


class Counted(NamedTuple):
    """The number of replayed decisions, and of each result."""

    decisions: int = 0
    same: int = 0
    differs: int = 0
    inconclusive: int = 0

    @classmethod
    def of(cls, replayed: Iterable[Replayed]) -> "Counted":
        verdicts = [decision.verdict for decision in replayed]
        return cls(len(verdicts), *(verdicts.count(verdict) for verdict in ("same", "differs", "inconclusive")))

    def __add__(self, other: "Counted") -> "Counted":  # type: ignore[override] # sums, where a tuple would grow longer
        return Counted(*(first + second for first, second in zip(self, other, strict=True)))


async def replay(
    workflow_id: str, records: Sequence[StoredRecord], content: ContentStore, known: KnownActions
) -> AsyncGenerator[Replayed, None]:
    """Replay every decision of a workflow, oldest first; also report records whose verdict is different now.

    No model or action is called, and nothing is written.

    Raises:
        NewerRelease: a newer release worked on the workflow.
        Unavailable: the content store cannot be reached.
    """
    again = DecisionReplay(StoredContent(content), known)
    for record in folded(workflow_id, records):
        if isinstance(record, Damaged):
            yield _damage(record)
        elif record.verdict != record.stored.verdict:
            detail = f"The rows call it {record.stored.verdict}, and the rules {record.verdict}."
            yield Replayed(record.seq, record.recorded.envelope.type, "differs", "same", detail)
        elif _counts(record):
            yield await again.again(record)


def _damage(record: Damaged) -> Replayed:
    """Return a damaged record as if it were a decision that differs."""
    return Replayed(record.stored.seq, "record", "differs", "inconclusive", record.why)


def _counts(folded: Folded) -> bool:
    return folded.verdict == "accepted" and is_decision(folded.recorded.envelope.event)
