"""What the calls of models cost, as rows: all that an event tells of, superseded ones too."""

from typing import Any, NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.event import AnyCall, FailedCalls, ModelCall
from poweron_events.fold.costs import failed_calls, model_calls
from poweron_events.fold.state import Used, Verdict
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
    cells = [*map(_answered, model_calls(envelope.event)), *map(_failed, failed_calls(envelope.event))]
    return [
        UsageRow(
            workflow_id=envelope.workflow_id, seq=seq, position=position, verdict=verdict, type=envelope.type, **each
        )
        for position, each in enumerate(cells)
    ]


def _answered(call: ModelCall) -> dict[str, Any]:
    return {
        "provider": text(call.provider),
        "model": text(call.model),
        "template": text(call.template),
        "template_sha256": text(call.template_sha256),
        "prompt_ref": call.prompt_ref,
        "answer_ref": call.answer_ref,
        "cached_input_tokens": call.cached_input_tokens,
        "reasoning_tokens": call.reasoning_tokens,
        "tries": call.tries,
        "finish_reason": call.finish_reason,
        "code": None,
        **_used(call),
    }


def _failed(calls: FailedCalls) -> dict[str, Any]:
    """Which model was asked says the log of the service; the row counts them."""
    return {
        "provider": "",
        "model": "",
        "template": "",
        "template_sha256": "",
        "prompt_ref": None,
        "answer_ref": None,
        "cached_input_tokens": 0,
        "reasoning_tokens": 0,
        "tries": calls.count,
        "finish_reason": None,
        "code": calls.code,
        **_used(calls),
    }


def _used(calls: AnyCall) -> dict[str, Any]:
    return Used.by([calls])._asdict()
