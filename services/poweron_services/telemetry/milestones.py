"""The ends of steps, of attempts at tasks and of rounds: each becomes a span and a log line.

They are derived from the fold before and after an accepted event, so that only what counts is reported, with the
broker's times.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from poweron_events.envelope import Recorded
from poweron_events.fold.costs import used_by
from poweron_events.fold.stage_specs import AFTER_STEPS, STEP_PHASES, TASK_PHASES
from poweron_events.fold.state import Place, Used, Workflow
from poweron_events.round_events import RoundCancelled, RoundFailed, StageFailed, TaskReviewed
from poweron_events.step_events import ObservationRecorded, RefinementDecided
from poweron_services.telemetry.log_events import Milestone
from poweron_services.telemetry.spans import Context, Span, Value, context_of

What = Literal["step", "task", "workflow"]
_MILESTONES: Final[Mapping[What, Milestone]] = {
    "step": "iteration_ended",
    "task": "task_ended",
    "workflow": "round_ended",
}
MILLISECOND = 1_000_000  # nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Something that an event ended. `reason` is text by a user or a model: for log lines, never for spans."""

    what: What
    place: Place
    began_ms: int
    ended_ms: int
    facts: Mapping[str, Value]
    reason: str = field(default="", repr=False)
    failed: str | None = None

    @property
    def log_event(self) -> Milestone:
        return _MILESTONES[self.what]


def place_of_work(workflow: Workflow) -> Place:
    """Return the place of the workflow's next event; a round is planned and ended outside its tasks."""
    if workflow.phase in STEP_PHASES:
        return workflow.place
    round_number, task, attempt, _ = workflow.place
    return (round_number, task, attempt, 0) if workflow.phase in TASK_PHASES else (round_number, 0, 0, 0)


def place_fields(place: Place) -> dict[str, int]:
    """Return the place as fields of log lines and spans, without the numbers that it does not have."""
    names = ("round", "task", "attempt", "step")
    return {name: number for name, number in zip(names, place, strict=True) if number}


def ended(before: Workflow, after: Workflow, recorded: Recorded) -> list[Ended]:
    """Return what an accepted event ends, innermost first."""
    if not before.is_open:
        return []
    milestones, over = list[Ended](), after.phase in ("closing", "ended")
    if before.phase in STEP_PHASES or before.phase in TASK_PHASES:
        was, now = before.place, after.place
        if before.phase in STEP_PHASES and (over or after.phase in AFTER_STEPS or was != now):
            milestones.append(_step(before, after, recorded))
        if over or was[:3] != now[:3]:
            milestones.append(_attempt(before, recorded))
    if after.phase == "ended":
        milestones.append(_round(after, recorded))
    return milestones


def span(workflow: Workflow, milestone: Ended) -> Span:
    """Return the span: steps are under their attempt, attempts under their round, later rounds under the first."""
    context = context_of(workflow.id, milestone.place)
    parent = _parent(milestone.place)
    return Span(
        name=milestone.what,
        context=context,
        parent=None if parent is None else context_of(workflow.id, parent),
        began_ns=milestone.began_ms * MILLISECOND,
        ended_ns=milestone.ended_ms * MILLISECOND,
        attributes={
            "poweron.workflow_id": workflow.id,
            **{
                f"poweron.{name}": value
                for name, value in (place_fields(milestone.place) | dict(milestone.facts)).items()
            },
        },
        failed=milestone.failed,
        link=_upstream(workflow, context) if milestone.what == "workflow" else None,
    )


def _parent(place: Place) -> Place | None:
    round_number, task, attempt, step = place
    if step:
        return (round_number, task, attempt, 0)
    if task:
        return (round_number, 0, 0, 0)
    return (1, 0, 0, 0) if round_number > 1 else None


def _upstream(workflow: Workflow, context: Context) -> Context | None:
    """Return the context of the request that opened the round, if it belongs to a trace of the sender."""
    upstream = Context.read(workflow.current.traceparent)
    return upstream if upstream is not None and upstream.trace_id != context.trace_id else None


def _step(before: Workflow, after: Workflow, recorded: Recorded) -> Ended:
    event, step = recorded.envelope.event, before.step
    goes_on = after.phase in STEP_PHASES and before.place[:3] == after.place[:3]
    facts: dict[str, Value] = {"decision": "continue" if goes_on else "stop"}
    if step.selection is not None:
        facts["action"] = step.selection.action
    if step.completed is not None:
        facts["success"] = step.completed.success
    reason = ""
    if isinstance(event, RefinementDecided):
        facts |= event.iteration.model_dump() | {"classification": event.classification, "decided_by": event.decided_by}
        reason = event.reason
    else:
        usage = step.used + _usage(recorded)
        facts |= {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_nano_usd": usage.cost_nano_usd,
            "duration_ms": recorded.time_ms - before.current.step_ms,
        }
        reason = _reason(before, recorded)
    return Ended(
        what="step",
        place=before.place,
        began_ms=before.current.step_ms,
        ended_ms=recorded.time_ms,
        facts=facts,
        reason=reason,
        failed=_failure(recorded),
    )


def _usage(recorded: Recorded) -> Used:
    assert recorded.envelope.event is not None
    return used_by(recorded.envelope.event)


def _reason(before: Workflow, recorded: Recorded) -> str:
    """Return why a step ended without a refinement."""
    event = recorded.envelope.event
    if isinstance(event, ObservationRecorded):
        return "The plan goes on." if event.observation.success else "The action did not succeed."
    return str(getattr(event, "error", "") or getattr(event, "reason", "") or before.current.reason)


def _attempt(before: Workflow, recorded: Recorded) -> Ended:
    event, task = recorded.envelope.event, before.task
    review = event if isinstance(event, TaskReviewed) else None
    facts: dict[str, Value] = {"task_type": task.plan.task_type, "steps": task.step.number, "actions": task.actions}
    facts |= {"status": review.status, "decided_by": review.decided_by} if review else {"status": "stopped"}
    return Ended(
        what="task",
        place=(*before.place[:3], 0),
        began_ms=before.current.attempt_ms,
        ended_ms=recorded.time_ms,
        facts=facts,
        reason=review.reason if review else _reason(before, recorded),
        failed="task_failed" if review and review.status == "failed" else _failure(recorded),
    )


def _round(after: Workflow, recorded: Recorded) -> Ended:
    round_, event = after.current, recorded.envelope.event
    return Ended(
        what="workflow",
        place=(round_.number, 0, 0, 0),
        began_ms=round_.opened_ms,
        ended_ms=recorded.time_ms,
        facts={
            "ending": round_.ending or "",
            "mode": round_.opening.workflow_mode,
            "tasks": len(round_.tasks),
            **round_.totals.model_dump(),
            "duration_ms": recorded.time_ms - round_.opened_ms,
        },
        reason=event.reason if isinstance(event, RoundFailed | RoundCancelled) else round_.reason,
        failed=None if round_.ending == "completed" else f"round_{round_.ending}",
    )


def _failure(recorded: Recorded) -> str | None:
    event = recorded.envelope.event
    return f"{event.stage}_failed" if isinstance(event, StageFailed) else None
