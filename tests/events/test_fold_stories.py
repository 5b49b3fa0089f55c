"""The fold by stories: what each event does, what has no effect, whose turn it is then."""

import pytest

from builders import (
    At,
    cancellation,
    completed,
    exported,
    follow_up,
    planned,
    refused,
    requested,
    reviewed,
    step,
)
from poweron_events.event import CriterionProgress
from poweron_events.fold.state import TaskContext, task_context
from poweron_events.round_events import DeadlinePassed, RoundCancelled, RoundFailed, Totals
from poweron_events.step_events import Observation
from poweron_events.stream import WorkflowEvent
from story import given

AT = At()
PLANNED: tuple[WorkflowEvent, ...] = (requested(), planned())
SELECTED = (*PLANNED, AT.selected())
READY = (*SELECTED, AT.parameters())
ASKED = (*READY, AT.approval_requested())
STARTED = (*READY, AT.started())
DONE = (*STARTED, AT.done())
OBSERVED = (*DONE, AT.observed())
REFINED = (*OBSERVED, AT.refined())
REVIEWED = (*REFINED, reviewed())
ENDED = (*REVIEWED, completed())

DEADLINE = DeadlinePassed(round=1, due_ms=0)
CANCELLED = RoundCancelled(round=1, message="Cancelled as asked.", totals=Totals())
FAILED = RoundFailed(round=1, message="It failed.", totals=Totals(), reason="Not found.")

# --- React mode, from the request to the answer ----------------------------------------------------


@pytest.mark.req("E-03")
@pytest.mark.req("L-01")
@pytest.mark.req("L-03")
@pytest.mark.parametrize(
    ("before", "event", "phase", "role"),
    [
        ((), requested(), "plan", "planner"),
        ((requested(),), planned(), "select", "selector"),
        (PLANNED, AT.selected(), "parameterize", "parameterizer"),
        (SELECTED, AT.parameters(), "ready", "executor"),
        (READY, AT.started(), "started", "executor"),
        (STARTED, AT.done(), "observe", "observer"),
        (DONE, AT.observed(), "refine", "refiner"),
        (OBSERVED, AT.refined(), "review", "reviewer"),
        (REFINED, reviewed(), "closing", "reviewer"),
        (REVIEWED, completed(), "ended", None),
    ],
)
def test_each_event_hands_the_turn_to_the_next_role(
    before: tuple[WorkflowEvent, ...], event: WorkflowEvent, phase: str, role: str | None
) -> None:
    given(*before).when(event).then(phase=phase, turn=role)


@pytest.mark.req("L-05")
def test_a_decision_to_continue_begins_the_next_step_with_its_hint() -> None:
    decision = AT.refined(decision="continue", hint="Look at page 2.", improvements=("Read the table.",))
    given(*OBSERVED).when(decision).then(
        phase="select", place=(1, 1, 1, 2), hint="Look at page 2.", improvements=("Read the table.",), retries=0
    )


@pytest.mark.req("L-06")
def test_the_last_allowed_step_goes_to_review_whatever_the_decision_says() -> None:
    short = requested(max_steps=1)
    given(short, planned(), *step()[:-1]).when(AT.refined(decision="continue")).then(phase="review")


@pytest.mark.req("L-08")
def test_a_task_may_allow_fewer_steps_than_the_round() -> None:
    given(requested(), planned(max_steps=1), *step()[:-1]).when(AT.refined(decision="continue")).then(phase="review")


def test_a_task_may_not_allow_more_steps_than_the_round() -> None:
    given(requested(max_steps=1), planned(max_steps=9), *step()[:-1]).when(AT.refined(decision="continue")).then(
        phase="review"
    )


@pytest.mark.req("L-07")
def test_a_task_that_is_done_makes_way_for_the_next() -> None:
    given(requested(), planned(2), *step()).when(reviewed()).then(phase="select", place=(1, 2, 1, 1), actions=0)


@pytest.mark.req("L-07")
def test_a_task_that_failed_ends_the_round_as_failed() -> None:
    given(requested(), planned(2), *step()).when(reviewed(status="failed", reason="Not found.")).then(
        phase="closing", ending="failed", reason="Not found."
    )


@pytest.mark.req("L-10")
@pytest.mark.parametrize("end", [completed(), CANCELLED])
def test_a_round_ends_only_as_it_came_to_end(end: WorkflowEvent) -> None:
    given(requested(), planned(), *step(), reviewed(status="failed", reason="x")).when(end).then_superseded()


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.req("L-02")
def test_a_refused_selection_is_tried_once_more_and_shows_why() -> None:
    given(*PLANNED).when(AT.selection_rejected()).then(phase="select", try_=2, refusals=(AT.selection_rejected(),))


@pytest.mark.req("L-02")
def test_a_second_refusal_sends_the_task_to_review() -> None:
    story = given(*PLANNED, AT.selection_rejected()).when(AT.selection_rejected(2))
    story.then(phase="review", turn="reviewer", refused=AT.selection_rejected(2))


@pytest.mark.req("L-02")
def test_a_refusal_with_another_try_than_the_one_awaited_has_no_effect() -> None:
    given(*PLANNED).when(AT.selection_rejected(2)).then_superseded()
    given(*PLANNED, AT.selection_rejected()).when(AT.selection_rejected(1)).then_superseded()


@pytest.mark.req("L-02")
def test_a_good_selection_forgets_the_refusals_of_the_bad_one() -> None:
    given(*PLANNED, AT.selection_rejected()).when(AT.selected()).then(try_=1, refusals=())


@pytest.mark.req("P-04")
def test_refused_parameters_are_tried_once_more_and_then_reviewed() -> None:
    story = given(*SELECTED).when(AT.parameters_rejected()).then(phase="parameterize", try_=2)
    story.when(AT.parameters_rejected(2)).then(phase="review", refused=AT.parameters_rejected(2))


@pytest.mark.req("L-07")
def test_the_next_attempt_forgets_that_the_last_one_was_refused() -> None:
    story = given(*PLANNED, AT.selection_rejected(), AT.selection_rejected(2))
    story.when(reviewed(status="retry")).then(phase="select", refused=None, place=(1, 1, 2, 1), try_=1)


# --- retries: one counter for L-05 and L-07 --------------------------------------------------------

RETRY = {"decision": "continue", "classification": "retry"}


@pytest.mark.req("L-05")
def test_a_retry_within_the_attempt_is_counted() -> None:
    given(*OBSERVED).when(AT.refined(**RETRY)).then(phase="select", place=(1, 1, 1, 2), retries=1)


@pytest.mark.req("L-07")
def test_a_retry_as_a_new_attempt_is_counted() -> None:
    given(*REFINED).when(reviewed(status="retry", improvements=("Read page 2.",))).then(
        phase="select", place=(1, 1, 2, 1), retries=1, improvements=("Read page 2.",)
    )


@pytest.mark.req("L-07")
def test_both_kinds_of_retry_share_one_limit() -> None:
    story = given(requested(max_retries=2), planned(), *step()[:-1], AT.refined(**RETRY), *step(2))
    story.when(reviewed(status="retry")).then(place=(1, 1, 2, 1), retries=2)
    story.given(*step(1, attempt=2)).when(reviewed(attempt=2, status="retry")).then(
        phase="closing", ending="failed", retries=2
    )


@pytest.mark.req("L-05")
def test_a_retry_beyond_the_limit_goes_to_review_and_is_not_counted() -> None:
    story = given(requested(max_retries=1), planned(), *step()[:-1], AT.refined(**RETRY), *step(2)[:-1])
    story.when(At(2).refined(**RETRY)).then(phase="review", retries=1)


@pytest.mark.req("L-05")
def test_a_retry_without_steps_left_does_not_use_up_the_attempts() -> None:
    story = given(requested(max_steps=1, max_retries=1), planned(), *step()[:-1]).when(AT.refined(**RETRY))
    story.then(phase="review", retries=0)
    story.when(reviewed(status="retry")).then(phase="select", place=(1, 1, 2, 1), retries=1)


def test_a_decision_to_stop_is_no_retry() -> None:
    given(*OBSERVED).when(AT.refined(classification="retry")).then(phase="review", retries=0)


@pytest.mark.req("L-07")
def test_without_retries_a_retry_is_a_failure() -> None:
    given(requested(max_retries=0), planned(), *step()).when(reviewed(status="retry")).then(
        phase="closing", ending="failed"
    )


@pytest.mark.req("L-07")
def test_progress_is_kept_across_steps_and_attempts() -> None:
    half = (CriterionProgress(criterion="The total is named", met=False, progress=500),)
    story = given(*OBSERVED).when(AT.refined(decision="continue").model_copy(update={"criteria_progress": half}))
    story.then(progress=half)
    story.given(*step(2)[:-1]).when(At(2).refined().model_copy(update={"criteria_progress": ()})).then(progress=half)
    story.when(reviewed(status="retry")).then(place=(1, 1, 2, 1), progress=half)


# --- claims ----------------------------------------------------------------------------------------


@pytest.mark.req("E-08")
def test_another_worker_takes_over_with_the_next_try() -> None:
    story = given(*STARTED).when(AT.started(2, claim="other", worker="w2"))
    story.then(phase="started")
    assert [start.claim for start in story.workflow.step.starts] == ["claim", "other"]


@pytest.mark.req("E-08")
@pytest.mark.parametrize("try_", [1, 3])
def test_a_claim_with_any_other_try_has_no_effect(try_: int) -> None:
    given(*STARTED).when(AT.started(try_)).then_superseded()


@pytest.mark.req("E-08")
def test_two_workers_that_claim_the_same_step_have_one_winner() -> None:
    story = given(*READY)
    head = story.workflow.head
    story.when(AT.started(claim="first"), cause=head).then(phase="started")
    story.when(AT.started(claim="second"), cause=head).then_superseded()


@pytest.mark.req("E-08")
@pytest.mark.parametrize("try_", [1, 2])
def test_the_end_of_any_started_try_is_accepted_and_the_first_wins(try_: int) -> None:
    story = given(*STARTED, AT.started(2)).when(AT.done(try_)).then(phase="observe")
    story.when(AT.done(3 - try_)).then_superseded()


@pytest.mark.req("E-08")
def test_an_end_must_name_its_own_start() -> None:
    story = given(*STARTED, AT.started(2))
    story.when(AT.done(1), cause=story.workflow.head).then_superseded()
    story.when(AT.done(1), cause=None).then_superseded()


@pytest.mark.req("E-08")
def test_an_end_without_a_start_has_no_effect() -> None:
    given(*READY).when(AT.done()).then_superseded()
    given(*STARTED).when(AT.done(2)).then_superseded()


@pytest.mark.req("E-08")
@pytest.mark.parametrize("outcome", ["failed", "denied", "not_begun", "crashed", "unknown", "cancelled"])
def test_an_action_that_failed_is_observed_like_any_other(outcome: str) -> None:
    given(*STARTED).when(AT.done(success=False, outcome=outcome, documents=())).then(phase="observe")


# --- cancelling, deadlines, failing stages ---------------------------------------------------------

OPEN_PHASES = {
    "plan": (requested(),),
    "select": PLANNED,
    "parameterize": SELECTED,
    "ready": READY,
    "approve": ASKED,
    "observe": DONE,
    "refine": OBSERVED,
    "review": REFINED,
}


@pytest.mark.req("E-16")
@pytest.mark.parametrize("before", OPEN_PHASES.values(), ids=OPEN_PHASES)
@pytest.mark.parametrize(("stop", "ending"), [(cancellation(), "cancelled"), (DEADLINE, "failed")])
def test_a_round_can_be_stopped_in_every_phase(
    before: tuple[WorkflowEvent, ...], stop: WorkflowEvent, ending: str
) -> None:
    given(*before).when(stop).then(phase="closing", turn="reviewer", ending=ending)


@pytest.mark.req("E-03")
@pytest.mark.parametrize(("stop", "end"), [(cancellation(), CANCELLED), (DEADLINE, FAILED)])
def test_a_started_action_drains_after_the_stop(stop: WorkflowEvent, end: WorkflowEvent) -> None:
    story = given(*STARTED).when(stop).then(phase="draining", turn="executor")
    story.when(AT.started(2)).then_superseded()
    story.when(end).then_superseded()
    story.when(AT.done()).then(phase="closing", turn="reviewer")
    story.when(AT.observed()).then_superseded()
    story.when(end).then(phase="ended")


@pytest.mark.req("E-03")
def test_a_round_is_stopped_once() -> None:
    given(*STARTED, cancellation()).when(DEADLINE).then_superseded()
    given(*PLANNED, DEADLINE).when(cancellation()).then_superseded()
    given(*REVIEWED).when(cancellation()).then_superseded()


@pytest.mark.req("E-15")
def test_a_cancellation_hits_only_the_round_that_it_names() -> None:
    given(*ENDED).when(cancellation(1)).then_superseded()
    given(*ENDED, follow_up()).when(cancellation(1)).then_superseded()
    given(*ENDED, follow_up()).when(cancellation(2)).then(phase="closing")


@pytest.mark.req("L-10")
@pytest.mark.parametrize(
    ("before", "stage"),
    [
        (PLANNED, "select"),
        (SELECTED, "parameterize"),
        (DONE, "observe"),
        (OBSERVED, "refine"),
        (REFINED, "review"),
    ],
)
def test_a_stage_that_cannot_be_done_ends_the_round(before: tuple[WorkflowEvent, ...], stage: str) -> None:
    given(*before).when(AT.failed(stage)).then(phase="closing", ending="failed", reason="The model does not answer.")


@pytest.mark.req("L-10")
def test_planning_that_cannot_be_done_ends_the_round() -> None:
    failed = AT.failed("plan").model_copy(update={"task": 0, "attempt": 0, "step": 0})
    given(requested()).when(failed).then(phase="closing", ending="failed")


@pytest.mark.req("E-03")
@pytest.mark.parametrize("failed", [AT.failed("refine"), At(2).failed("select"), At(task=2).failed("select")])
def test_another_stage_cannot_fail(failed: WorkflowEvent) -> None:
    given(*PLANNED).when(failed).then_superseded()


@pytest.mark.req("E-16")
def test_what_is_due_is_counted_in_broker_time() -> None:
    opening = requested(deadline_ms=60_000, stage_timeout_ms=5_000)
    story = given(opening).then(due={"round": ("reviewer", 60_000), "stage": ("planner", 5_000)})
    story.given(planned()).then(due={"round": ("reviewer", 60_000), "stage": ("selector", 6_000)})
    story.given(AT.selected(), AT.parameters()).then(due={"round": ("reviewer", 60_000)})
    story.given(AT.approval_requested(expires_ms=7_000)).then(due={"approval": ("executor", 11_000)})
    story.given(AT.approval_granted(), AT.started(deadline_ms=9_000)).then(
        due={"round": ("reviewer", 61_000), "claim": ("executor", 15_000)}
    )
    story.given(DEADLINE).then(due={"claim": ("executor", 15_000)})
    story.given(AT.done()).then(due={})


# --- Actionplan mode -------------------------------------------------------------------------------

PLAN = (requested(workflow_mode="Actionplan"), planned())


def taken(number: int, **observed: object) -> list[WorkflowEvent]:
    """A step of a plan: it has no refinement."""
    return [*step(number)[:-2], At(number).observed(**observed)]


@pytest.mark.req("A-01")
def test_a_plan_is_made_for_the_whole_task_and_its_actions_follow_one_another() -> None:
    story = given(requested(workflow_mode="Actionplan")).when(planned()).then(phase="plan_actions", turn="planner")
    story.when(AT.actions_planned(2)).then(phase="select", turn="selector", place=(1, 1, 1, 1))
    story.given(*taken(1)).then(phase="select", place=(1, 1, 1, 2))
    story.given(*taken(2)).then(phase="review", turn="reviewer")


@pytest.mark.req("A-03")
def test_an_action_of_a_plan_that_fails_leads_to_review_and_a_retry_plans_again() -> None:
    failed = Observation(success=False, result_label="label", documents_count=0)
    story = given(*PLAN, AT.actions_planned(2), *taken(1, observation=failed)).then(phase="review")
    story.when(reviewed(status="retry")).then(phase="plan_actions", place=(1, 1, 2, 1), planned=())
    story.when(At(attempt=2).actions_planned(1)).then(phase="select")


@pytest.mark.req("A-02")
def test_a_plan_is_no_part_of_react_mode() -> None:
    given(*PLANNED).when(AT.actions_planned()).then_superseded()


def test_a_refinement_is_no_part_of_a_plan() -> None:
    given(*PLAN, AT.actions_planned(2), *taken(1)).when(AT.refined()).then_superseded()


@pytest.mark.req("M-05")
def test_a_request_that_names_no_mode_and_no_limit_is_done_in_react_mode_with_five_steps() -> None:
    assert task_context(given(*PLANNED).workflow) == TaskContext(react_mode=True, max_steps=5)


@pytest.mark.req("M-05")
def test_a_task_has_the_mode_of_its_round_and_no_more_steps_than_either_allows() -> None:
    asked = requested(workflow_mode="Actionplan", max_steps=3)
    assert task_context(given(asked, planned(max_steps=1)).workflow) == TaskContext(react_mode=False, max_steps=1)
    assert task_context(given(asked, planned(max_steps=9)).workflow) == TaskContext(react_mode=False, max_steps=3)


@pytest.mark.req("M-05")
def test_a_follow_up_may_be_in_another_mode() -> None:
    story = given(*ENDED, follow_up(workflow_mode="Actionplan"), planned(round_number=2))
    story.then(phase="plan_actions", turn="planner")
    assert not task_context(story.workflow).react_mode


# --- rounds ----------------------------------------------------------------------------------------


@pytest.mark.req("M-07")
def test_a_round_follows_the_one_before() -> None:
    story = given(*ENDED).when(follow_up()).then(phase="plan", place=(2, 0, 0, 0), openings=(0, 10))
    story.given(planned(round_number=2), *step(round_number=2), reviewed(round_number=2))
    story.when(completed(2)).then(phase="ended")


@pytest.mark.req("E-03")
@pytest.mark.parametrize("number", [1, 3])
def test_rounds_are_opened_in_order(number: int) -> None:
    given(*ENDED).when(follow_up(number)).then_superseded()


@pytest.mark.req("E-03")
def test_a_round_is_not_opened_while_one_is_open() -> None:
    given(*PLANNED).when(follow_up(2)).then_superseded()
    given(*PLANNED).when(requested("other")).then_superseded()
    given(*ENDED).when(requested()).then_superseded()


@pytest.mark.req("E-03")
def test_a_workflow_begins_with_its_first_round() -> None:
    given().when(follow_up(2)).then_superseded()
    given().when(follow_up(1)).then_superseded()
    given().when(requested().model_copy(update={"round": 2})).then_superseded()
    given().when(AT.selected()).then_superseded()


@pytest.mark.req("E-15")
@pytest.mark.parametrize("before", [(), PLANNED, STARTED, REVIEWED, ENDED])
def test_a_refusal_and_an_export_are_accepted_in_every_state_and_change_none(before: tuple[WorkflowEvent, ...]) -> None:
    given(*before).when(refused()).then_nothing_changed().when(exported()).then_nothing_changed().then()


@pytest.mark.req("E-03")
def test_every_record_is_counted_whatever_the_verdict() -> None:
    story = given(*PLANNED).when(AT.done()).when(AT.selected())
    story.then(seq=4, last=3)
