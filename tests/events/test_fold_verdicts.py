"""The fold by stories: cause and slot, newer releases, what is counted and what people are told."""

import pytest

from builders import (
    CALL,
    FAILED_CALLS,
    TIME,
    At,
    cancellation,
    completed,
    follow_up,
    planned,
    requested,
    reviewed,
    step,
    typical,
)
from poweron_events.envelope import Cause
from poweron_events.event import CATALOGUE
from poweron_events.fold.history import render, reverse_chronological
from poweron_events.fold.stage_specs import turn
from poweron_events.request import LAWS
from poweron_events.round_events import DeadlinePassed, RoundCancelled, RoundCompleted, RoundFailed, Totals
from poweron_events.stream import WorkflowEvent
from story import given

AT = At()
PLANNED: tuple[WorkflowEvent, ...] = (requested(), planned())
SELECTED = (*PLANNED, AT.selected())
READY = (*SELECTED, AT.parameters())
STARTED = (*READY, AT.started())
DONE = (*STARTED, AT.done())
OBSERVED = (*DONE, AT.observed())
REFINED = (*OBSERVED, AT.refined())
REVIEWED = (*REFINED, reviewed())
ENDED = (*REVIEWED, completed())

DEADLINE = DeadlinePassed(round=1, due_ms=0)
CANCELLED = RoundCancelled(round=1, message="Cancelled as asked.", totals=Totals())
FAILED = RoundFailed(round=1, message="It failed.", totals=Totals(), reason="Not found.")

# --- cause, slot, round ----------------------------------------------------------------------------

ELSEWHERE = {
    "another step": At(2).selected(),
    "another attempt": At(attempt=2).selected(),
    "another task": At(task=2).selected(),
    "another round": At(round_number=2).selected(),
    "another kind": AT.parameters(),
}


@pytest.mark.req("E-03")
@pytest.mark.parametrize("event", ELSEWHERE.values(), ids=ELSEWHERE)
def test_an_event_for_another_slot_has_no_effect(event: WorkflowEvent) -> None:
    given(*PLANNED).when(event).then_superseded()


@pytest.mark.req("E-03")
def test_an_event_that_answers_something_else_has_no_effect() -> None:
    story = given(*PLANNED)
    head = story.workflow.head
    assert head is not None
    story.when(AT.selected(), cause=None).then_superseded()
    story.when(AT.selected(), cause=Cause(head.id, "00" * 32, head.offset)).then_superseded()
    story.when(AT.selected(), cause=Cause("01900000-0000-5000-8000-000000000001", head.sha256)).then_superseded()


@pytest.mark.req("E-03")
def test_the_place_of_the_cause_in_the_log_does_not_count() -> None:
    story = given(*PLANNED)
    assert story.workflow.head is not None
    story.when(AT.selected(), cause=story.workflow.head._replace(offset=4711)).then(phase="parameterize")


@pytest.mark.req("E-03")
def test_two_events_may_travel_in_one_append() -> None:
    story = given(*STARTED).when(AT.done())
    assert story.workflow.head is not None
    story.when(AT.observed(), cause=story.workflow.head._replace(offset=None)).then(phase="refine")


@pytest.mark.req("E-03")
def test_the_first_in_offset_order_wins_whatever_it_says() -> None:
    story = given(*PLANNED)
    head = story.workflow.head
    story.when(AT.selected(action="web.search"), cause=head).then(phase="parameterize")
    story.when(AT.selected(), cause=head).then_superseded()
    story.when(AT.selected(action="web.search"), cause=head).then_superseded()


# --- newer releases --------------------------------------------------------------------------------


def unknown(story_value: bytes, catalogue: int) -> bytes:
    return story_value.replace(b'"catalogue":%d' % CATALOGUE, b'"catalogue":%d' % catalogue).replace(
        b"poweron.action.selected.v1", b"poweron.action.dreamed.v1"
    )


@pytest.mark.req("E-13")
def test_a_type_of_a_newer_catalogue_freezes_the_workflow_and_cancelling_still_works() -> None:
    story = given(*SELECTED)
    story.when_written(unknown(story.told.values[-1], CATALOGUE + 1))
    assert (story.verdict, turn(story.workflow), story.workflow.frozen) == ("unknown", None, True)
    story.when(AT.parameters()).then(phase="ready", turn=None, due={})
    story.when(cancellation()).then(phase="closing", turn="reviewer")
    story.when(CANCELLED).then(phase="ended")
    story.when(follow_up()).then(turn="planner", frozen=False)


@pytest.mark.req("E-13")
def test_a_started_action_of_a_frozen_workflow_drains() -> None:
    story = given(*STARTED)
    story.when_written(unknown(story.told.values[2], CATALOGUE + 1))
    story.when(cancellation()).then(phase="draining", turn="executor")
    story.when(AT.done()).then(phase="closing", turn="reviewer")


@pytest.mark.req("E-13")
def test_an_unknown_type_of_a_catalogue_that_we_know_has_no_effect() -> None:
    story = given(*SELECTED)
    story.when_written(unknown(story.told.values[-1], CATALOGUE)).then_superseded()


@pytest.mark.req("E-13")
def test_an_unknown_type_after_the_end_freezes_nothing() -> None:
    story = given(*ENDED)
    story.when_written(unknown(story.told.values[2], CATALOGUE + 1)).then_nothing_changed()
    assert story.verdict == "unknown"


@pytest.mark.req("E-13")
def test_who_lacks_a_workflows_laws_never_acts_on_it() -> None:
    story = given(requested(laws=LAWS + 1)).then(phase="plan", turn=None, due={}, frozen=True)
    story.when(cancellation()).then(phase="closing", turn=None)
    story.when(CANCELLED).then(phase="ended", turn=None)
    story.when(follow_up()).then(turn="planner", frozen=False)


# --- what is counted -------------------------------------------------------------------------------


@pytest.mark.req("B-01")
def test_every_accepted_call_is_counted_for_the_task_and_the_round() -> None:
    story = given(*PLANNED, AT.selection_rejected(), AT.selected(), AT.parameters())
    assert story.workflow.task.used.tokens == 3 * 120
    assert story.workflow.current.totals == Totals(
        steps=1, input_tokens=400, output_tokens=80, cost_nano_usd=4 * CALL.cost_nano_usd
    )
    story.given(AT.started(), AT.done(model_calls=(CALL, CALL)), AT.observed(), AT.rejected("refine"))
    assert story.workflow.task.used.tokens == story.workflow.step.used.tokens == 6 * 120
    assert story.workflow.step.used.duration_ms == 6 * CALL.duration_ms


@pytest.mark.req("B-01")
def test_a_stage_that_failed_tells_of_the_answers_it_got() -> None:
    failed = AT.failed("select").model_copy(update={"model_calls": (CALL, CALL)})
    assert given(*PLANNED, failed).workflow.current.totals.input_tokens == 3 * CALL.input_tokens


@pytest.mark.req("B-01")
def test_calls_that_failed_count_for_the_step_the_task_and_the_round() -> None:
    story = given(*PLANNED, AT.selected(model_call=None, failed_calls=(FAILED_CALLS,)))
    assert story.workflow.step.used == story.workflow.task.used == (70, 8, 900, 1_200)
    assert story.workflow.current.totals == Totals(
        steps=1, input_tokens=170, output_tokens=28, cost_nano_usd=CALL.cost_nano_usd + 900
    )


@pytest.mark.req("M-08")
def test_actions_are_counted_over_all_attempts() -> None:
    story = given(*REFINED, reviewed(status="retry"), At(attempt=2).selected()).then(actions=2)
    assert story.workflow.current.totals.steps == 2


# --- what people are told --------------------------------------------------------------------------


@pytest.mark.req("L-09")
def test_a_round_is_told_in_five_kinds_of_messages() -> None:
    story = given(requested(), planned(2), *step(decision="continue"), *step(2), reviewed())
    story.given(*step(task=2), reviewed(task=2), completed()).then(
        kinds=[
            *("workflow_start", "task_start", "step", "step", "task_end"),
            *("task_start", "step", "task_end", "round_end"),
        ],
        says="The grand total is 42.",
    )


@pytest.mark.req("L-09")
def test_a_task_starts_once_whatever_comes_first() -> None:
    given(*PLANNED, AT.selection_rejected(), AT.selected()).then(
        kinds=["workflow_start", "task_start"], says="Task 1 of 1 starts: Find the total"
    )


@pytest.mark.req("L-09")
def test_neither_refusals_nor_parameters_nor_decisions_are_told_by_themselves() -> None:
    story = given(*PLANNED, AT.selection_rejected(), AT.selected(), AT.parameters_rejected(), AT.parameters())
    story.given(AT.started(), AT.started(2), AT.done(2), AT.observed(), AT.rejected("refine"))
    story.given(AT.refined(decision="continue", classification="retry"), *step(2), At(2).rejected("review"))
    story.given(reviewed(status="retry"), *step(attempt=2), reviewed(attempt=2), completed()).then(
        kinds=[
            *("workflow_start", "task_start", "step", "step", "task_end"),
            *("step", "task_end", "round_end"),
        ]
    )


@pytest.mark.req("L-09")
@pytest.mark.parametrize(
    ("stop", "end"), [(cancellation(), CANCELLED), (DEADLINE, FAILED), (AT.failed("parameterize"), FAILED)]
)
def test_a_round_that_was_stopped_has_one_last_message(stop: WorkflowEvent, end: WorkflowEvent) -> None:
    given(*SELECTED, stop, end).then(kinds=["workflow_start", "task_start", "round_end"])


@pytest.mark.req("H-01")
def test_the_history_goes_back_from_the_newest_message_of_the_newest_round() -> None:
    told = typical(steps=1)
    first = told.workflow.current.messages
    told.tell(follow_up(2), planned(1, 2), *step(1, round_number=2))
    messages = [*first, *told.workflow.current.messages]
    shown = [(one.round, one.kind) for one in reverse_chronological(messages)]
    assert shown == [
        *((2, "step"), (2, "task_start"), (2, "workflow_start")),
        *((1, "round_end"), (1, "task_end"), (1, "step"), (1, "task_start"), (1, "workflow_start")),
    ]
    assert reverse_chronological(messages[::-1]) == reverse_chronological(messages)


@pytest.mark.req("H-01")
def test_a_message_shows_its_label_its_references_its_findings_its_summary_and_its_learnings() -> None:
    selected = AT.selected(learnings=("The total is on page 2.",))
    story = given(*PLANNED, selected, AT.parameters(), AT.started(), AT.done(), AT.observed())
    assert render(story.workflow.current.messages[-1]) == (
        "[round 1, task 1, attempt 1, step 1, document.extract, success] Read one document.\n"
        "  documents: docList:round1_task1_action1_extract\n"
        "    docItem:doc-text.md:text.md\n"
        "  finding: The total is 42.\n"
        "  learning: The total is on page 2."
    )


@pytest.mark.req("H-01")
def test_what_the_refinement_taught_is_among_the_learnings_of_its_steps_message() -> None:
    selected = AT.selected(learnings=("The total is on page 2.",))
    story = given(*PLANNED, selected, AT.parameters(), AT.started(), AT.done(), AT.observed())
    *before, told = story.workflow.current.messages
    story.given(AT.refined(reason="The page is not named.", improvements=("Name the page.",)))
    learned = ("The total is on page 2.", "The page is not named.", "Name the page.")
    assert story.workflow.current.messages == (*before, told.model_copy(update={"learnings": learned}))
    assert "\n  learning: The page is not named.\n  learning: Name the page." in render(
        told.model_copy(update={"learnings": learned})
    )


@pytest.mark.req("L-10")
@pytest.mark.parametrize(
    ("review", "says"),
    [
        ({"status": "success"}, "Task 1 of 1 is done."),
        ({"status": "retry", "reason": "Page 2 is missing."}, "Task 1 of 1 is tried again: Page 2 is missing."),
        ({"status": "failed", "reason": "Not found."}, "Task 1 of 1 could not be done: Not found."),
    ],
)
def test_the_end_of_a_task_says_how_it_went(review: dict[str, str], says: str) -> None:
    given(*REFINED).when(reviewed(**review)).then(says=says)


@pytest.mark.req("L-10")
def test_a_retry_that_is_not_to_be_is_told_as_a_failure() -> None:
    given(requested(max_retries=0), planned(), *step()).when(reviewed(status="retry", reason="Page 2.")).then(
        says="Task 1 of 1 could not be done: Page 2."
    )


@pytest.mark.req("H-02")
@pytest.mark.req("M-06")
def test_a_step_is_told_with_its_documents_findings_and_learnings() -> None:
    selected = AT.selected(learnings=("The total is on page 2.",))
    story = given(*PLANNED, selected, AT.parameters(), AT.started(), AT.done(), AT.observed())
    said = story.workflow.current.messages[-1]
    assert (said.kind, said.seq, said.time_ms, said.action, said.success) == (
        *("step", 6, 6_000),
        *("document.extract", True),
    )
    assert (said.summary, said.documents_label, said.findings, said.learnings) == (
        *("Read one document.", "round1_task1_action1_extract"),
        *(("The total is 42.",), ("The total is on page 2.",)),
    )
    assert [document.document_name for document in said.documents] == ["text.md"]


@pytest.mark.req("E-12")
def test_the_writers_clock_does_not_count() -> None:
    early = given(*PLANNED).when(AT.selected(), time="1970-01-01T00:00:00.000Z")
    honest = given(*PLANNED).when(AT.selected(), time=TIME)
    assert early.workflow._replace(head=None) == honest.workflow._replace(head=None)


def test_the_totals_of_a_round_end_are_the_writers_words() -> None:
    given(*REVIEWED).when(RoundCompleted(round=1, message="42", totals=Totals(steps=99))).then(phase="ended")
