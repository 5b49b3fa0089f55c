"""Act, first half: the parameters of the selected action (stage 2)."""

from typing import Literal

from pydantic import Field

from poweron_events.codes import Code
from poweron_events.event import FailedCallsByCode, FreeText, JsonValues, Model, ModelCall, StepEvent, TryEvent
from poweron_events.selection import DecidedBy


class ActionParameters(Model):
    """The parameters of an action, by name (M-02)."""

    parameters: JsonValues


class ParametersSet(StepEvent):
    """The parameterizer collected, checked and completed the parameters."""

    schema_: Literal["parameters_v1"] = Field(default="parameters_v1", alias="schema")
    given: JsonValues
    """As the model answered, before any were dropped or filled in."""
    parameters: JsonValues
    """As the action gets them, after defaults."""
    defaulted: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    decided_by: DecidedBy = "model"
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()


class ParametersRejected(TryEvent):
    """The parameters were rejected; the second rejection ends the attempt."""

    reason: FreeText = Field(max_length=2_000)
    detail: FreeText = Field(default="", max_length=2_000)
    """More about the reason, for the log; never shown to a model."""
    code: Code | None = None
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()
