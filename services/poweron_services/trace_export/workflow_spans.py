"""The spans of a workflow's history: rounds, tasks, steps, actions and model calls. Pure.

Rounds, attempts and steps have the ids and times that `telemetry` gives them as they happen; calls and tries of actions
have other ids, derived from their place in the log, so that the same log gives the same trace.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from poweron_events.client import Heard
from poweron_events.codec import dumps
from poweron_events.event import AnyCall, Event, FailedCalls, ModelCall
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.stage_specs import stage_of
from poweron_events.fold.state import Workflow, gives_up
from poweron_events.round_events import RoundEnd
from poweron_events.step_events import ActionCompleted
from poweron_services.telemetry import gen_ai
from poweron_services.telemetry.milestones import MILLISECOND, Ended, ended, span
from poweron_services.telemetry.spans import Context, Span, Value, context_of, derived_context

SpanKind = Literal["AGENT", "CHAIN", "LLM", "TOOL"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpan:
    """A span with its kind, and its input and output as far as the events contain them."""

    span: Span
    kind: SpanKind
    given: str | None = None
    came: str | None = None
    call: ModelCall | None = None
    """The answered call of this span, whose input and output are in the content store."""


def workflow_spans(history: Sequence[Heard]) -> list[WorkflowSpan]:
    """Return the spans of a workflow, in the order in which they ended; unfinished work has none."""
    before, spans = Workflow(history[0].workflow.id), list[WorkflowSpan]()
    for record in history:
        spans += _spans_of(before, record)
        before = record.workflow
    return spans


def _spans_of(before: Workflow, record: Heard) -> Iterator[WorkflowSpan]:
    event = record.event
    if event is None:
        return
    parent = context_of(before.id, _place(event))
    if record.verdict == "accepted" and isinstance(event, ActionCompleted):
        yield from (_try_span(before, record, event, try_) for try_ in _tries_ended(before, event))
        parent = _try_context(before, event.try_)
    yield from _calls(before, record, event, parent)
    if record.verdict == "accepted":
        yield from (
            _ended_span(before, record, milestone) for milestone in ended(before, record.workflow, record.recorded)
        )


def _tries_ended(before: Workflow, event: ActionCompleted) -> list[int]:
    """Return the tries whose fate this end settles: its own if a pause ended it, else all that none ended before."""
    if gives_up(event):
        return [event.try_]
    return [try_ for try_, start in enumerate(before.step.starts, start=1) if not start.given_up]


def _place(event: Event) -> tuple[int, int, int, int]:
    """Return the place of the round, the attempt or the step that an event names."""
    fields = event.__dict__
    return (fields.get("round", 1), fields.get("task", 0), fields.get("attempt", 0), fields.get("step", 0))


def _ended_span(before: Workflow, record: Heard, milestone: Ended) -> WorkflowSpan:
    """Return the span of a round, an attempt or a step."""
    milestone_span = span(record.workflow, milestone)
    match milestone.what:
        case "workflow":
            text = record.workflow.current.opening.prompt
            came = record.event.message if isinstance(record.event, RoundEnd) else milestone.reason
            return WorkflowSpan(span=milestone_span, kind="AGENT", given=text, came=came)
        case "task":
            return WorkflowSpan(
                span=milestone_span, kind="CHAIN", given=before.task.plan.objective, came=milestone.reason
            )
        case "step":
            selection = before.step.selection
            objective = selection.action_objective if selection else None
            return WorkflowSpan(span=milestone_span, kind="CHAIN", given=objective, came=milestone.reason)


def _try_span(before: Workflow, record: Heard, event: ActionCompleted, try_: int) -> WorkflowSpan:
    """Return the span of one try of an action whose result is known, from this try or from another one."""
    starts, parameters = before.step.starts, before.step.parameters
    is_own, is_last = try_ == event.try_, try_ == len(starts)
    outcome = event.outcome if is_own else "unknown" if try_ > event.try_ else "crashed"
    ended_ms = record.recorded.time_ms if is_own or is_last else starts[try_].time_ms
    try_span = _tool_span(before, try_, ended_ms, outcome)
    text = None if parameters is None else dumps(parameters.parameters).decode()
    if not is_own:
        return WorkflowSpan(span=try_span, kind="TOOL", given=text)
    documents = [document.document_name for document in event.documents]
    came = dumps({"outcome": outcome, "error": event.error, "documents": documents}).decode()
    failed = None if event.success else event.code or event.outcome
    return WorkflowSpan(span=replace(try_span, failed=failed), kind="TOOL", given=text, came=came)


def _try_context(before: Workflow, try_: int) -> Context:
    return derived_context(before.id, "action", *before.place, try_)


def _tool_span(before: Workflow, try_: int, ended_ms: int, outcome: str) -> Span:
    assert before.step.selection is not None
    action, began_ms = before.step.selection.action, before.step.starts[try_ - 1].time_ms
    return Span(
        name=f"{gen_ai.EXECUTE_TOOL} {action}",
        context=_try_context(before, try_),
        parent=context_of(before.id, before.place),
        began_ns=began_ms * MILLISECOND,
        ended_ns=max(began_ms, ended_ms) * MILLISECOND,
        attributes={
            gen_ai.OPERATION: gen_ai.EXECUTE_TOOL,
            gen_ai.TOOL_NAME: action,
            gen_ai.TOOL_TYPE: gen_ai.FUNCTION,
            "poweron.try": try_,
            "poweron.outcome": outcome,
        },
        failed=outcome,
    )


def _calls(before: Workflow, record: Heard, event: Event, parent: Context) -> Iterator[WorkflowSpan]:
    """Yield the calls that an event reports, failed ones first; the log has their durations, but no start times."""
    calls: tuple[AnyCall, ...] = (*failed_calls(event), *model_calls(event))
    began, stage = _beginnings(before, record, event, calls), stage_of(event)
    for number, (call, began_ms) in enumerate(zip(calls, began, strict=True)):
        answer = call if isinstance(call, ModelCall) else None
        attributes = gen_ai.answer_attributes(call) if isinstance(call, ModelCall) else _of_failure(call)
        call_span = Span(
            name=gen_ai.CHAT,
            context=derived_context(before.id, "call", record.recorded.offset, number),
            parent=parent,
            began_ns=began_ms * MILLISECOND,
            ended_ns=(began_ms + call.duration_ms) * MILLISECOND,
            kind="client",
            attributes={
                gen_ai.OPERATION: gen_ai.CHAT,
                "poweron.stage": stage.prompt or stage.name,
                "poweron.verdict": record.verdict,
                **attributes,
            },
            failed=None if answer else call.code if isinstance(call, FailedCalls) else None,
        )
        yield WorkflowSpan(span=call_span, kind="LLM", call=answer)


def _beginnings(before: Workflow, record: Heard, event: Event, calls: Sequence[AnyCall]) -> list[int]:
    """Estimate start times: in sequence up to the event or from an action's start, in parallel if they do not fit."""
    lengths = [call.duration_ms for call in calls]
    ended_ms, together = record.recorded.time_ms, sum(lengths)
    first = ended_ms - together
    if isinstance(event, ActionCompleted) and record.verdict == "accepted":
        first = before.step.starts[event.try_ - 1].time_ms
        if first + together > ended_ms:
            return [first] * len(calls)
    return list(accumulate(lengths[:-1], initial=first)) if lengths else []


def _of_failure(calls: FailedCalls) -> dict[str, Value]:
    return {
        gen_ai.INPUT_TOKENS: calls.input_tokens,
        gen_ai.OUTPUT_TOKENS: calls.output_tokens,
        "poweron.cost_nano_usd": calls.cost_nano_usd,
        "poweron.tries": calls.count,
    }
