"""The progress of long work, reported on a topic of its own.

No fold and no projection reads these records, so a forged one can only mislead a person who watches.
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
"""What the progress counts."""

Counted = Annotated[int, Field(ge=0, le=2**53 - 1)]

MAX_PROGRESS = 4_096  # bytes of a record


class StepProgress(Model):
    """The progress of a step's action, for people who watch it.

    It may arrive late, twice or never: it only moves a progress bar.
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
        """Return the message to send to `poweron.progress`."""
        return Message(self.workflow_id.encode(), dumps(self.model_dump(mode="json", by_alias=True)))

    @classmethod
    def read(cls, record: Record) -> Self:
        """Read the progress in a record of `poweron.progress`.

        Raises:
            Undecodable: the record is not progress; the error message holds none of its content.
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
