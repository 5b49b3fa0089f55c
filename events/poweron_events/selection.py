"""Plan: the selection of exactly one action (stage 1)."""

from typing import Literal

from pydantic import Field

from poweron_events.codes import Code
from poweron_events.event import ActionName, FailedCallsByCode, FreeText, Model, ModelCall, StepEvent, TryEvent

DecidedBy = Literal["model", "guard", "plan"]
FieldType = Literal["string", "number", "boolean", "enum", "object"]


class ActionSelection(Model):
    """An action by its two parts; stage 1 writes the compound `method.name` (M-01)."""

    method: str
    name: str

    @classmethod
    def of(cls, compound: ActionName) -> "ActionSelection":
        """Return the action that `method.name` names."""
        method, _, name = compound.partition(".")
        return cls(method=method, name=name)

    @property
    def compound(self) -> ActionName:
        """`method.name`, as on the wire."""
        return f"{self.method}.{self.name}"


class SchemaField(Model):
    """One business parameter that stage 2 is asked for."""

    name: str = Field(min_length=1, max_length=100)
    type: FieldType = "string"
    required: bool = False
    description: FreeText = Field(default="", max_length=1_000)


class ParametersSchema(Model):
    """The fields that stage 2 is asked for; never documents, connections or history (P-02)."""

    fields: tuple[SchemaField, ...] = Field(default=(), max_length=50)


class ActionSelected(StepEvent):
    """The selector chose the action of this step: the stage-1 answer as given."""

    action: ActionName
    action_objective: FreeText = Field(max_length=4_000)
    learnings: tuple[FreeText, ...] = ()
    required_input_documents: tuple[FreeText, ...] = ()
    required_connection: str | None = None
    parameters_context: FreeText = Field(default="", max_length=8_000)
    parameters_schema: ParametersSchema | None = None
    decided_by: DecidedBy = "model"
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()


class SelectionRejected(TryEvent):
    """The answer was not a selection of one allowed action; the second rejection ends the attempt."""

    reason: FreeText = Field(max_length=2_000)
    detail: FreeText = Field(default="", max_length=2_000)
    """More about the reason, for the log; never shown to a model."""
    code: Code | None = None
    model_call: ModelCall | None = None
    failed_calls: FailedCallsByCode = ()
