"""Dead letters: unreadable records, kept with the reason on `poweron.deadletter`.

Each is written at least once; the same (topic, partition, offset) is the same dead letter.
"""

import base64
from typing import Self

from pydantic import Field, ValidationError

from poweron_events.codec import Undecodable, dumps
from poweron_events.event import Base64, FreeText, Model
from poweron_events.log import Message, Record
from poweron_events.validation_messages import MAX_REASON, explain

MAX_RAW = 700_000  # bytes before base64: a dead letter is a record too


class DeadLetter(Model):
    """An unreadable record as raw bytes, base64 on the wire, and why it could not be read.

    A tombstone has no bytes; of a record larger than 700 kB only the beginning is kept, and `size` is the full size.
    """

    topic: str = Field(min_length=1, max_length=255)
    partition: int = Field(ge=0, le=2**31 - 1)
    offset: int = Field(ge=0, le=2**63 - 1)
    reason: FreeText = Field(max_length=MAX_REASON)
    size: int = Field(ge=0, le=2**31 - 1)
    raw: Base64 | None = None

    @classmethod
    def of(cls, record: Record, reason: str) -> Self:
        """Create the dead letter of a record."""
        return cls(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            reason=(record.unreadable or reason)[:MAX_REASON],
            size=len(record.value or b""),
            raw=None if record.value is None else base64.b64encode(record.value[:MAX_RAW]),
        )

    def message(self) -> Message:
        """Return the message to append to `poweron.deadletter`."""
        key = f"{self.topic}|{self.partition}|{self.offset}"
        return Message(key.encode(), dumps(self.model_dump(mode="json", by_alias=True)))


def read_dead_letter(value: bytes | None) -> DeadLetter:
    """Read a record value of `poweron.deadletter`.

    Raises:
        Undecodable: it is not a dead letter.
    """
    try:
        return DeadLetter.model_validate_json(value or b"", extra="ignore")
    except ValidationError as error:
        raise Undecodable(explain(error)) from error
