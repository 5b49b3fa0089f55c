"""What the calls of models cost, as rows: all that an event tells of, superseded ones too."""

from typing import Any, NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.event import FailedCalls, ModelCall
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.state import Verdict
from poweron_projections.table_spec import Table, Uuid, text


class UsageRow(NamedTuple):
    """One call that was answered, or the calls that failed for one reason; budgets count those of accepted events."""

    workflow_id: Uuid
    seq: int
    position: int
    verdict: str
    type: str
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


USAGE = Table("usage", UsageRow, key=("workflow_id", "seq", "position"))


def usage_rows(recorded: Recorded, seq: int, verdict: Verdict) -> list[UsageRow]:
    """The calls that an event tells of: first those that were answered, then those that failed."""
    envelope = recorded.envelope
    if envelope.event is None:
        return []
    answered, failed = model_calls(envelope.event), failed_calls(envelope.event)
    if not answered and not failed:
        return []
    place = (envelope.workflow_id, seq)
    told = (verdict, envelope.type)
    rows = [UsageRow(*place, position, *told, *_answered(call)) for position, call in enumerate(answered)]
    rows += [UsageRow(*place, position, *told, *_failed(calls)) for position, calls in enumerate(failed, len(answered))]
    return rows


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
    )


def _failed(calls: FailedCalls) -> tuple[Any, ...]:
    """Which model was asked says the log of the service; the row counts them."""
    tokens = (calls.input_tokens, calls.output_tokens, 0, 0)
    return ("", "", "", "", None, None, *tokens, calls.cost_nano_usd, calls.duration_ms, calls.count, None, calls.code)
