"""The second fold, in the script of auditors, gives the verdicts of the first one."""

import orjson
from hypothesis import given, settings
from wandering import Partition, partitions

from poweron_events import codec
from poweron_events.event import CATALOGUE
from poweron_events.stream import WORKFLOW_EVENTS
from poweron_projections.audit.verifier.second_fold import KNOWN_CATALOGUE, known_types, second_verdict
from poweron_projections.audit.verifier.workflow_fold import FoldedWorkflow


@settings(max_examples=60)
@given(partitions())
def test_every_record_has_the_same_verdict(partition: Partition) -> None:
    folds = dict[str, FoldedWorkflow]()
    for entry in partition.records:
        event = orjson.loads(entry.value)
        key = event["correlationid"]
        fold = folds.setdefault(key, FoldedWorkflow(key))
        found = second_verdict(fold, event, codec.sha256(entry.value), entry.recorded.time_ms)
        assert found == entry.verdict, event


def test_both_folds_know_the_same_events() -> None:
    assert (KNOWN_CATALOGUE, known_types()) == (CATALOGUE, WORKFLOW_EVENTS.keys())
