"""Batches of records that are larger than what is read of one: by every codec and in every format that Kafka knows."""

import gzip
import hashlib
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cramjam
import pytest
from aiokafka import TopicPartition, codec
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from poweron_events import topics
from poweron_events.log.kafka_batches import MAX_COUNT, MAX_DECOMPRESSED, LimitedBatches, UnreadableBatch

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"none": 0, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
FORMATS = [
    *(pytest.param(2, number, id=f"format 2, {name}") for name, number in CODECS.items()),
    *(pytest.param(1, number, id=f"format 1, {name}") for name, number in CODECS.items() if name != "zstd"),
    *(pytest.param(0, number, id=f"format 0, {name}") for name, number in CODECS.items() if name in {"gzip", "snappy"}),
]
COMPRESSED = [each for each in FORMATS if each.values[1]]
AT = 1_700_000_000_000
MEGABYTE = 1_048_576


def batch(magic: int, number: int, values: Sequence[bytes | None], *, base: int = 0) -> bytes:
    """A batch as a broker keeps it: the records have the offsets from `base` on."""
    if magic < 2:
        old = LegacyRecordBatchBuilder(magic, number, 2**30)
        for offset, value in enumerate(values):
            assert old.append(offset if magic else base + offset, AT, b"key", value)
        built = bytearray(old.build())
        last = base + (len(values) - 1 if number else 0)
    else:
        new = DefaultRecordBatchBuilder(2, number, 0, -1, -1, -1, 2**30)
        for offset, value in enumerate(values):
            assert new.append(offset, AT, b"key", value, [("name", b"content")])
        built, last = bytearray(new.build()), base
    built[:8] = struct.pack(">q", last)
    return bytes(built)


def read(kind: Callable[[bytes], Any], fetched: bytes, start: int = 0) -> list[Any]:
    partition = TopicPartition("topic", 3)
    return list(fetcher.PartitionRecords(partition, kind(fetched), [], start, None, None, 1, fetcher.READ_UNCOMMITTED))


@pytest.mark.parametrize(("magic", "number"), FORMATS)
def test_what_is_small_enough_is_read_as_ever(magic: int, number: int) -> None:
    values = [b"", None, b"a" * 100, bytes(range(256)) * 900] if number or magic == 2 else [b"one"]
    fetched = batch(magic, number, values, base=5) + batch(magic, number, [b"behind"], base=5 + len(values))
    assert read(LimitedBatches, fetched) == read(MemoryRecords, fetched)
    assert [(each.offset, each.value) for each in read(LimitedBatches, fetched)] == [
        *enumerate(values, 5),
        (5 + len(values), b"behind"),
    ]


@pytest.mark.parametrize(("magic", "number"), COMPRESSED)
def test_the_largest_record_of_ours_is_read_however_it_is_compressed(magic: int, number: int) -> None:
    largest = b"x" * topics.MAX_RECORD
    assert [each.value for each in read(LimitedBatches, batch(magic, number, [largest]))] == [largest]


@pytest.mark.parametrize(("magic", "number"), COMPRESSED)
def test_one_record_stands_in_place_of_a_batch_that_is_too_large(magic: int, number: int) -> None:
    bomb = batch(magic, number, [b"lost", b" " * MAX_DECOMPRESSED, b"lost"], base=7)
    fetched = batch(magic, number, [b"before"], base=6) + bomb + batch(magic, number, [b"behind"], base=10)
    before, stand, behind = read(LimitedBatches, fetched)
    assert [(each.offset, each.value) for each in (before, behind)] == [(6, b"before"), (10, b"behind")]
    assert (stand.offset, stand.key) == (9, None)
    assert magic < 2 or stand.timestamp == before.timestamp
    assert isinstance(stand.value, UnreadableBatch)
    said, compressed = stand.value.decode(), compressed_records(magic, bomb)
    assert f"offsets {7 if magic == 2 else 9} to 9" in said
    assert f"{len(compressed):,} bytes" in said
    assert hashlib.sha256(compressed).hexdigest() in said


def compressed_records(magic: int, built: bytes) -> bytes:
    """The compressed part of a batch; a key of an old wrapper is never written."""
    return built[{2: 61, 1: 34, 0: 26}[magic] :]


def test_who_begins_in_the_middle_of_such_a_batch_goes_on_behind_it() -> None:
    fetched = batch(2, ZSTD, [b"lost", b" " * MAX_DECOMPRESSED, b"lost"], base=7) + batch(2, ZSTD, [b"behind"], base=10)
    assert [each.offset for each in read(LimitedBatches, fetched, start=8)] == [9, 10]


@pytest.mark.parametrize("number", [0, ZSTD])
def test_a_batch_of_too_many_records_is_not_read(number: int) -> None:
    most = read(LimitedBatches, batch(2, number, [b""] * MAX_COUNT))
    assert len(most) == MAX_COUNT
    (stand,) = read(LimitedBatches, batch(2, number, [b""] * (MAX_COUNT + 1)))
    assert stand.offset == MAX_COUNT
    assert f"holds {MAX_COUNT + 1:,} records" in stand.value.decode()


@pytest.mark.parametrize("number", [0, ZSTD])
def test_a_batch_that_claims_two_thousand_million_records_is_not_read(number: int) -> None:
    claiming = bytearray(batch(2, number, [b"one"]))
    claiming[57:61] = struct.pack(">i", 2**31 - 1)
    (stand,) = read(LimitedBatches, checked(claiming))
    assert "holds 2,147,483,647 records" in stand.value.decode()


@pytest.mark.parametrize("number", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_that_is_damaged_is_not_read(number: int) -> None:
    damaged = bytearray(batch(2, number, [bytes(range(256)) * 40]))
    damaged[61:] = b"\xff" * (len(damaged) - 61)
    (stand,) = read(LimitedBatches, checked(damaged))
    assert "cannot be decompressed" in stand.value.decode()


def checked(built: bytearray) -> bytes:
    """The batch with the checksum that it must have."""
    built[17:21] = struct.pack(">I", calc_crc32c(bytes(built[21:])))
    return bytes(built)


def test_a_batch_with_a_wrong_checksum_is_refused_as_ever() -> None:
    wrong = bytearray(batch(2, ZSTD, [b"one"]))
    wrong[17] ^= 1
    with pytest.raises(Exception, match="Invalid CRC"):
        read(LimitedBatches, bytes(wrong))


def repeated(made: Callable[[bytes], bytes], times: int) -> Iterator[bytes]:
    yield from [made(b" " * MEGABYTE)] * times


STREAMS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "one frame": (ZSTD, lambda: codec.zstd_encode(b" " * (64 * MEGABYTE))),
    "many frames": (ZSTD, lambda: b"".join(repeated(codec.zstd_encode, 64))),
    "one member": (GZIP, lambda: gzip.compress(b" " * (64 * MEGABYTE))),
    "many members": (GZIP, lambda: b"".join(repeated(gzip.compress, 64))),
    "one lz4 frame": (LZ4, lambda: codec.lz4_encode(b" " * (64 * MEGABYTE))),
    "many lz4 frames": (LZ4, lambda: b"".join(repeated(codec.lz4_encode, 64))),
    "blocks of xerial": (SNAPPY, lambda: codec.snappy_encode(b" " * (64 * MEGABYTE))),
    "snappy without blocks": (SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(b" " * (64 * MEGABYTE)))),
    "snappy that lies": (SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"\xfe\x01\x00" * 1_000),
    "a block of xerial that lies": (SNAPPY, lambda: codec.snappy_encode(b"a")[:16] + struct.pack(">i", 2**31 - 1)),
}


def stream(number: int, compressed: bytes) -> bytes:
    """A batch with these compressed bytes."""
    built = bytearray(batch(2, number, [b"one"])[:61]) + compressed
    built[8:12] = struct.pack(">i", len(built) - 12)
    return checked(built)


@pytest.mark.parametrize("name", STREAMS)
def test_no_way_to_write_a_stream_makes_it_fit(name: str) -> None:
    number, made = STREAMS[name]
    (stand,) = read(LimitedBatches, stream(number, made()))
    assert "cannot be decompressed to at most 8,388,608 bytes" in stand.value.decode()


MEASURE = """
import sys
from contextlib import suppress
from pathlib import Path
from aiokafka.record.memory_records import MemoryRecords
from poweron_events.log.kafka_batches import LimitedBatches

def highest():
    (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1])

kind, *files = sys.argv[1:]
fetched = [Path(file).read_bytes() for file in files]
before = highest()
for each in fetched:
    batches = globals()[kind](each)
    while batches.has_next():
        with suppress(Exception):  # once decompressed, it holds no records
            list(batches.next_batch())
print(highest() - before)
"""
ENCODE: dict[int, Callable[[bytes], bytes]] = {
    GZIP: gzip.compress,
    LZ4: codec.lz4_encode,
    ZSTD: codec.zstd_encode,
    SNAPPY: lambda megabyte: codec.snappy_encode(megabyte)[16:],
}


def test_a_bomb_takes_no_more_memory_than_the_limit(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in ENCODE]
    for (number, encode), file in zip(ENCODE.items(), files, strict=True):
        start = codec.snappy_encode(b"")[:16] if number == SNAPPY else b""
        file.write_bytes(stream(number, start + b"".join(repeated(encode, 128))))

    def kilobytes(kind: str) -> int:
        command = [sys.executable, "-c", MEASURE, kind, *map(str, files)]
        return int(subprocess.run(command, check=True, capture_output=True).stdout)

    assert kilobytes("LimitedBatches") * 3 < kilobytes("MemoryRecords")
