"""The records of one workflow as they are kept, and each folded on those before it."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from poweron_events.codec import Undecodable, read
from poweron_events.envelope import Recorded
from poweron_events.fold.costs import reported, without_reservations
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.log import EventLog
from poweron_events.topics import EVENTS
from poweron_projections.connection import Pool
from poweron_projections.reader import StoredRecord, stored_records
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.client.release_check import expect_known

MAX_SPAN: Final = 5_000
"""Records of the log that are read again to compare a workflow's rows with them; more would take too long."""


class Folded(NamedTuple):
    """A record with the workflow without and with it, and what was said of it at the time.

    `before` does not count what was reserved for the calls that the event reports: they were made behind it.
    """

    seq: int
    recorded: Recorded
    verdict: Verdict
    before: Workflow
    after: Workflow
    stored: StoredRecord

    @property
    def data(self) -> dict[str, Any]:
        """The event as it stands in the record."""
        data: dict[str, Any] = orjson.loads(self.stored.value)["data"]
        return data


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that is not what it was when it came, and why."""

    stored: StoredRecord
    why: str


async def workflow_records(pool: Pool, workflow_id: str) -> Sequence[StoredRecord]:
    """All records of a workflow, in their order.

    Raises:
        UnknownWorkflow: it has none.
        Unavailable: Postgres cannot be reached.
    """
    found = await stored_records(pool, workflow_id)
    if not found:
        raise UnknownWorkflow(workflow_id)
    return found


async def other_in_log(log: EventLog, records: Sequence[StoredRecord]) -> AsyncGenerator[Damaged, None]:
    """The rows that are not what the log holds, where all of them stand close enough to be read again.

    Raises:
        Unavailable: the log cannot be reached.
    """
    first, end, partition = records[0].offset, records[-1].offset + 1, records[0].partition
    if end - first > MAX_SPAN:
        return
    held = {record.offset: record for record in records}
    async for batch in log.read(EVENTS.name, {partition: first}, {partition: end}):
        for record in batch:
            row = held.pop(record.offset, None)
            if row is not None and row.value != record.value:
                yield Damaged(row, "The log holds other bytes than the row.")
    for row in held.values():
        yield Damaged(row, "The log does not hold it.")


def folded(workflow_id: str, records: Iterable[StoredRecord]) -> Iterator[Folded | Damaged]:
    """The records one after the other, each judged again.

    Raises:
        NewerRelease: the workflow has an event or rules that this release does not know.
    """
    workflow = Workflow(workflow_id)
    for stored in records:
        if not stored.is_whole:
            yield Damaged(stored, "The row does not hold the bytes that came: their SHA-256 is another one.")
            return
        try:
            recorded = _recorded(workflow_id, stored)
        except Undecodable as error:
            yield Damaged(stored, f"The record cannot be read: {error}.")
            return
        expect_known(workflow_id, stored.seq, recorded.envelope)
        after, verdict = evolve(workflow, recorded)
        event = recorded.envelope.event
        before = without_reservations(workflow, reported(event)) if event is not None else workflow
        yield Folded(stored.seq, recorded, verdict, before, after, stored)
        workflow = after


def _recorded(workflow_id: str, stored: StoredRecord) -> Recorded:
    key = workflow_id.encode()
    return read(stored.value, key=key, partition=stored.partition, offset=stored.offset, time_ms=stored.time_ms)
