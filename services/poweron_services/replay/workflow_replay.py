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
        verdicts = [each.verdict for each in replayed]
        return cls(len(verdicts), *(verdicts.count(each) for each in ("same", "differs", "inconclusive")))

    def __add__(self, other: "Counted") -> "Counted":  # type: ignore[override] # sums, where a tuple would grow longer
        return Counted(*(one + more for one, more in zip(self, other, strict=True)))


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
    for each in folded(workflow_id, records):
        if isinstance(each, Damaged):
            yield _damaged(each)
        elif each.verdict != each.stored.verdict:
            why = f"The rows call it {each.stored.verdict}, and the rules {each.verdict}."
            yield Replayed(each.seq, each.recorded.envelope.type, "differs", "same", why)
        elif _counts(each):
            yield await again.again(each)


def _damaged(record: Damaged) -> Replayed:
    """Return a damaged record as if it were a decision that differs."""
    return Replayed(record.stored.seq, "record", "differs", "inconclusive", record.why)


def _counts(folded: Folded) -> bool:
    return folded.verdict == "accepted" and is_decision(folded.recorded.envelope.event)
