"""Planning: the tasks of the round, and in Actionplan mode their actions."""

from pydantic import Field

from poweron_events.event import (
    ActionName,
    FailedCallsByCode,
    FreeText,
    JsonValues,
    Model,
    ModelCall,
    Number,
    RoundEvent,
    TaskEvent,
)
from poweron_events.request import MAX_STEPS, TaskType

MAX_TASKS = 10
MAX_CRITERIA = 10


class TaskPlan(Model):
    """One task: its goal, and the criteria of its success."""

    objective: FreeText = Field(min_length=1, max_length=2_000)
    success_criteria: tuple[FreeText, ...] = Field(min_length=1, max_length=MAX_CRITERIA)
    task_type: TaskType
    expected_formats: tuple[str, ...] = ()
    max_steps: Number | None = None
    """The most steps for this task, if fewer than the round allows (1 for the formatting task)."""


class TasksPlanned(RoundEvent):
    """The planner divided the request into tasks."""

    tasks: tuple[TaskPlan, ...] = Field(min_length=1, max_length=MAX_TASKS)
    model_call: ModelCall
    failed_calls: FailedCallsByCode = ()


class PlannedAction(Model):
    """One action of a whole plan, with its references and parameters (Actionplan mode, deprecated)."""

    action: ActionName
    action_objective: FreeText
    learnings: tuple[FreeText, ...] = ()
    required_input_documents: tuple[FreeText, ...] = ()
    required_connection: str | None = None
    parameters: JsonValues = {}


class ActionsPlanned(TaskEvent):
    """The planner listed all actions of a task at once (Actionplan mode, deprecated)."""

    actions: tuple[PlannedAction, ...] = Field(min_length=1, max_length=MAX_STEPS)
    model_call: ModelCall
    failed_calls: FailedCallsByCode = ()
