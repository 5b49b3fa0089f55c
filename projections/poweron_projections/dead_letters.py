"""Dead letters as rows: records of any topic that could not be read, and why."""

from typing import NamedTuple

from poweron_events.codec import Undecodable
from poweron_events.dead_letter import DeadLetter, read_dead_letter
from poweron_events.log import Record
from poweron_projections.table_spec import Table, text


class DeadLetterRow(NamedTuple):
    """One unreadable record; if it is reported twice, the first report is kept."""

    topic: str
    partition: int
    log_offset: int
    reason: str
    size: int
    raw: bytes | None
    time_ms: int


DEAD_LETTERS = Table("dead_letters", DeadLetterRow, key=("topic", "partition", "log_offset"), keeps="first")


def dead_letter_row(record: Record) -> DeadLetterRow:
    """Return the row of a record of `poweron.deadletter`; a record that is not a dead letter gets one of its own."""
    try:
        letter = read_dead_letter(record.value)
    except Undecodable as error:
        letter = DeadLetter.of(record, f"not a dead letter: {error}")
    return DeadLetterRow(
        topic=text(letter.topic),
        partition=letter.partition,
        log_offset=letter.offset,
        reason=text(letter.reason),
        size=letter.size,
        raw=letter.raw,
        time_ms=record.time_ms,
    )
