"""A fold that begins anywhere agrees with the one that began at the beginning (E-07)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wandering import Partition, comparable, partitions, record

from builders import Told, completed, exported, follow_up, planned, refused, requested, reviewed, step
from poweron_events.fold.partial import PartialFold, Stub, judge_opening
from poweron_events.fold.state import Workflow


def stub(partition: Partition, workflow_id: str, position: int) -> Stub | None:
    """What Postgres knows of a workflow when the projector's next offset is `position`."""
    known = [state for state in partition.states[workflow_id] if state.seq and state.last < position]
    if not known:
        return None
    state = known[-1]
    return Stub(workflow_id, state.openings, state.is_open, state.seq, state.last)


def snapshot(partition: Partition, position: int) -> dict[str, Workflow]:
    """The newest state of each workflow before an offset."""
    newest = {}
    for workflow_id, states in partition.states.items():
        known = [state for state in states if state.seq and state.last < position]
        if known:
            newest[workflow_id] = known[-1]
    return newest


@pytest.mark.req("E-07")
@settings(max_examples=40)
@given(partitions(workflows=3, length=60), st.data())
def test_a_reader_that_starts_anywhere_gives_the_same_verdicts(partition: Partition, generated: st.DataObject) -> None:
    end = len(partition.records)
    floor = generated.draw(st.integers(0, end))
    opened = {name: state for name, state in snapshot(partition, floor).items() if state.is_open}
    reader = PartialFold(dict(opened))
    for entry in partition.records[floor:]:
        looked_up = None
        if reader.must_look_up(entry.recorded):
            position = generated.draw(st.integers(floor, end))  # the projector is anywhere beyond the floor
            looked_up = stub(partition, entry.recorded.envelope.workflow_id, position)
        verdict = reader.apply(entry.recorded, looked_up)
        assert verdict == entry.verdict or (verdict is None and entry.verdict in ("superseded", "unknown"))
        if generated.draw(st.integers(0, 9)) == 0:
            passed = generated.draw(st.integers(floor, end))
            if reader.forget_ended(passed):
                floor = passed
    full = {name: comparable(states[-1]) for name, states in partition.states.items() if states[-1].is_open}
    held = {name: comparable(state) for name, state in reader.workflows.items() if state.is_open}
    assert held == full


ENDED = (requested(), planned(), *step(), reviewed(), completed())


@pytest.mark.req("E-07")
def test_an_opening_that_the_projector_has_not_seen_is_judged_by_its_row() -> None:
    told = Told().tell(*ENDED, follow_up())
    opening = record(told.values[-1], 10)
    ended = Stub(told.id, (0,), is_open=False, seq=10, last=9)
    assert judge_opening(ended, opening)[1] == "accepted"
    assert judge_opening(None, opening)[1] == "superseded"
    still_open = Stub(told.id, (0,), is_open=True, seq=9, last=8)
    assert judge_opening(still_open, opening)[1] == "superseded"


@pytest.mark.req("E-07")
def test_an_opening_that_the_projector_has_seen_is_judged_as_it_was() -> None:
    told = Told().tell(*ENDED, follow_up(request_id="2"), follow_up(request_id="3"))
    seen = Stub(told.id, (0, 10), is_open=True, seq=12, last=11)
    opened, verdict = judge_opening(seen, record(told.values[10], 10))
    assert (verdict, opened.phase, opened.openings) == ("accepted", "plan", (0, 10))
    assert judge_opening(seen, record(told.values[11], 11))[1] == "superseded"
    assert judge_opening(seen, record(told.values[0], 0))[1] == "accepted"
    assert judge_opening(seen, record(told.values[0], 5))[1] == "superseded"


@pytest.mark.req("E-07")
def test_what_a_reader_does_not_hold_has_no_effect() -> None:
    told = Told().tell(*ENDED)
    reader = PartialFold()
    assert [reader.apply(record(value, place)) for place, value in enumerate(told.values[1:], start=1)] == [None] * 9
    assert reader.workflows == {}


@pytest.mark.req("E-15")
def test_a_refusal_and_an_export_of_a_workflow_that_is_not_held_are_accepted() -> None:
    told = Told().tell(refused(), exported())
    reader = PartialFold()
    assert [reader.apply(record(value, offset)) for offset, value in enumerate(told.values)] == ["accepted"] * 2
    assert reader.workflows == {}


@pytest.mark.req("E-07")
def test_an_ended_workflow_is_kept_until_the_projector_has_passed_it() -> None:
    told = Told().tell(*ENDED)
    reader = PartialFold()
    for place, value in enumerate(told.values):
        reader.apply(record(value, place))
    assert not reader.forget_ended(9)
    assert told.id in reader.workflows
    assert reader.forget_ended(10)
    assert reader.workflows == {}
    assert not reader.forget_ended(10)
