"""The rules in code: whether the loop goes on."""

from typing import Any

import pytest

from builders import CALL, At, Told, planned, requested
from poweron_events.event import CriterionProgress
from poweron_events.observation import Observation
from poweron_services.decider.rules import Review, budget_left, should_continue, why_stop

SEEN = Observation(success=True, result_label="label", documents_count=1)
MET, UNMET = (CriterionProgress(criterion=name, met=name == "met") for name in ("met", "unmet"))


@pytest.mark.req("L-06")
@pytest.mark.parametrize(
    ("review", "step", "reason"),
    [
        (Review((UNMET,)), 1, None),
        (Review(()), 1, None),
        (Review((MET,)), 1, "All success criteria are met."),
        (Review((MET, UNMET)), 1, None),
        (Review((UNMET,), can_improve=False), 1, "No further action can improve the result."),
        (Review((UNMET,)), 5, "The limit of 5 steps is reached."),
        (Review((UNMET,)), 4, None),
        (Review((UNMET,), budget_left=False), 1, "The budget is used up."),
        (Review((UNMET,), cancelled=True), 1, "The round was cancelled."),
        (Review((UNMET,), deadline_passed=True), 1, "The time for this round is over."),
        (Review((MET,), cancelled=True), 5, "The round was cancelled."),
    ],
)
def test_the_loop_goes_on_unless_something_stops_it(review: Review, step: int, reason: str | None) -> None:
    assert why_stop(SEEN, review, step, 5) == reason
    assert should_continue(SEEN, review, step, 5) is (reason is None)


@pytest.mark.req("L-06")
def test_criteria_do_not_count_as_met_by_a_step_that_failed() -> None:
    failed = SEEN.model_copy(update={"success": False})
    assert should_continue(failed, Review((MET,)), 1, 5)


@pytest.mark.req("B-02")
@pytest.mark.parametrize(
    ("budgets", "left"),
    [
        ({}, True),
        ({"workflow_tokens": 240}, False),
        ({"workflow_tokens": 241}, True),
        ({"task_tokens": 120}, False),
        ({"workflow_cost_nano_usd": 6_000}, False),
    ],
)
def test_budgets_count_every_accepted_call(budgets: Any, left: bool) -> None:
    told = Told().tell(requested(budgets=budgets), planned(), At().selection_rejected())
    assert CALL.input_tokens + CALL.output_tokens == 120
    assert budget_left(told.workflow) is left
