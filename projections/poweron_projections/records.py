"""Every record of the log, its bytes, and the verdict on it.

Records that are not events are included, without workflow and `seq`: nothing that was written is hidden.

The bytes are compressed with Zstandard (RFC 8878) and a dictionary: a single event repeats little of itself, and the
dictionary holds nearly everything that it has in common with other events. `projections/train_dictionary.py` created
it; with another dictionary, `migrations.VERSION` must grow.
"""

import hashlib
from collections.abc import Iterable
from importlib import resources
from typing import Final, Literal, NamedTuple

from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size

from poweron_events.envelope import Recorded
from poweron_events.errors import Refused
from poweron_events.fold.state import Verdict
from poweron_events.log import Record
from poweron_projections.table_spec import Row, Table, Uuid, text

DICTIONARY_FILE: Final = "events.zstd-dictionary"
LEVEL: Final = 1  # of 22: higher ones take three times as long to save a thirtieth
MAX_RECORD: Final = 2**31 - 1  # bytes that Kafka can count; a frame that claims more is damaged

_dictionary: Final = ZstdCompressionDict(resources.files(__package__).joinpath(DICTIONARY_FILE).read_bytes())
_dictionary.precompute_compress(level=LEVEL)
_compressor: Final = ZstdCompressor(level=LEVEL, dict_data=_dictionary)
_decompressor: Final = ZstdDecompressor(dict_data=_dictionary)


class DamagedRecord(Refused):
    """A row of `records` does not hold what was compressed into it."""

    def __init__(self) -> None:
        super().__init__(
            "The bytes of a record in Postgres are damaged; `poweron verify` names it, and `poweron rebuild` "
            "rebuilds the rows from the log."
        )


def compress(value: bytes) -> bytes:
    """Compress the bytes; another version of Zstandard may produce different bytes."""
    return _compressor.compress(value)


def decompress(compressed: bytes) -> bytes:
    """Decompress the bytes.

    Raises:
        DamagedRecord: they are not the result of `compress`.
    """
    try:
        if frame_content_size(compressed) <= MAX_RECORD:
            return _decompressor.decompress(compressed, allow_extra_data=False)
    except ZstdError as error:
        raise DamagedRecord from error
    raise DamagedRecord


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
    """The record's value; `compressed_rows` compresses those of a whole batch."""


RECORDS = Table("records", RecordRow, key=("partition", "log_offset"), not_compared=("compressed",))


def digest(value: bytes | None) -> bytes:
    """Return the SHA-256 of a record's bytes, as `records` keeps it."""
    return hashlib.sha256(value or b"").digest()


def compressed_rows(rows: Iterable[RecordRow]) -> list[Row]:
    """Return the rows with their values compressed.

    Compress one value right after another: other work in between would displace Zstandard's tables from the
    processor's cache.
    """
    return [(*row[:-1], None if row.compressed is None else _compressor.compress(row.compressed)) for row in rows]


def judged_row(record: Record, recorded: Recorded, seq: int, verdict: Verdict) -> RecordRow:
    """Return the row of a record that is an event, not compressed yet; its key is the workflow's id."""
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
        compressed=record.value,
    )


def undecodable_row(record: Record) -> RecordRow:
    """Return the row of a record that is not an event, not compressed yet."""
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
        compressed=record.value,
    )
