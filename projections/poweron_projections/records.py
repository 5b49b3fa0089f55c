"""Every record of the log, its bytes, and the verdict on it.

Records that are not events are included, without workflow and `seq`: nothing that was written is hidden.
"""

import hashlib
from typing import Literal, NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.fold.state import Verdict
from poweron_events.log import Record
from poweron_projections.compression import compress
from poweron_projections.table_spec import Table, Uuid, text

RecordVerdict = Verdict | Literal["undecodable"]


class RecordRow(NamedTuple):
    """One record of `poweron.events`."""

    partition: int
    log_offset: int
    workflow_id: Uuid | None
    seq: int | None
    type: str | None
    verdict: RecordVerdict
    event_id: Uuid | None
    causation_id: Uuid | None
    time_ms: int
    sha256: bytes
    key: bytes | None
    compressed: bytes | None


RECORDS = Table("records", RecordRow, key=("partition", "log_offset"), not_compared=("compressed",))


def digest(value: bytes | None) -> bytes:
    """Return the SHA-256 of a record's bytes, as `records` keeps it."""
    return hashlib.sha256(value or b"").digest()


def _compressed(record: Record) -> bytes | None:
    return None if record.value is None else compress(record.value)


def judged(record: Record, recorded: Recorded, seq: int, verdict: Verdict) -> RecordRow:
    """Return the row of a record that is an event; its key is the workflow's id and is not repeated."""
    envelope = recorded.envelope
    return RecordRow(
        partition=record.partition,
        log_offset=record.offset,
        workflow_id=envelope.workflow_id,
        seq=seq,
        type=text(envelope.type),
        verdict=verdict,
        event_id=envelope.id,
        causation_id=None if envelope.cause is None else envelope.cause.id,
        time_ms=record.time_ms,
        sha256=bytes.fromhex(recorded.sha256),
        key=None,
        compressed=_compressed(record),
    )


def undecodable(record: Record) -> RecordRow:
    """Return the row of a record that is not an event."""
    return RecordRow(
        partition=record.partition,
        log_offset=record.offset,
        workflow_id=None,
        seq=None,
        type=None,
        verdict="undecodable",
        event_id=None,
        causation_id=None,
        time_ms=record.time_ms,
        sha256=digest(record.value),
        key=record.key,
        compressed=_compressed(record),
    )
