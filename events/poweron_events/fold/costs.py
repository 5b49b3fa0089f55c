"""The cost of events: the model calls that they report count towards the step, the task and the round.

A reservation counts as used, at its maximum, until an accepted event reports its calls.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from poweron_events.event import AnyCall, Event, FailedCalls, ModelCall
from poweron_events.fold.state import Reservation, Round, Task, Used, Workflow
from poweron_events.round_events import Totals
from poweron_events.step_events import ActionSelected, CallReserved
from poweron_events.stream import WorkflowEvent

NOTHING: Final = Used()


def model_calls(event: Event) -> tuple[ModelCall, ...]:
    """Return all calls with an answer that an event reports."""
    fields = event.__dict__  # faster than attribute access, since most events lack it
    one: ModelCall | None = fields.get("model_call")
    return (one,) if one else fields.get("model_calls", ())


def failed_calls(event: Event) -> tuple[FailedCalls, ...]:
    """Return all failed calls that an event reports, one entry for each code."""
    failed: tuple[FailedCalls, ...] = event.__dict__.get("failed_calls", ())
    return failed


def reported(event: Event) -> tuple[AnyCall, ...]:
    """Return all calls that an event reports."""
    answered, failed = model_calls(event), failed_calls(event)
    return (*answered, *failed) if failed else answered


def used_by(event: Event) -> Used:
    """Return what all calls that an event reports have used."""
    return Used.by(reported(event))


def charges(round_: Round, event: WorkflowEvent) -> dict[str, Any]:
    """Return the changes that an accepted event makes to the round; none if it reports no calls and selects no step."""
    calls, steps = reported(event), int(isinstance(event, ActionSelected))
    if not calls and not steps:
        return {}
    used = added = Used.by(calls)
    changes: dict[str, Any] = {}
    if round_.reservations:
        settled = settled_by(round_, calls)
        added = used - most_of(settled)
        changes["reservations"] = tuple(each for each in round_.reservations if each not in settled)
    return changes | {
        "steps": round_.steps + steps,
        "usage": round_.usage + added,
        "task": _task_charged(round_.task, event, used, added),
    }


def reserve(workflow: Workflow, event: CallReserved) -> Workflow | None:
    """Count a call's maximum usage as used; return None if the event is superseded.

    Each number is assigned once: a process that did not know of an earlier reservation reserves nothing.
    """
    round_ = workflow.current
    here = (event.round, event.task, event.attempt, event.step) == workflow.place
    if workflow.asks_for_budget or (workflow.is_paused and workflow.phase != "started"):  # a running action goes on
        return None
    if not here or event.reservation != round_.reserved + 1:
        return None
    most = Used(event.input_tokens, event.output_tokens, event.cost_nano_usd)
    task = None if workflow.phase == "closing" else round_.task  # the final message belongs to no task
    reservation = Reservation(event.reservation, task.number if task else 0, most)
    reserved = round_._replace(
        usage=round_.usage + most,
        task=task._replace(used=task.used + most) if task else round_.task,
        reservations=(*round_.reservations, reservation),
        reserved=event.reservation,
    )
    return workflow._replace(round=reserved)


def without_reservations(workflow: Workflow, settled: Collection[Reservation]) -> Workflow:
    """Return the workflow as if these reservations had not been made."""
    if not settled:
        return workflow
    round_ = workflow.current
    task = round_.task
    own = most_of(each for each in settled if task and each.task == task.number)
    changed = round_._replace(
        usage=round_.usage - most_of(settled),
        task=task._replace(used=task.used - own) if task else None,
        reservations=tuple(each for each in round_.reservations if each not in settled),
    )
    return workflow._replace(round=changed)


def added_by(round_: Round, calls: Collection[AnyCall]) -> Used:
    """Return how much an event that reports these calls adds to the round; negative if more was reserved."""
    return Used.by(calls) - most_of(settled_by(round_, calls))


def settled_by(round_: Round, calls: Iterable[AnyCall]) -> tuple[Reservation, ...]:
    """Return the reservations of the round that an event with these calls settles."""
    numbers = {number for call in calls for number in call.reservations}
    return tuple(each for each in round_.reservations if each.number in numbers)


def most_of(reservations: Iterable[Reservation]) -> Used:
    """Return the most that the calls of these reservations can use together."""
    return sum((each.most for each in reservations), NOTHING)


def charged(totals: Totals, used: Used) -> Totals:
    """Return a round's totals with the usage of model calls added."""
    return Totals(
        steps=totals.steps,
        input_tokens=totals.input_tokens + used.input_tokens,
        output_tokens=totals.output_tokens + used.output_tokens,
        cost_nano_usd=totals.cost_nano_usd + used.cost_nano_usd,
    )


def _task_charged(task: Task | None, event: WorkflowEvent, used: Used, added: Used) -> Task | None:
    """Return the current task, and its step if the event belongs to it, with the event's usage added."""
    fields = event.__dict__
    if task is None or fields.get("task") != task.number:
        return task
    step = task.step
    if (fields["attempt"], fields.get("step")) == (task.attempt, step.number):
        step = step._replace(used=step.used + used)
    return task._replace(used=task.used + added, step=step)
