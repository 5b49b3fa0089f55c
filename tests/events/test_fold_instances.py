"""A process starts once and ends at most once, under a key of its own."""

from process_records import INSTANCE, Process, instance_ended, instance_started

from builders import Told, requested
from poweron_events.fold.state import Instance
from poweron_events.instance_events import instance_of
from poweron_events.stream import WorkflowEvent


def verdict(told: Told, event: WorkflowEvent) -> str:
    told.tell(event)
    return told.verdicts[-1]


def test_a_process_starts_and_ends() -> None:
    told = Process().tell(instance_started())
    assert told.workflow.instance == Instance(instance_started(), 0)
    told.tell(instance_ended())
    assert told.workflow.instance == Instance(instance_started(), 0, 1)
    assert (told.workflow.phase, told.workflow.head) == ("none", None)


def test_of_two_starts_and_of_two_ends_the_first_counts() -> None:
    told = Process().tell(instance_started())
    assert verdict(told, instance_started(release="0.5.0")) == "superseded"
    assert verdict(told, instance_ended()) == "accepted"
    assert verdict(told, instance_ended()) == "superseded"
    assert verdict(told, instance_started()) == "superseded", "a process has a new name after each start"
    assert told.workflow.instance == Instance(instance_started(), 0, 2)


def test_a_process_that_did_not_start_does_not_end() -> None:
    assert verdict(Process(), instance_ended()) == "superseded"


def test_a_process_has_no_effect_under_the_key_of_another_one_or_of_a_workflow() -> None:
    assert verdict(Process(), instance_started("host-7-2")) == "superseded"
    assert verdict(Told().tell(requested()), instance_started()) == "superseded"
    assert verdict(Process().tell(instance_started()), instance_ended("host-7-2")) == "superseded"


def test_the_source_of_an_event_names_the_instance() -> None:
    assert instance_of(f"/poweron/executor/{INSTANCE}") == INSTANCE
    assert instance_of(INSTANCE) == INSTANCE
