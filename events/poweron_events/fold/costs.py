"""What events cost: the calls of models that they tell of, counted towards the step, the task and the round.

A reservation counts as used, at its most, until an accepted event reports its calls.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from poweron_events.event import AnyCall, Event, FailedCalls, ModelCall
from poweron_events.fold.state import Reservation, Round, Task, Used, Workflow
from poweron_events.outcome import Totals
from poweron_events.reservation import CallReserved
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


def reported(event: Event) -> tuple[AnyCall, ...]:
    """All calls that an event tells of."""
    return (*model_calls(event), *failed_calls(event))


def used_by(event: Event) -> Used:
    """What all calls used that an event tells of."""
    calls = reported(event)
    return Used.by(calls) if calls else NOTHING


def charges(round_: Round, event: WorkflowEvent) -> dict[str, Any]:
    """What an accepted event changes in the round: its totals and its task, where it tells of calls or of a step."""
    used = used_by(event)
    selected = isinstance(event, ActionSelected)
    settled = settled_by(round_, reported(event)) if round_.reservations else ()
    if not any(used) and not selected and not settled:
        return {}
    added = used - most_of(settled)
    return {
        "totals": charged(round_.totals, added, steps=int(selected)),
        "task": _task_charged(round_.task, event, used, added),
        "reservations": tuple(each for each in round_.reservations if each not in settled),
    }


def reserve(workflow: Workflow, event: CallReserved) -> Workflow | None:
    """The workflow with the most that a call uses counted as used; None if the event is superseded.

    Each number is given once: a process that did not know of an earlier reservation reserves nothing.
    """
    round_ = workflow.current
    here = (event.round, event.task, event.attempt, event.step) == workflow.place
    if not here or event.reservation != round_.reserved + 1:
        return None
    most = Used(event.input_tokens, event.output_tokens, event.cost_nano_usd)
    task = None if workflow.phase == "closing" else round_.task  # the final message is of no task
    reservation = Reservation(event.reservation, task.number if task else 0, most)
    reserved = round_._replace(
        totals=charged(round_.totals, most),
        task=task._replace(used=task.used + most) if task else round_.task,
        reservations=(*round_.reservations, reservation),
        reserved=event.reservation,
    )
    return workflow._replace(round=reserved)


def without_reservations(workflow: Workflow, settled: Collection[Reservation]) -> Workflow:
    """The workflow as if these of its reservations were not made."""
    if not settled:
        return workflow
    round_ = workflow.current
    task = round_.task
    own = most_of(each for each in settled if task and each.task == task.number)
    changed = round_._replace(
        totals=charged(round_.totals, NOTHING - most_of(settled)),
        task=task._replace(used=task.used - own) if task else None,
        reservations=tuple(each for each in round_.reservations if each not in settled),
    )
    return workflow._replace(round=changed)


def added_by(round_: Round, calls: Collection[AnyCall]) -> Used:
    """What the round has used more once an event reports these calls: less than nothing where more was reserved."""
    return Used.by(calls) - most_of(settled_by(round_, calls))


def settled_by(round_: Round, calls: Iterable[AnyCall]) -> tuple[Reservation, ...]:
    """The reservations of the round that an event settles which reports these calls."""
    numbers = {number for call in calls for number in call.reservations}
    return tuple(each for each in round_.reservations if each.number in numbers)


def most_of(reservations: Iterable[Reservation]) -> Used:
    """The most that the calls of these reservations use together."""
    return sum((each.most for each in reservations), NOTHING)


def charged(totals: Totals, used: Used, steps: int = 0) -> Totals:
    """What a round used, with what model calls used and steps that were selected."""
    return Totals(
        steps=totals.steps + steps,
        input_tokens=totals.input_tokens + used.input_tokens,
        output_tokens=totals.output_tokens + used.output_tokens,
        cost_nano_usd=totals.cost_nano_usd + used.cost_nano_usd,
    )


def _task_charged(task: Task | None, event: WorkflowEvent, used: Used, added: Used) -> Task | None:
    """The task at hand, and the step if it still is the event's, with what the event cost and added."""
    fields = event.__dict__
    if task is None or fields.get("task") != task.number:
        return task
    step = task.step
    if (fields["attempt"], fields.get("step")) == (task.attempt, step.number):
        step = step._replace(used=step.used + used)
    return task._replace(used=task.used + added, step=step)
