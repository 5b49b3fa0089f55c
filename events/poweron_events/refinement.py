"""Refine: continue or stop."""

from typing import Literal

from pydantic import Field

from poweron_events.codes import Code
from poweron_events.event import (
    Count,
    CriterionProgress,
    FailedCallsByCode,
    FreeText,
    Milliseconds,
    Model,
    ModelCall,
    StepEvent,
)
from poweron_events.selection import DecidedBy

Classification = Literal["success", "retry", "failed"]


class IterationTelemetry(Model):
    """The usage of one iteration: all its model calls together, including rejected ones (B-01)."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_nano_usd: Count = 0
    duration_ms: Milliseconds = 0


class RefinementDecided(StepEvent):
    """The refiner decided whether another step follows, and why."""

    decision: Literal["continue", "stop"]
    reason: FreeText = Field(max_length=2_000)
    code: Code | None = None
    """Why the loop stops; None if it continues."""
    hint: FreeText | None = Field(default=None, max_length=2_000)
    classification: Classification
    improvements: tuple[FreeText, ...] = ()
    criteria_progress: tuple[CriterionProgress, ...] = ()
    decided_by: DecidedBy = "model"
    iteration: IterationTelemetry = IterationTelemetry()
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()
