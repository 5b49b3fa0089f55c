"""How far long work is: what is said of it on its way, on a topic of its own, which is no part of the truth.

Whatever comes of these records, forged ones included, no fold knows them and no row is made of them.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from poweron_events.codec import Undecodable, dumps, is_uuid
from poweron_events.event import ActionName, Model, Number
from poweron_events.log import Message, Record
from poweron_events.validation_messages import explain

ProgressUnit = Literal[
    "documents_read", "pages_read", "passages_searched", "parts_answered", "pages_fetched", "tool_steps"
]
"""What is counted."""

Counted = Annotated[int, Field(ge=0, le=2**53 - 1)]

MAX_PROGRESS = 4_096  # bytes of a record


class StepProgress(Model):
    """How far the action of a step is, so that whoever watches sees what remains.

    It may come late, twice or never: nothing but a bar on a screen is made of it.
    """

    workflow_id: str = Field(max_length=36)
    round: Number
    task: Number
    attempt: Number
    step: Number
    try_: Number = Field(alias="try")
    action: ActionName
    unit: ProgressUnit
    done: Counted
    total: Counted | None = None
    time: str = Field(max_length=40)

    @property
    def place(self) -> tuple[int, int, int, int]:
        """(round, task, attempt, step), as the fold names it."""
        return (self.round, self.task, self.attempt, self.step)

    def message(self) -> Message:
        """What is written to `poweron.progress`."""
        return Message(self.workflow_id.encode(), dumps(self.model_dump(mode="json", by_alias=True)))

    @classmethod
    def read(cls, record: Record) -> Self:
        """The progress that a record of `poweron.progress` tells.

        Raises:
            Undecodable: it tells none; its content is in no message.
        """
        value = record.value or b""
        if len(value) > MAX_PROGRESS:
            raise Undecodable(f"progress takes at most {MAX_PROGRESS} bytes, not {len(value)}")
        try:
            told = cls.model_validate_json(value, extra="ignore")
        except ValidationError as error:
            raise Undecodable(explain(error)) from error
        if not is_uuid(told.workflow_id) or told.workflow_id.encode() != record.key:
            raise Undecodable("progress of another workflow than the one that it is kept under")
        return told
