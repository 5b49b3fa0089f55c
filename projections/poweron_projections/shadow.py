"""Rows made from scratch from the log beside the live ones, for a rebuild to exchange and for `verify` to compare.

The caller's search path decides where they are: in a schema that stays, or in temporary tables.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from poweron_events import topics
from poweron_events.log import EventLog, Record
from poweron_events.task_cancellation import cancel_task
from poweron_projections import offsets
from poweron_projections.bootstrap import views
from poweron_projections.connection import Connection
from poweron_projections.folder import Folder, LocalFolder, folders
from poweron_projections.projection import View
from poweron_projections.records import RECORDS, DamagedRecord, decompress, digest
from poweron_projections.rows import BATCH_BYTES, Pieces, Rows
from poweron_projections.tables import ALL

EVENTS: Final = topics.EVENTS.name
DEAD_LETTERS: Final = topics.DEAD_LETTERS.name
BESIDE_EVENTS: Final = tuple(topic.name for topic in topics.BESIDE_EVENTS)

BATCH: Final = 5_000  # records written at a time
DIGESTED: Final = 500  # records fetched at a time while their digests are computed
MAX_DIFFERENCES: Final = 1_000  # rows reported for each table

Ends = Mapping[str, Mapping[int, int]]
"""For each topic, the offsets up to which rows are made."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell or row that differs from what the log adds up to. `column` is None if a whole row is missing or extra."""

    table: str
    key: dict[str, Any]
    column: str | None
    expected: Any
    found: Any


OnRead = Callable[[int, int], None]
"""Receives the number of records in the rows, and the total; called in the event loop, it must not block."""


def ignore_progress(_: int, __: int) -> None:
    """Ignore the progress."""


@dataclass(slots=True)
class ReadCount:
    """The number of records in the rows, and the total."""

    told: OnRead = ignore_progress
    done: int = 0
    total: int = 0

    def expect(self, more: int) -> None:
        self.total += more

    def add(self, more: int) -> None:
        self.done += more
        self.told(self.done, max(self.done, self.total))


@dataclass(frozen=True, slots=True)
class Shadow:
    """Rows being rebuilt in the schema that the connection uses. Dead letters are appended to the log if `tells`."""

    log: EventLog
    connection: Connection
    tells: bool
    count: ReadCount = field(default_factory=ReadCount)
    _free: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def fill(self, ends: Ends) -> None:
        """Fold everything up to these ends into the rows; dead letters first, so that none is appended twice."""
        if DEAD_LETTERS in ends:
            await self._take(DEAD_LETTERS, ends[DEAD_LETTERS], LocalFolder())
        events = ends.get(EVENTS, {})
        taken = await offsets.read(self.connection, EVENTS) if events else {}
        async with folders(sum(events.values()) - sum(taken.values()), len(events)) as chosen:
            shares = [(EVENTS, *each) for each in zip(_shares(events, len(chosen)), chosen, strict=True) if events]
            others = [topic for topic in BESIDE_EVENTS if topic in ends and topic != DEAD_LETTERS]
            shares += [(topic, dict(ends[topic]), LocalFolder()) for topic in others]
            await _together(self._take(*share) for share in shares)

    async def _take(self, topic: str, ends: Mapping[int, int], folder: Folder) -> None:
        rows = Rows(self.log if self.tells else None, folder)
        async with self._free:
            start = await rows.load(self.connection, topic, sorted(ends))
        self.count.expect(sum(max(0, end - start.get(number, 0)) for number, end in ends.items()))
        async for records in _ahead(_batched(self.log.read(topic, start, ends))):
            changes = await rows.fold(topic, records, self._look_up)
            async with self._free, self.connection.transaction():
                await rows.put(self.connection, topic, records, changes)
            self.count.add(len(records))

    async def _look_up(self, workflow_ids: Collection[str]) -> Mapping[str, View]:
        async with self._free, self.connection.transaction():
            return await views(self.connection, workflow_ids)


def _shares(ends: Mapping[int, int], count: int) -> list[dict[int, int]]:
    """Distribute the partitions among this number of folders."""
    return [dict(sorted(ends.items())[place::count]) for place in range(count)]


async def _together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all work concurrently; the first error cancels the rest."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def _batched(reads: AsyncIterator[Sequence[Record]]) -> AsyncIterator[Sequence[Record]]:
    """Yield the same records in batches that are large enough for a transaction."""
    pieces = Pieces[Record](most=BATCH, size=BATCH_BYTES)
    async for records in reads:
        for batch in pieces.full(records):
            yield batch
    for batch in pieces.rest():
        yield batch


async def _ahead(batches: AsyncIterator[Sequence[Record]]) -> AsyncIterator[Sequence[Record]]:
    """Yield the same batches; the next one is read while a batch is being taken."""
    reading = asyncio.create_task(_next(batches))
    try:
        while (batch := await reading) is not None:
            reading = asyncio.create_task(_next(batches))
            yield batch
    finally:
        await cancel_task(reading)


async def _next(batches: AsyncIterator[Sequence[Record]]) -> Sequence[Record] | None:
    return await anext(batches, None)


async def live_ends(log: EventLog, connection: Connection, schema: str, seen: Ends) -> Ends:
    """Return how far rows must be made for a comparison: as far as the live ones go, at least to the ends `seen`.

    Never beyond the log: an offset that claims more is a difference.
    """
    found = await connection.fetch(f"SELECT topic, partition, next_offset FROM {schema}.{offsets.OFFSETS.name}")  # noqa: S608 - our own names
    claimed = {(row["topic"], row["partition"]): row["next_offset"] for row in found}
    return {
        topic: {
            partition: min(max(claimed.get((topic, partition), 0), seen[topic][partition]), end)
            for partition, end in (await log.ends(topic)).items()
        }
        for topic in (*BESIDE_EVENTS, EVENTS)
    }


async def ends_of(log: EventLog) -> Ends:
    """Return the current ends of all topics that rows are made of."""
    return {topic: await log.ends(topic) for topic in (*BESIDE_EVENTS, EVENTS)}


async def differences(connection: Connection, *, expected: str, found: str) -> list[Difference]:
    """Return every cell, and every missing or extra row, in which two schemas differ."""
    named: list[Difference] = []
    for table in ALL:
        for row in await connection.fetch(table.differences(expected, found), MAX_DIFFERENCES):
            named += _named(table.name, row["key"], row["expected"], row["found"])
    return named


async def damaged_records(connection: Connection, *, expected: str, found: str) -> list[Difference]:
    """Return the records whose bytes do not match their digest, with both digests in hexadecimal.

    The digests themselves are cells like any others, which `differences` compares. Bytes that are compressed as
    expected are right; only others, for example of another release of Zstandard, are decompressed.
    """
    named: list[Difference] = []
    query = (
        f"SELECT partition, log_offset, f.sha256, f.compressed FROM {found}.{RECORDS.name} f "  # noqa: S608 - our own names
        f"LEFT JOIN {expected}.{RECORDS.name} e USING (partition, log_offset) "
        "WHERE f.compressed IS NOT NULL AND f.compressed IS DISTINCT FROM e.compressed"
    )
    async with connection.transaction():
        async for row in connection.cursor(query, prefetch=DIGESTED):
            held = _digest(row["compressed"])
            if held != row["sha256"]:
                key = {"partition": row["partition"], "log_offset": row["log_offset"]}
                hexadecimal = None if held is None else held.hex()
                named.append(Difference(RECORDS.name, key, "compressed", row["sha256"].hex(), hexadecimal))
            if len(named) == MAX_DIFFERENCES:
                break
    return named


def _digest(compressed: bytes) -> bytes | None:
    try:
        return digest(decompress(compressed))
    except DamagedRecord:
        return None


def _named(
    table: str, key: dict[str, Any], expected: dict[str, Any] | None, found: dict[str, Any] | None
) -> list[Difference]:
    if expected is None or found is None:
        return [Difference(table, key, None, expected, found)]
    return [
        Difference(table, key, column, value, found[column])
        for column, value in expected.items()
        if value != found[column]
    ]
