"""The stored records of one workflow, each folded onto those before it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from poweron_events.codec import Undecodable, read
from poweron_events.envelope import Recorded
from poweron_events.fold.costs import reported, settled_by, without_reservations
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_projections.reader import StoredRecord
from poweron_services.client.release_check import expect_known


class Folded(NamedTuple):
    """A record, its verdict now, the workflow before and after it, and the stored row with the original verdict.

    `before` does not include the reservations for calls that the event reports, which were made after that state.
    """

    seq: int
    recorded: Recorded
    verdict: Verdict
    before: Workflow
    after: Workflow
    stored: StoredRecord

    @property
    def data(self) -> dict[str, Any]:
        """The event's data as stored in the record."""
        data: dict[str, Any] = orjson.loads(self.stored.value)["data"]
        return data


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that is no longer what it was when it arrived, and why."""

    stored: StoredRecord
    why: str


def folded(workflow_id: str, records: Iterable[StoredRecord]) -> Iterator[Folded | Damaged]:
    """Yield the records in order, each judged again.

    Raises:
        NewerRelease: the workflow has an event or rules that this release does not know.
    """
    workflow = Workflow(workflow_id)
    for stored in records:
        if not stored.is_whole:
            yield Damaged(stored, "The row does not hold the bytes that came: their SHA-256 is another one.")
            return
        try:
            recorded = _read_record(workflow_id, stored)
        except Undecodable as error:
            yield Damaged(stored, f"The record cannot be read: {error}.")
            return
        expect_known(workflow_id, stored.seq, recorded.envelope)
        after, verdict = evolve(workflow, recorded)
        event = recorded.envelope.event
        settled = settled_by(workflow.round, reported(event)) if event and workflow.round else ()
        before = without_reservations(workflow, settled)
        yield Folded(stored.seq, recorded, verdict, before, after, stored)
        workflow = after


def _read_record(workflow_id: str, stored: StoredRecord) -> Recorded:
    key = workflow_id.encode()
    return read(stored.value, key=key, partition=stored.partition, offset=stored.offset, time_ms=stored.time_ms)
