"""What the model calls cost, as rows: every call that an event tells of, superseded ones too."""

from typing import NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Verdict
from poweron_projections.table_spec import Table, Uuid, text


class UsageRow(NamedTuple):
    """One model call; budgets count those of accepted events only."""

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


USAGE = Table("usage", UsageRow, key=("workflow_id", "seq", "position"))


def usage_rows(recorded: Recorded, seq: int, verdict: Verdict) -> list[UsageRow]:
    """The model calls of an event."""
    envelope = recorded.envelope
    calls = () if envelope.event is None else model_calls(envelope.event)
    return [
        UsageRow(
            workflow_id=envelope.workflow_id,
            seq=seq,
            position=position,
            verdict=verdict,
            type=envelope.type,
            provider=text(call.provider),
            model=text(call.model),
            template=text(call.template),
            template_sha256=text(call.template_sha256),
            prompt_ref=call.prompt_ref,
            answer_ref=call.answer_ref,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            cached_input_tokens=call.cached_input_tokens,
            reasoning_tokens=call.reasoning_tokens,
            cost_nano_usd=call.cost_nano_usd,
            duration_ms=call.duration_ms,
            tries=call.tries,
            finish_reason=call.finish_reason,
        )
        for position, call in enumerate(calls)
    ]
