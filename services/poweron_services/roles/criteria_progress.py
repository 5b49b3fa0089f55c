"""The progress of a task's criteria, which the refiner and the reviewer both read and update."""

from collections.abc import Sequence

from poweron_events.event import CriterionProgress
from poweron_events.fold.state import Workflow


def progress(workflow: Workflow) -> tuple[CriterionProgress, ...]:
    """How far the task's criteria are met so far."""
    known = {criterion.criterion: criterion for criterion in workflow.task.progress}
    return tuple(
        known.get(criterion) or CriterionProgress(criterion=criterion, met=False)
        for criterion in workflow.task.plan.success_criteria
    )


def updated_progress(workflow: Workflow, answered: Sequence[CriterionProgress]) -> tuple[CriterionProgress, ...]:
    """The task's criteria, updated by the answer, which cannot add or rename criteria."""
    by_name = {criterion.criterion: criterion for criterion in answered}
    return tuple(by_name.get(criterion.criterion, criterion) for criterion in progress(workflow))
