"""The rules in code: whether the loop goes on."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import CALL, At, Told, completed, follow_up, planned, refused, requested, reviewed, step
from poweron_events.event import CriterionProgress
from poweron_events.request import EarlierRounds, Spent
from poweron_events.step_events import Observation
from poweron_services.decider.rules import (
    STOPS_EVERY_ATTEMPT,
    BudgetUsedUp,
    Review,
    Stop,
    allowance,
    retries_used_up,
    should_continue,
    used_up,
    why_stop,
)


def sentence(stop: Stop | None) -> str | None:
    return stop.sentence if stop else None


SEEN = Observation(success=True, result_label="label", documents_count=1)
limits = st.none() | st.integers(0, 2_000)
MET, UNMET = (CriterionProgress(criterion=name, met=name == "met") for name in ("met", "unmet"))


@pytest.mark.req("L-06")
@pytest.mark.parametrize(
    ("review", "step", "reason", "code"),
    [
        (Review((UNMET,)), 1, None, None),
        (Review(()), 1, None, None),
        (Review((MET,)), 1, "All success criteria are met.", "criteria_met"),
        (Review((MET, UNMET)), 1, None, None),
        (Review((UNMET,), can_improve=False), 1, "No further action can improve the result.", "no_improvement"),
        (Review((UNMET,)), 5, "The limit of 5 steps is reached.", "step_limit"),
        (Review((UNMET,)), 4, None, None),
        (Review((UNMET,), used_up=Stop("token_budget", "It is used up.")), 1, "It is used up.", "token_budget"),
        (Review((UNMET,), cancelled=True), 1, "The round was cancelled.", "cancelled"),
        (Review((UNMET,), deadline_passed=True), 1, "The time for this round is over.", "deadline"),
        (Review((MET,), cancelled=True), 5, "The round was cancelled.", "cancelled"),
    ],
)
def test_the_loop_goes_on_unless_something_stops_it(
    review: Review, step: int, reason: str | None, code: str | None
) -> None:
    assert why_stop(SEEN, review, step, 5) == (None if reason is None else (code, reason))
    assert should_continue(SEEN, review, step, 5) is (reason is None)


@pytest.mark.parametrize(
    ("review", "every"),
    [
        (Review(cancelled=True), True),
        (Review(deadline_passed=True), True),
        (Review(can_improve=False), False),
        (Review((MET,)), False),
        (Review(), False),
    ],
)
def test_what_would_stop_another_attempt_too_is_known_by_its_code(review: Review, every: bool) -> None:
    stop = why_stop(SEEN, review, 5, 5)
    assert stop is not None
    assert (stop.code in STOPS_EVERY_ATTEMPT) is every


@pytest.mark.parametrize("budgets", [{"workflow_tokens": 0}, {"task_tokens": 120}, {"workflow_retries": 0}])
def test_a_used_up_budget_stops_every_attempt(budgets: Any) -> None:
    workflow = Told().tell(requested(budgets=budgets), planned(), *step()).workflow
    stop = used_up(workflow) or retries_used_up(workflow)
    assert stop is not None
    assert stop.code in STOPS_EVERY_ATTEMPT


@pytest.mark.req("L-06")
def test_criteria_do_not_count_as_met_by_a_step_that_failed() -> None:
    failed = SEEN.model_copy(update={"success": False})
    assert should_continue(failed, Review((MET,)), 1, 5)


@pytest.mark.req("B-02")
@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        ({}, None),
        ({"workflow_tokens": 240}, "The workflow's budget of 240 tokens is used up: 240 tokens."),
        ({"workflow_tokens": 241}, None),
        ({"task_tokens": 120}, "The task's budget of 120 tokens is used up: 120 tokens."),
        ({"task_tokens": 121}, None),
        ({"workflow_tokens": 1}, "The workflow's budget of 1 token is used up: 240 tokens."),
        ({"workflow_cost_nano_usd": 0}, "Nothing may be used: the workflow's budget is $0."),
        ({"workflow_cost_nano_usd": 6_000}, "The workflow's budget of $0.000006 is used up: $0.000006."),
        ({"task_cost_nano_usd": 2_000}, "The task's budget of $0.000002 is used up: $0.000003."),
        ({"task_duration_ms": 1}, "The task's budget of 0.001 s is used up: 0.001 s."),
        ({"task_duration_ms": 2}, None),
        ({"workflow_steps": 1}, None),
        ({"round_tokens": 240}, "The round's budget of 240 tokens is used up: 240 tokens."),
        ({"round_tokens": 241}, None),
        ({"round_cost_nano_usd": 6_000}, "The round's budget of $0.000006 is used up: $0.000006."),
        ({"round_tokens": 0, "round_cost_nano_usd": 0}, "Nothing may be used: the round's budget is 0 tokens."),
    ],
)
def test_budgets_count_every_accepted_call(budgets: Any, said: str | None) -> None:
    told = Told().tell(requested(budgets=budgets), planned(), At().selection_rejected())
    assert CALL.input_tokens + CALL.output_tokens == 120
    assert sentence(used_up(told.workflow)) == said


@pytest.mark.req("S41")
def test_the_time_that_a_person_took_is_none_of_the_tasks() -> None:
    waiting = (requested(budgets={"task_duration_ms": 4}), planned(), At().selected(), At().parameters())
    told = Told().tell(*waiting, At().approval_requested())
    for _ in range(10):
        told.tell(refused())
    told.tell(At().approval_granted())
    assert used_up(told.workflow) is None
    told.tell(At().started())
    assert sentence(used_up(told.workflow)) == "The task's budget of 0.004 s is used up: 0.004 s."


@pytest.mark.req("B-02")
def test_a_call_that_no_event_tells_of_yet_counts_too() -> None:
    told = Told().tell(requested(budgets={"workflow_tokens": 360}), planned())
    left = allowance(told.workflow, [CALL])
    assert used_up(told.workflow, [CALL]) is None
    assert left is not None
    assert [budget.left for budget in left.budgets] == [120]
    assert (
        sentence(used_up(told.workflow, [CALL, CALL])) == "The workflow's budget of 360 tokens is used up: 360 tokens."
    )


def cost(prompt: int, answer: int) -> int:
    """A token of an answer costs three times as much as one of a prompt."""
    return 1_000 * prompt + 3_000 * answer


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize(
    ("budgets", "longest"),
    [
        ({"workflow_tokens": 100_000}, 16_000),
        ({"workflow_tokens": 2_000}, 1_000),
        ({"workflow_tokens": 2_000, "task_tokens": 1_500}, 500),
        ({"workflow_cost_nano_usd": 100_000_000}, 16_000),
        ({"workflow_cost_nano_usd": 4_000_000}, 1_000),
        ({"workflow_cost_nano_usd": 4_002_999}, 1_000),
        ({"workflow_cost_nano_usd": 4_003_000}, 1_001),
        ({"task_cost_nano_usd": 2_500_000, "workflow_tokens": 2_000}, 500),
        ({"workflow_tokens": 1_200}, 200),
    ],
)
def test_an_answer_is_as_long_as_each_budget_leaves_beside_its_prompt(budgets: Any, longest: int) -> None:
    left = allowance(Told().tell(requested(budgets=budgets)).workflow)
    assert left is not None
    assert left.longest_answer(1_000, 16_000, cost) == longest


@pytest.mark.parametrize("budgets", [{}, {"workflow_steps": 1}, {"task_duration_ms": 1_000}])
def test_what_limits_no_tokens_and_no_money_limits_no_call(budgets: Any) -> None:
    assert allowance(Told().tell(requested(budgets=budgets)).workflow) is None


@pytest.mark.req("S41")
@pytest.mark.parametrize(
    ("budgets", "most", "said"),
    [
        (
            {"workflow_tokens": 1_199},
            16_000,
            "The workflow's budget of 1,199 tokens leaves 1,199 tokens, and the next call may take 1,200 tokens.",
        ),
        (
            {"task_cost_nano_usd": 1_599_999},
            16_000,
            "The task's budget of $0.0016 leaves $0.0016, and the next call may take $0.0016.",
        ),
        (
            {"task_tokens": 1_004},
            5,
            "The task's budget of 1,004 tokens leaves 1,004 tokens, and the next call may take 1,005 tokens.",
        ),
    ],
)
def test_where_no_answer_of_use_fits_the_budget_is_used_up(budgets: Any, most: int, said: str) -> None:
    left = allowance(Told().tell(requested(budgets=budgets)).workflow)
    assert left is not None
    with pytest.raises(BudgetUsedUp) as raised:
        left.longest_answer(1_000, most, cost)
    assert str(raised.value) == said


def test_where_there_is_no_budget_nothing_is_added_up() -> None:
    assert allowance(Told().tell(requested()).workflow) is None


@pytest.mark.req("S41")
def test_a_budget_of_steps_ends_steps_and_not_the_calls_of_the_last_one() -> None:
    told = Told().tell(requested(budgets={"workflow_steps": 1}), planned(), At().selected())
    assert used_up(told.workflow) is None
    assert sentence(used_up(told.workflow, for_a_step=True)) == "The workflow's budget of 1 step is used up: 1 step."


@pytest.mark.req("S41")
def test_retries_count_over_all_tasks() -> None:
    told = Told().tell(requested(budgets={"workflow_retries": 1}), planned(2), *step(decision="stop"))
    assert retries_used_up(told.workflow) is None
    told.tell(reviewed(status="retry"), *step(attempt=2), reviewed(attempt=2), *step(task=2))
    assert (told.workflow.task.number, told.workflow.task.retries) == (2, 0)
    assert sentence(retries_used_up(told.workflow)) == "The workflow's budget of 1 retry is used up: 1 retry."


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        ({"workflow_tokens": 480}, "The workflow's budget of 480 tokens is used up: 480 tokens."),
        ({"workflow_tokens": 481}, None),
        ({"workflow_cost_nano_usd": 12_000}, "The workflow's budget of $0.000012 is used up: $0.000012."),
        ({"workflow_steps": 2}, "The workflow's budget of 2 steps is used up: 2 steps."),
        ({"task_tokens": 130}, None),
        ({"round_tokens": 240}, "The round's budget of 240 tokens is used up: 240 tokens."),
        ({"round_tokens": 241, "round_cost_nano_usd": 6_001}, None),
        ({"round_tokens": 241, "workflow_tokens": 480}, "The workflow's budget of 480 tokens is used up: 480 tokens."),
    ],
)
def test_the_rounds_before_count_for_the_workflow_and_not_for_the_round_or_the_task(
    budgets: Any, said: str | None
) -> None:
    spent = Spent(steps=2, retries=1, input_tokens=200, output_tokens=40, cost_nano_usd=6_000)
    told = Told().tell(requested(), planned(), *step(), reviewed(), completed())
    told.tell(follow_up(budgets=budgets, earlier=EarlierRounds(last_round=1, spent=spent)), planned(round_number=2))
    told.tell(At(round_number=2).selection_rejected())
    assert sentence(used_up(told.workflow, for_a_step=True)) == said


@pytest.mark.req("B-02")
@settings(max_examples=50)
@given(limits, limits, limits, st.integers(0, 1_000))
def test_the_next_call_may_use_what_the_tightest_of_all_budgets_leaves(
    task: int | None, round_: int | None, workflow: int | None, before: int
) -> None:
    """Of a task 120 tokens are used, of its round 240, of the workflow also those of the rounds before."""
    earlier = EarlierRounds(last_round=1, spent=Spent(input_tokens=before))
    budgets = {"task_tokens": task, "round_tokens": round_, "workflow_tokens": workflow}
    told = Told().tell(requested(), planned(), *step(), reviewed(), completed())
    told.tell(follow_up(budgets=budgets, earlier=earlier), planned(round_number=2))
    told.tell(At(round_number=2).selection_rejected())
    left = [limit - used for limit, used in ((task, 120), (round_, 240), (workflow, 240 + before)) if limit is not None]
    allowed = allowance(told.workflow)
    assert (
        [budget.left for budget in allowed.budgets if budget.code == "token_budget"] == left[::-1]
        if allowed
        else not left
    )
    assert (used_up(told.workflow) is None) is all(each > 0 for each in left)
