"""Batches of records as Kafka delivers them, decompressed up to a limit.

aiokafka decompresses a batch in one piece, regardless of the resulting size: 19 kB can become 600 MB.
PowerOn's consumers receive one record instead of a batch that is too large, and continue after it
(docs/decisions/0069).
"""

import hashlib
import struct
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import cramjam
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch

from poweron_events import topics

MAX_DECOMPRESSED: Final = 8 * topics.MAX_RECORD  # bytes of one batch; PowerOn's own have at most 2 * MAX_RECORD
MAX_COUNT: Final = 32_768  # records of one batch; other clients send at most 10,000 by default
_ROOMS: Final = (32_768, 131_072, 524_288, MAX_DECOMPRESSED)  # bytes of a buffer; most batches fit the first two
_RATIO: Final = 8  # of decompressed to compressed bytes, which is usual: a smaller buffer is not tried

_LENGTH_AT, _BEFORE_LENGTH, _MAGIC_AT = 8, 12, 16
_ATTRIBUTES_AT, _COUNT_AT, _HEADER = 22, 57, 61  # of format 2; the lower byte of the attributes
_OLD_ATTRIBUTES_AT, _OLD_TIME_AT, _OLD_HEADERS = 17, 18, (18, 26)  # of formats 0 and 1
_CODEC: Final = 0b111
_SNAPPY: Final = 2
_NAMES: Final = {1: "gzip", _SNAPPY: "snappy", 3: "lz4", 4: "zstd"}
_XERIAL: Final = struct.pack(">b7sB", -126, b"SNAPPY\0", 0)[:8]
_XERIAL_HEADER: Final = 16  # bytes, followed by blocks with their length in front

_number = struct.Struct(">i").unpack_from


class UnreadableBatch(bytes):
    """The value of a record that replaces an unread batch: why the batch was not read, in UTF-8."""


class _TooLarge(Exception):
    """A batch exceeds the limits, or is damaged."""


class _Stand(NamedTuple):
    """A record that replaces a batch, at the batch's last offset, with the fields that aiokafka expects."""

    offset: int
    timestamp: int | None
    value: UnreadableBatch
    timestamp_type: int = 1
    key: None = None
    checksum: None = None
    headers: tuple[()] = ()


class LimitedBatches:
    """The batches of one fetch, with the interface that aiokafka expects."""

    def __init__(self, fetched: bytes) -> None:
        self._fetched, self._at = memoryview(fetched), 0
        self._batches = _unlimited(fetched)
        self.has_next: Callable[[], bool] = self._batches.has_next
        self.size_in_bytes: Callable[[], int] = self._batches.size_in_bytes

    def next_batch(self) -> Any:
        batch = self._batches.next_batch()
        end = self._at + _BEFORE_LENGTH + _number(self._fetched, self._at + _LENGTH_AT)[0]
        raw, self._at = self._fetched[self._at : end], end
        if raw[_MAGIC_AT] < 2:
            return _LimitedBatch(batch, raw, _old_records) if raw[_OLD_ATTRIBUTES_AT] & _CODEC else batch
        if raw[_ATTRIBUTES_AT] & _CODEC or _count(raw) > MAX_COUNT:
            return _LimitedBatch(batch, raw, _records)
        return batch


class _LimitedBatch:
    """One batch, decompressed when its records are requested."""

    def __init__(self, batch: Any, raw: memoryview, records: Callable[[Any, memoryview], Any]) -> None:
        self._batch, self._raw, self._records = batch, raw, records

    def __getattr__(self, name: str) -> Any:  # the checksum and everything else come from the batch
        return getattr(self._batch, name)

    def __next__(self) -> Any:  # only for the broker's own batches, which are not compressed
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            return iter(self._records(self._batch, self._raw))
        except _TooLarge as error:
            return iter((_stand(self._batch, self._raw, str(error)),))


def _records(_: Any, raw: memoryview) -> Any:
    """Return the records of a batch of format 2, as a batch that is no longer compressed."""
    if (count := _count(raw)) > MAX_COUNT:
        raise _TooLarge(f"holds {count:,} records, and at most {MAX_COUNT:,} are read")
    codec = raw[_ATTRIBUTES_AT] & _CODEC
    plain = decompressed(codec, raw[_HEADER:], before=raw[:_HEADER])
    plain[_ATTRIBUTES_AT] &= ~_CODEC
    return DefaultRecordBatch(plain)


def _old_records(batch: Any, raw: memoryview) -> Any:
    """Return a batch of format 0 or 1 for aiokafka to decompress, once it is known to be small."""
    decompressed(raw[_OLD_ATTRIBUTES_AT] & _CODEC, _compressed(raw))
    return batch


def decompressed(codec: int, data: memoryview, *, before: memoryview | bytes = b"") -> bytearray:
    """Return the decompressed data, preceded by the bytes `before`.

    Raises:
        _TooLarge: it would be larger than `MAX_DECOMPRESSED`, or is damaged.
    """
    problem: Exception | None = None
    for room in _ROOMS:
        if room < min(_RATIO * len(data), MAX_DECOMPRESSED):
            continue
        into = bytearray(len(before) + room)
        try:
            size = _decompress(codec, data, memoryview(into)[len(before) :])
        except (cramjam.DecompressionError, struct.error) as error:
            problem = error
            continue
        into[: len(before)] = before
        del into[len(before) + size :]
        return into
    raise _TooLarge(f"cannot be decompressed to at most {MAX_DECOMPRESSED:,} bytes ({_NAMES[codec]}: {problem})")


def _decompress(codec: int, data: memoryview, into: memoryview) -> int:
    """Decompress into a buffer and return the number of bytes written; fail if the buffer is too small."""
    if codec == _SNAPPY:
        return _decompress_snappy(data, into)
    return int(getattr(cramjam, _NAMES[codec]).decompress_into(data, into))


def _decompress_snappy(data: memoryview, into: memoryview) -> int:
    if data[:8] != _XERIAL or len(data) <= _XERIAL_HEADER:
        return int(cramjam.snappy.decompress_raw_into(data, into))
    at, made = _XERIAL_HEADER, 0
    while at < len(data):
        (length,) = _number(data, at)
        at += 4
        made += int(cramjam.snappy.decompress_raw_into(data[at : at + length], into[made:]))
        at += length
    return made


def _stand(batch: Any, raw: memoryview, why: str) -> _Stand:
    compressed, last = _compressed(raw), batch.next_offset - 1
    first = last if raw[_MAGIC_AT] < 2 else batch.base_offset
    said = (
        f"the batch of records at offsets {first} to {last} {why}; "
        f"it has {len(compressed):,} bytes as stored, with the SHA-256 {hashlib.sha256(compressed).hexdigest()}"
    )
    return _Stand(last, _newest(batch, raw), UnreadableBatch(said.encode()))


def _newest(batch: Any, raw: memoryview) -> int | None:
    """Return the time of a batch; a batch of format 0 has none."""
    if raw[_MAGIC_AT] >= 2:
        return int(batch.max_timestamp)
    return int(struct.unpack_from(">q", raw, _OLD_TIME_AT)[0]) if raw[_MAGIC_AT] else None


def _compressed(raw: memoryview) -> memoryview:
    """Return the records of a batch as it holds them, compressed or not."""
    if raw[_MAGIC_AT] >= 2:
        return raw[_HEADER:]
    at = _OLD_HEADERS[raw[_MAGIC_AT]]
    at += 4 + max(0, _number(raw, at)[0])
    return raw[at + 4 : at + 4 + max(0, _number(raw, at)[0])]


def _count(raw: memoryview) -> int:
    return int(_number(raw, _COUNT_AT)[0])


def limit_batches() -> None:
    """Limit the batches of consumers that are started in this context; others in the process are unaffected."""
    _kind.set(LimitedBatches)


def _batches(fetched: bytes) -> Any:
    return _kind.get()(fetched)


_unlimited = fetcher.MemoryRecords
_kind: ContextVar[Callable[[bytes], Any]] = ContextVar("poweron_batches", default=_unlimited)
fetcher.MemoryRecords = _batches  # aiokafka has no setting for this
