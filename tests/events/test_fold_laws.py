"""The fold's laws, on any log that competing, lagging, erring and lying writers could write."""

import random
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import workflow_events
from wandering import Partition, comparable, fold, partitions, placed, record

from builders import SOURCE, TIME, At, honest_cause
from poweron_events import codec
from poweron_events.archive_events import ArchiveEvent
from poweron_events.envelope import Cause, envelop
from poweron_events.fold.evolve import evolve
from poweron_events.fold.history import reverse_chronological
from poweron_events.fold.stage_specs import TIMED_PHASES, due, turn
from poweron_events.fold.state import MAX_REFUSALS, PAUSED, Round, Start, Step, Workflow
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    RequestRefused,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    WorkflowRequested,
    workflow_id,
)
from poweron_events.round_events import BudgetDenied, BudgetGranted, RoundEnd
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalGranted,
    CallReserved,
    ParametersChanged,
    SelectionRejected,
)

WORKFLOW = workflow_id(SOURCE, "0")
WITHOUT_EFFECT = RequestRefused | DocumentErased | ArchiveEvent
PAUSES = RoundPaused | RoundResumed
ANSWERS = ApprovalGranted | ApprovalDenied | ParametersChanged | BudgetGranted | BudgetDenied
"""These name their question by its number or its parameters, not as their cause."""
UNCAUSED = WorkflowRequested | RoundRequested | CancellationRequested | CallReserved | PAUSES | WITHOUT_EFFECT


def accepted(partition: Partition) -> list[object]:
    return [entry.recorded.envelope.event for entry in partition.records if entry.verdict == "accepted"]


@pytest.mark.req("L-06")
@pytest.mark.req("L-07")
@settings(max_examples=25)
@given(partitions())
def test_no_task_takes_more_steps_or_attempts_than_its_limits(partition: Partition) -> None:
    steps, attempts = Counter[tuple[int, int]](), dict[tuple[int, int], int]()
    opening, planned = None, 0
    for event in accepted(partition):
        if isinstance(event, WorkflowRequested | RoundRequested):
            opening = event
        elif isinstance(event, ActionSelected):
            task = (event.round, event.task)
            steps[task] += 1
            attempts[task] = max(event.attempt, attempts.get(task, 1))
            planned = max(planned, event.step)
            assert opening is not None
            per_attempt = opening.max_steps if opening.workflow_mode == "React" else 2  # the longest plan offered
            assert event.step <= per_attempt
            assert event.attempt <= 1 + opening.max_retries
            assert steps[task] <= per_attempt * (1 + opening.max_retries)


@pytest.mark.req("L-02")
@settings(max_examples=25)
@given(partitions())
def test_nothing_is_refused_more_often_than_twice_in_a_row(partition: Partition) -> None:
    slots = Counter(
        (event.round, event.task, event.attempt, event.step)
        for event in accepted(partition)
        if isinstance(event, SelectionRejected)
    )
    assert all(count <= MAX_REFUSALS for count in slots.values())


@pytest.mark.req("E-03")
@settings(max_examples=25)
@given(partitions())
def test_a_slot_has_at_most_one_accepted_event(partition: Partition) -> None:
    ids = Counter(
        entry.recorded.envelope.id
        for entry in partition.records
        if entry.verdict == "accepted" and not isinstance(entry.recorded.envelope.event, WITHOUT_EFFECT)
    )
    assert all(count == 1 for count in ids.values())


@pytest.mark.req("E-03")
@settings(max_examples=25)
@given(partitions())
def test_what_is_accepted_answers_something_accepted_before(partition: Partition) -> None:
    before = set[tuple[str, str]]()
    for entry in partition.records:
        envelope, event = entry.recorded.envelope, entry.recorded.envelope.event
        if entry.verdict != "accepted":
            continue
        if envelope.cause is not None and not isinstance(event, UNCAUSED) and hasattr(event, "task"):
            assert isinstance(event, ANSWERS) or (envelope.cause.id, envelope.cause.sha256) in before
        before.add((envelope.id, entry.recorded.sha256))


@pytest.mark.req("E-03")
@settings(max_examples=25)
@given(partitions(length=40), st.randoms(use_true_random=False))
def test_any_order_and_any_doubling_has_one_winner_for_each_slot(partition: Partition, chance: random.Random) -> None:
    values = [value for value in partition.values for _ in range(chance.randint(1, 2))]
    chance.shuffle(values)
    shuffled = fold(values)
    ids = [
        entry.recorded.envelope.id
        for entry in shuffled.records
        if entry.verdict == "accepted" and not isinstance(entry.recorded.envelope.event, WITHOUT_EFFECT)
    ]
    assert len(ids) == len(set(ids))
    assert fold(values).verdicts == shuffled.verdicts


@pytest.mark.req("E-03")
@settings(max_examples=25)
@given(partitions(length=40))
def test_doubling_every_record_changes_no_outcome(partition: Partition) -> None:
    doubled = fold([value for value in partition.values for _ in range(2)])
    assert doubled.verdicts[::2] == partition.verdicts
    assert _known_by_content(doubled.state(WORKFLOW)) == _known_by_content(partition.state(WORKFLOW))


def _known_by_content(workflow: Workflow) -> Workflow:
    """Without offsets and times, which doubling shifts."""
    if workflow.round is None:
        return comparable(workflow._replace(openings=(), head=None, head_ms=0))
    step_free = comparable(workflow._replace(openings=(), head_ms=0))
    assert step_free.round is not None
    messages = tuple(each.model_copy(update={"time_ms": 0}) for each in step_free.round.messages)
    task = step_free.round.task
    if task is not None:
        starts = tuple(start._replace(cause=start.cause._replace(offset=0), time_ms=0) for start in task.step.starts)
        task = task._replace(began_ms=0, waited_ms=0, step=_timeless(task.step, starts))
    question = step_free.round.question and step_free.round.question._replace(due_ms=0)
    pause = step_free.round.pause and step_free.round.pause._replace(since_ms=0)
    head = step_free.head and step_free.head._replace(offset=0)
    timeless = dict.fromkeys((name for name in Round._fields if name.endswith("_ms")), 0)
    return step_free._replace(
        head=head,
        round=step_free.round._replace(messages=messages, task=task, pause=pause, question=question, **timeless),
    )


def _timeless(step: Step, starts: tuple[Start, ...]) -> Step:
    return step._replace(starts=starts, approval_due_ms=0, escalation_due_ms=int(step.escalation_due_ms > 0))


@pytest.mark.req("E-06")
@settings(max_examples=50)
@given(partitions())
def test_after_three_answers_in_vain_nobody_has_a_turn_until_an_event_is_accepted(partition: Partition) -> None:
    in_vain = defaultdict[str, set[str]](set)
    counts = Counter[str]()
    for entry in partition.records:
        id_ = entry.recorded.envelope.workflow_id
        before, after = partition.states[id_][counts[id_] : counts[id_] + 2]
        counts[id_] += 1
        if after.head != before.head:
            in_vain[id_].clear()
        cause = entry.recorded.envelope.cause
        counts_now = before.is_open and not before.is_paused
        if entry.verdict == "superseded" and counts_now and cause is not None and cause == before.head:
            in_vain[id_].add(entry.recorded.sha256)
        assert after.stuck == (after.is_open and len(in_vain[id_]) >= 3)
        assert not after.stuck or turn(after) is None


@pytest.mark.req("E-03")
@settings(max_examples=25)
@given(partitions(length=30), st.data())
def test_saying_the_same_twice_changes_nothing(partition: Partition, generated: st.DataObject) -> None:
    place = generated.draw(st.integers(0, len(partition.records) - 1))
    again = generated.draw(st.integers(0, place))
    state = fold(partition.values[: place + 1]).state(WORKFLOW)
    after, verdict = evolve(state, record(partition.values[again], place + 1))
    if not isinstance(partition.records[again].recorded.envelope.event, WITHOUT_EFFECT):
        if partition.verdicts[again] == "accepted":
            assert verdict == "superseded"
        if verdict == "superseded":
            assert after == state._replace(seq=state.seq + 1, last=place + 1)
    else:
        assert after == state._replace(seq=state.seq + 1, last=place + 1)


@pytest.mark.req("E-14")
@settings(max_examples=25)
@given(partitions(length=30), st.data())
def test_no_decodable_event_raises_in_any_state(partition: Partition, generated: st.DataObject) -> None:
    states = partition.states.get(WORKFLOW, [Workflow(WORKFLOW)])
    for _ in range(5):
        state = generated.draw(st.sampled_from(states))
        event = placed(generated.draw, generated.draw(workflow_events))
        honest = generated.draw(st.booleans())
        cause = (
            honest_cause(state, event)
            if honest
            else generated.draw(st.sampled_from((None, Cause(WORKFLOW, "00" * 32))))
        )
        value = codec.encode(envelop(event, workflow_id=WORKFLOW, source="/x", time=TIME, cause=cause))
        after, verdict = evolve(state, record(value, 1_000))
        assert (after.seq, after.last) == (state.seq + 1, 1_000)
        assert verdict in ("accepted", "superseded")
        turn(after)
        due(after)


@pytest.mark.req("E-06")
@settings(max_examples=25)
@given(partitions())
def test_while_a_round_is_open_somebody_is_next_and_it_has_an_end_in_time(partition: Partition) -> None:
    for state in partition.states.get(WORKFLOW, []):
        if state.is_open and not state.frozen:
            whats = {each.what for each in due(state)}
            if state.is_paused:
                assert turn(state) in (None, "executor")
                assert not whats
                continue
            if state.asks_for_budget:
                assert (turn(state), whats) == (None, {"budget"})
                continue
            assert (turn(state) is None) == state.stuck
            assert ("round" in whats) == (state.phase not in ("closing", "draining", "approve"))
            assert ("approval" in whats) == (state.phase == "approve")
            assert ("stage" in whats) == (state.phase in TIMED_PHASES)
            assert ("claim" in whats) == (state.phase in ("started", "draining"))
        elif not state.is_open:
            assert turn(state) is None
            assert due(state) == ()


@pytest.mark.req("E-16")
@settings(max_examples=25)
@given(partitions(), st.integers(0, 10**6))
def test_no_clock_touches_a_verdict(partition: Partition, shift: int) -> None:
    state = Workflow(WORKFLOW)
    for entry in partition.records:
        state, verdict = evolve(state, entry.recorded._replace(time_ms=shift - entry.recorded.time_ms))
        assert verdict == entry.verdict


@pytest.mark.req("H-01")
@pytest.mark.req("L-09")
@settings(max_examples=25)
@given(partitions())
def test_an_event_says_at_most_one_thing_and_the_newest_comes_first(partition: Partition) -> None:
    said = {
        message.seq: message
        for state in partition.states.get(WORKFLOW, [])
        if state.round
        for message in state.round.messages
    }
    ordered = reverse_chronological(said.values())
    assert [message.seq for message in ordered] == sorted(said, reverse=True)
    assert [message.round for message in ordered] == sorted((each.round for each in said.values()), reverse=True)
    ends = [event for event in accepted(partition) if isinstance(event, RoundEnd)]
    assert [each.kind for each in said.values()].count("round_end") == len(ends)
    assert all(each.message.strip() for each in said.values())


@pytest.mark.req("E-08")
@settings(max_examples=25)
@given(partitions())
def test_a_step_that_was_started_has_at_most_one_outcome_and_none_without_a_start(partition: Partition) -> None:
    started, done = set[tuple[int, ...]](), Counter[tuple[int, ...]]()
    for event in accepted(partition):
        if isinstance(event, ActionStarted | ActionCompleted):
            place = (event.round, event.task, event.attempt, event.step)
            if isinstance(event, ActionStarted):
                assert done[place] == 0
                started.add((*place, event.try_))
            else:
                assert (*place, event.try_) in started
                done[place] += event.code != PAUSED
    assert all(count <= 1 for count in done.values())


@pytest.mark.req("E-08")
@settings(max_examples=50)
@given(partitions())
def test_the_end_that_an_executor_would_report_is_accepted(partition: Partition) -> None:
    """Whatever a pause did to the claims of a started action: otherwise its round would wait for ever."""
    for state in partition.states.get(WORKFLOW, []):
        if state.phase in ("started", "draining") and not state.frozen:
            event = At.head(state).done(success=False, outcome="crashed", documents=(), try_=state.step.newest_try)
            envelope = envelop(event, workflow_id=WORKFLOW, source="/x", time=TIME, cause=honest_cause(state, event))
            assert evolve(state, record(codec.encode(envelope), 1_000))[1] == "accepted"


@pytest.mark.req("E-03")
@settings(max_examples=25)
@given(partitions())
def test_every_round_that_ends_has_drained(partition: Partition) -> None:
    """No started step without its outcome once the round is over."""
    started = set[tuple[int, ...]]()
    for event in accepted(partition):
        if isinstance(event, ActionStarted):
            started.add((event.round, event.task, event.attempt, event.step))
        if isinstance(event, ActionCompleted):
            started.discard((event.round, event.task, event.attempt, event.step))
        if isinstance(event, RoundEnd):
            assert started == set()
