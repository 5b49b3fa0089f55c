"""What events cost: the calls of models that they tell of, counted towards the step, the task and the round."""

from typing import Any, Final

from poweron_events.event import AnyCall, Event, FailedCalls, ModelCall
from poweron_events.fold.state import Round, Task, Used
from poweron_events.outcome import Totals
from poweron_events.selection import ActionSelected
from poweron_events.stream import WorkflowEvent

NOTHING: Final = Used()


def model_calls(event: Event) -> tuple[ModelCall, ...]:
    """All calls that were answered and that an event tells of."""
    fields = event.__dict__  # quicker than asking for an attribute that most events do not have
    one: ModelCall | None = fields.get("model_call")
    return (one,) if one else fields.get("model_calls", ())


def failed_calls(event: Event) -> tuple[FailedCalls, ...]:
    """All calls that failed and that an event tells of, by their codes."""
    failed: tuple[FailedCalls, ...] = event.__dict__.get("failed_calls", ())
    return failed


def used_by(event: Event) -> Used:
    """What all calls used that an event tells of."""
    calls: tuple[AnyCall, ...] = (*model_calls(event), *failed_calls(event))
    return Used.by(calls) if calls else NOTHING


def charges(round_: Round, event: WorkflowEvent) -> dict[str, Any]:
    """What an accepted event changes in the round: its totals and its task, where it tells of calls or of a step."""
    used = used_by(event)
    selected = isinstance(event, ActionSelected)
    if not any(used) and not selected:
        return {}
    totals = charged(round_.totals, used, steps=int(selected))
    return {"totals": totals, "task": _task_charged(round_.task, event, used)}


def charged(totals: Totals, used: Used, steps: int = 0) -> Totals:
    """What a round used, with what model calls used and steps that were selected."""
    return Totals(
        steps=totals.steps + steps,
        input_tokens=totals.input_tokens + used.input_tokens,
        output_tokens=totals.output_tokens + used.output_tokens,
        cost_nano_usd=totals.cost_nano_usd + used.cost_nano_usd,
    )


def _task_charged(task: Task | None, event: WorkflowEvent, used: Used) -> Task | None:
    """The task at hand, and the step if it still is the event's, with what the event cost."""
    fields = event.__dict__
    if task is None or fields.get("task") != task.number:
        return task
    step = task.step
    if (fields["attempt"], fields.get("step")) == (task.attempt, step.number):
        step = step._replace(used=step.used + used)
    return task._replace(used=task.used + used, step=step)
