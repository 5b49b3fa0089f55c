"""What model calls cost, as rows: all calls that an event reports, even if the event is superseded."""

from typing import Any, Final, NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.event import Event, FailedCalls, ModelCall
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.stage_specs import stage_of
from poweron_events.fold.state import Verdict
from poweron_events.round_events import AnswerRejected
from poweron_events.step_events import ParametersRejected, SelectionRejected
from poweron_projections.table_spec import Table, Uuid, text


class UsageRow(NamedTuple):
    """One call that was answered, or the calls that failed for one reason; budgets count only accepted events."""

    workflow_id: Uuid
    seq: int
    position: int
    verdict: str
    type: str
    stage: str
    refused: bool
    round: int
    task: int
    attempt: int
    step: int
    time_ms: int
    provider: str
    model: str
    template: str
    template_sha256: str
    prompt_ref: str | None
    answer_ref: str | None
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int
    duration_ms: int
    tries: int
    finish_reason: str | None
    code: str | None
    usage_estimated: bool


_REFUSALS: Final = frozenset[type[Event]]({SelectionRejected, ParametersRejected, AnswerRejected})

USAGE = Table("usage", UsageRow, key=("workflow_id", "seq", "position"))


def usage_rows(recorded: Recorded, seq: int, verdict: Verdict) -> list[UsageRow]:
    """Return the calls that an event reports: first those that were answered, then those that failed."""
    envelope = recorded.envelope
    if envelope.event is None:
        return []
    answered, failed = model_calls(envelope.event), failed_calls(envelope.event)
    if not answered and not failed:
        return []
    place = (envelope.workflow_id, seq)
    told: tuple[Any, ...] = (
        verdict,
        envelope.type,
        *_purpose(envelope.event),
        *_place(envelope.event),
        recorded.time_ms,
    )
    rows = [UsageRow(*place, position, *told, *_answered(call)) for position, call in enumerate(answered)]
    rows += [UsageRow(*place, position, *told, *_failed(calls)) for position, calls in enumerate(failed, len(answered))]
    return rows


def _purpose(event: Event) -> tuple[str, bool]:
    """Return the stage that an event's calls are for, and whether their answers were refused."""
    return stage_of(event).name, type(event) in _REFUSALS


def _place(event: Event) -> tuple[int, int, int, int]:
    """Return the place in the workflow that the event names, with zeros for what it has not reached yet."""
    said = event.__dict__.get
    return said("round", 0), said("task", 0), said("attempt", 0), said("step", 0)


def _answered(call: ModelCall) -> tuple[Any, ...]:
    return (
        text(call.provider),
        text(call.model),
        text(call.template),
        text(call.template_sha256),
        call.prompt_ref,
        call.answer_ref,
        call.input_tokens,
        call.output_tokens,
        call.cached_input_tokens,
        call.reasoning_tokens,
        call.cost_nano_usd,
        call.duration_ms,
        call.tries,
        call.finish_reason,
        None,
        call.usage_estimated,
    )


def _failed(calls: FailedCalls) -> tuple[Any, ...]:
    """Return the cells of failed calls, which the row counts; the service's log says which model was asked."""
    tokens = (calls.input_tokens, calls.output_tokens, 0, 0)
    took = (*tokens, calls.cost_nano_usd, calls.duration_ms, calls.count)
    return ("", "", "", "", None, None, *took, None, calls.code, calls.usage_estimated)
