"""The tasks of a round as rows: planned together, then worked on one after another."""

from typing import NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.fold.costs import added_by, reported
from poweron_events.fold.state import Workflow
from poweron_events.round_events import TaskReviewed
from poweron_projections.table_spec import Json, Table, Uuid, json, text


class TaskRow(NamedTuple):
    """One task: planned, running, then success, failed or stopped."""

    workflow_id: Uuid
    round: int
    task: int
    objective: str
    task_type: str
    success_criteria: Json
    status: str = "planned"
    attempts: int = 0
    retries: int = 0
    actions: int = 0
    tokens: int = 0
    criteria_progress: Json = "[]"
    reason: str = ""
    stopped_by: str | None = None
    started_ms: int | None = None
    ended_ms: int | None = None


class TaskCourse(NamedTuple):
    """When the current task began, and how it ended."""

    number: int
    started_ms: int
    status: str = "running"
    reason: str = ""
    stopped_by: str | None = None
    ended_ms: int | None = None


TASKS = Table("tasks", TaskRow, key=("workflow_id", "round", "task"), keeps="newest")


def task_course(
    course: TaskCourse | None, before: Workflow, recorded: Recorded, after: Workflow
) -> tuple[TaskCourse | None, list[TaskRow]]:
    """Return the course of the current task after an accepted event of the round, and other tasks that it changed."""
    task = after.current.task
    if task is None:
        return None, []
    if course is None:
        return TaskCourse(task.number, recorded.time_ms), [
            _planned(after, place) for place in range(1, len(after.current.tasks) + 1)
        ]
    if course.number != task.number:
        return TaskCourse(task.number, recorded.time_ms), [_reviewed(course, before, recorded, after)]
    if course.ended_ms is None and after.phase in ("closing", "draining"):
        return _ended(course, recorded, after), []
    return course, []


def _reviewed(course: TaskCourse, before: Workflow, recorded: Recorded, after: Workflow) -> TaskRow:
    """Return the row of the task whose review let the next one begin."""
    row = task_row(before, _ended(course, recorded, after))
    event = recorded.envelope.event
    assert isinstance(event, TaskReviewed)
    progress = event.criteria_progress or before.task.progress
    added = added_by(before.current, reported(event))
    return row._replace(tokens=row.tokens + added.tokens, criteria_progress=json(progress))


def task_row(workflow: Workflow, course: TaskCourse) -> TaskRow:
    """Return the row of the current task."""
    task = workflow.task
    return _planned(workflow, task.number)._replace(
        status=course.status,
        attempts=task.attempt,
        retries=task.retries,
        actions=task.actions,
        tokens=task.used.tokens,
        criteria_progress=json(task.progress),
        reason=course.reason,
        stopped_by=course.stopped_by,
        started_ms=course.started_ms,
        ended_ms=course.ended_ms,
    )


def _planned(workflow: Workflow, place: int) -> TaskRow:
    plan = workflow.current.tasks[place - 1]
    return TaskRow(
        workflow_id=workflow.id,
        round=workflow.current.number,
        task=place,
        objective=text(plan.objective),
        task_type=plan.task_type,
        success_criteria=json(plan.success_criteria),
    )


def _ended(course: TaskCourse, recorded: Recorded, after: Workflow) -> TaskCourse:
    """End a task: by its review, or because its round was stopped."""
    event = recorded.envelope.event
    if not isinstance(event, TaskReviewed):
        stopped = course._replace(status="stopped", reason=text(after.current.reason), ended_ms=recorded.time_ms)
        return stopped._replace(stopped_by=after.current.code)
    status = "success" if event.status == "success" else "failed"
    return course._replace(status=status, reason=text(event.reason), stopped_by=event.code, ended_ms=recorded.time_ms)
