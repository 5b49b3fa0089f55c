"""The rules that decide, in code, whether the loop goes on; no model can bend them."""

from dataclasses import dataclass

from poweron_events.event import CriterionProgress
from poweron_events.fold.state import Workflow
from poweron_events.observation import Observation


@dataclass(frozen=True, slots=True)
class Review:
    """What is known when the loop may go on: all of it comes from the fold, nothing from a clock."""

    progress: tuple[CriterionProgress, ...] = ()
    can_improve: bool = True  # whether a further action could improve the result, as the refinement says
    budget_left: bool = True
    cancelled: bool = False
    deadline_passed: bool = False


def all_met(progress: tuple[CriterionProgress, ...]) -> bool:
    """Whether every criterion is met; not true of no criteria at all."""
    return bool(progress) and all(criterion.met for criterion in progress)


def why_stop(observation: Observation, review: Review, current_step: int, max_steps: int) -> str | None:
    """The reason to stop, as a sentence; None to go on. Steps count from 1."""
    reasons = (
        (review.cancelled, "The round was cancelled."),
        (review.deadline_passed, "The time for this round is over."),
        (not review.budget_left, "The budget is used up."),
        (observation.success and all_met(review.progress), "All success criteria are met."),
        (not review.can_improve, "No further action can improve the result."),
        (current_step >= max_steps, f"The limit of {max_steps} steps is reached."),
    )
    return next((reason for holds, reason in reasons if holds), None)


def should_continue(observation: Observation, review: Review, current_step: int, max_steps: int) -> bool:
    """Whether another step follows: the only place that decides it (L-06)."""
    return why_stop(observation, review, current_step, max_steps) is None


def budget_left(workflow: Workflow) -> bool:
    """Whether the round's accepted events have left something of its budgets (B-02)."""
    budgets, totals = workflow.current.opening.budgets, workflow.current.totals
    task_tokens = workflow.current.task.tokens if workflow.current.task else 0
    spent = (
        (budgets.task_tokens, task_tokens),
        (budgets.workflow_tokens, totals.input_tokens + totals.output_tokens),
        (budgets.workflow_cost_nano_usd, totals.cost_nano_usd),
    )
    return all(limit is None or used < limit for limit, used in spent)
