"""The tasks of a round as rows: planned together, then worked on one after another."""

from typing import NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.fold.state import Workflow
from poweron_events.outcome import TaskReviewed
from poweron_events.planning import TasksPlanned
from poweron_events.refinement import RefinementDecided
from poweron_projections.table import Json, Table, Uuid, json, text


class TaskRow(NamedTuple):
    """One task: planned, running, then success, failed or stopped."""

    workflow_id: Uuid
    round: int
    task: int
    objective: str
    task_type: str
    success_criteria: Json
    status: str
    attempts: int
    retries: int
    actions: int
    tokens: int
    criteria_progress: Json
    reason: str
    started_ms: int | None
    ended_ms: int | None


TASKS = Table("tasks", TaskRow, key=("workflow_id", "round", "task"), keeps="newest")


def task_rows(row: TaskRow | None, recorded: Recorded, after: Workflow) -> list[TaskRow]:
    """What an accepted event of the round changes; the task at hand comes last."""
    task = after.current.task
    if task is None:
        return []
    if isinstance(recorded.envelope.event, TasksPlanned):
        rows = [_planned(after, place) for place in range(1, len(after.current.tasks) + 1)]
        return [*rows[1:], _begun(rows[0], recorded)]
    assert row is not None
    if row.task != task.number:
        return [_ended(row, recorded, after), _begun(_planned(after, task.number), recorded)]
    stopped = after.phase in ("closing", "draining") and row.ended_ms is None
    return [_counted(_ended(row, recorded, after) if stopped else row, recorded, after)]


def _planned(workflow: Workflow, place: int) -> TaskRow:
    plan = workflow.current.tasks[place - 1]
    return TaskRow(
        workflow_id=workflow.id,
        round=workflow.current.number,
        task=place,
        objective=text(plan.objective),
        task_type=plan.task_type,
        success_criteria=json(plan.success_criteria),
        status="planned",
        attempts=0,
        retries=0,
        actions=0,
        tokens=0,
        criteria_progress="[]",
        reason="",
        started_ms=None,
        ended_ms=None,
    )


def _begun(row: TaskRow, recorded: Recorded) -> TaskRow:
    return row._replace(status="running", attempts=1, started_ms=recorded.time_ms)


def _ended(row: TaskRow, recorded: Recorded, after: Workflow) -> TaskRow:
    """The task's end: by its review, or because its round was stopped."""
    event = recorded.envelope.event
    if not isinstance(event, TaskReviewed):
        return row._replace(status="stopped", reason=text(after.current.reason), ended_ms=recorded.time_ms)
    return row._replace(
        status="success" if event.status == "success" else "failed",
        criteria_progress=json(event.criteria_progress) if event.criteria_progress else row.criteria_progress,
        reason=text(event.reason),
        ended_ms=recorded.time_ms,
    )


def _counted(row: TaskRow, recorded: Recorded, after: Workflow) -> TaskRow:
    task = after.task
    judged = isinstance(recorded.envelope.event, RefinementDecided | TaskReviewed)
    return row._replace(
        attempts=task.attempt,
        retries=task.retries,
        actions=task.actions,
        tokens=task.tokens,
        criteria_progress=json(task.progress) if judged else row.criteria_progress,
    )
