"""The state of a workflow with many records."""

import tracemalloc

from builders import Told, planned, requested, step
from poweron_events.fold.state import Workflow
from poweron_events.topics import PARTITIONS, partition_of
from poweron_projections.reader import StoredRecord
from poweron_projections.records import digest
from poweron_services.client.workflow_snapshot import last_state

STEPS = 99
MOST = 1_000_000  # bytes


def stored(told: Told) -> list[StoredRecord]:
    number, values = partition_of(told.id.encode(), PARTITIONS), [message.value for message in told.messages]
    return [StoredRecord(seq, "accepted", number, seq, 0, digest(value), value) for seq, value in enumerate(values)]


def test_the_last_state_is_folded_without_holding_those_before() -> None:
    told = Told().tell(requested(max_steps=STEPS + 1), planned())
    for number in range(1, STEPS + 1):
        told.tell(*step(number, decision="continue"))
    records = stored(told)
    last_state(told.id, records)  # what is only loaded at the first fold does not count
    tracemalloc.start()
    try:
        state = last_state(told.id, records)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert state.place == told.workflow.place
    assert peak < MOST, f"{peak:,} bytes"


def test_a_workflow_without_records_has_no_state_yet() -> None:
    assert last_state(Told().id, []) == Workflow(Told().id)
