"""The rows of one schema, advanced along with the log: one transaction per batch (E-11).

Records of one topic enter the live rows exactly once, with any number of processes: the offset row decides which
process writes. A process can drop what it remembers at any time: the rows say where to continue.
`Rows` writes inside the caller's transactions, into any schema; `RowWriter` writes into the live rows.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import itemgetter
from typing import Final, Generic, TypeVar

from poweron_events import topics
from poweron_events.dead_letter import DeadLetter
from poweron_events.errors import Conflict, Unavailable
from poweron_events.log import EventLog, Message, Record
from poweron_projections import offsets
from poweron_projections.audit.ledger_rows import LedgerFolding, checkpoint_changes
from poweron_projections.bootstrap import views
from poweron_projections.connection import Connection, Pool, acquire, snapshot
from poweron_projections.folder import Folder, LocalFolder, LookUp
from poweron_projections.migrations import migrate
from poweron_projections.projection import Batch, Changes, put_dead_letters
from poweron_projections.records import RECORDS
from poweron_projections.tables import PROJECTED

BATCH_BYTES: Final = 8 * 2**20  # of records in one transaction; ordinary batches stay far below


MANY: Final = 50  # new rows of a table that make a separate COPY cheaper than one statement for all


APPEND_BYTES: Final = 2 * 2**20  # of dead letters in one append, which must be confirmed within seconds


_KNOWN_DEAD_LETTERS: Final = """
SELECT partition, log_offset
  FROM dead_letters
 WHERE topic = $1 AND (partition, log_offset) IN (SELECT * FROM unnest($2::integer[], $3::bigint[]))
"""


class Rows:
    """What a writer remembers between two transactions: how far the rows go, and the open workflows.

    After an error this memory may be ahead of the rows and must not be used. Dead letters are appended to `log`, unless
    it is None.
    """

    def __init__(self, log: EventLog | None, folder: Folder | None = None) -> None:
        self._log = log
        self._folder = folder or LocalFolder()
        self._ledger: LedgerFolding | None = None
        self.offsets: dict[str, dict[int, int]] = {}

    async def load(self, connection: Connection, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        """Begin where the rows end; return the next offset of each partition."""
        async with connection.transaction():  # a process that drops or exchanges the tables waits until both are done
            await offsets.stay(connection)
            await offsets.begin(connection, topic, partitions)
            found = await offsets.read(connection, topic)
            if topic == topics.LEDGER.name:
                self._ledger = await LedgerFolding.load(connection, found.get(0, 0))
        self.offsets[topic] = {partition: found[partition] for partition in partitions}
        return self.offsets[topic]

    async def return_to(self, connection: Connection, topic: str, ends: Mapping[int, int]) -> Mapping[int, int]:
        """Go back to the beginning of partitions that are shorter than the rows, because the topic was recreated.

        For dead letters only: each has a place of its own in the rows, and existing ones are kept.
        """
        before = {number: offset for number, offset in self.offsets[topic].items() if offset > ends[number]}
        after = dict.fromkeys(before, 0)
        if before:
            await offsets.move(connection, topic, before, after)
        self.offsets[topic] = {**self.offsets[topic], **after}
        return self.offsets[topic]

    async def check(self, connection: Connection, topic: str) -> None:
        """Compare the offsets with the remembered ones.

        Raises:
            Conflict: the rows were advanced or replaced.
        """
        found, remembered = await offsets.read(connection, topic), self.offsets.get(topic, {})
        if any(found.get(partition) != offset for partition, offset in remembered.items()):
            raise Conflict(f"the rows of {topic!r} are at {found!r}, but were left at {remembered!r}")

    async def write(self, connection: Connection, topic: str, records: Sequence[Record]) -> Changes:
        """Write the records into the rows, inside a repeatable-read transaction that the caller commits.

        Return what they change.

        Records before the offset are already there and are skipped, so a batch may be delivered twice.

        Raises:
            Conflict: another projector was first.
        """
        before = self.offsets[topic]
        await offsets.stay(connection)
        found = await offsets.read(connection, topic)
        fresh = [record for record in records if record.offset >= before[record.partition]]
        if any(found.get(record.partition) != before[record.partition] for record in fresh):
            raise Conflict(f"another projector has moved {topic!r} on from {before!r} to {found!r}")
        changes = await self.fold(topic, fresh, partial(views, connection))
        await self.put(connection, topic, fresh, changes)
        return changes

    async def fold(self, topic: str, records: Sequence[Record], look_up: LookUp) -> Changes:
        """Return what the records change in the rows."""
        if topic == topics.EVENTS.name:
            return await self._folder.fold(records, look_up)
        if topic == topics.LEDGER.name:
            assert self._ledger is not None  # `load` comes first
            return self._ledger.take(records)
        if topic == topics.CHECKPOINTS.name:
            return checkpoint_changes(records)
        batch = Batch()
        put_dead_letters(records, batch)
        return batch.changes()

    async def put(self, connection: Connection, topic: str, records: Sequence[Record], changes: Changes) -> None:
        """Write the changes of these records and advance past them, inside a transaction that the caller commits."""
        await self._append_dead_letters(connection, changes.letters)
        await _write(connection, changes)
        before = self.offsets[topic]
        after = {record.partition: record.offset + 1 for record in records}
        await offsets.move(connection, topic, before, after)
        self.offsets[topic] = {**before, **after}

    async def _append_dead_letters(self, connection: Connection, letters: Sequence[DeadLetter]) -> None:
        """Append a dead letter for each record that is not an event, unless the rows already hold it (E-14).

        It is appended before the commit, so at least once; a repetition has no effect.
        """
        if not letters or self._log is None:
            return
        places = [letter.partition for letter in letters], [letter.offset for letter in letters]
        known = {tuple(row) for row in await connection.fetch(_KNOWN_DEAD_LETTERS, topics.EVENTS.name, *places)}
        unknown = (letter.message() for letter in letters if (letter.partition, letter.offset) not in known)
        for some in Pieces[Message](most=len(letters), size=APPEND_BYTES).of(unknown):
            await self._log.append(topics.DEAD_LETTERS.name, some)


async def _write(connection: Connection, changes: Changes) -> None:
    for table in PROJECTED:
        new, replacing = changes.new.get(table.name, ()), changes.replacing.get(table.name, ())
        if new and (table.keeps == "all" or len(new) >= MANY):
            await connection.copy_records_to_table(table.name, records=new, columns=table.columns)
        else:
            replacing = [*new, *replacing]
        if replacing:
            await connection.execute(table.upsert, table.given(replacing))


T = TypeVar("T", Record, Message)


class Pieces(Generic[T]):
    """Splits items, in their order, into pieces of at most `most` items and `size` bytes.

    An item that is larger than that makes a piece of its own.
    """

    def __init__(self, *, most: int, size: int) -> None:
        self._most, self._size = most, size
        self._left: list[T] = []
        self._weight = 0

    def full(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Add these items and yield the pieces that are now full."""
        for item in items:
            weight = item.size
            if len(self._left) == self._most or (self._left and self._weight + weight > self._size):
                yield from self.rest()
            self._left.append(item)
            self._weight += weight

    def rest(self) -> Iterator[list[T]]:
        """Yield the last piece, which is not full, if there is one."""
        if self._left:
            left, self._left, self._weight = self._left, [], 0
            yield left

    def of(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Yield all items in pieces."""
        yield from self.full(items)
        yield from self.rest()


_TYPE_AND_VERDICT: Final = itemgetter(RECORDS.columns.index("type"), RECORDS.columns.index("verdict"))


BATCH: Final = 2_000  # records in one transaction


TRANSACTION_DEADLINE: Final = 30.0  # seconds


OTHERS_TURN: Final = 0.05  # seconds in which another writer, if it is alive, shows that it makes progress


MAX_CONFLICTS: Final = 10  # without progress by any writer


Renew = Callable[[], Awaitable[object]]
"""Replaces tables of an older release; raises Conflict if another process is doing so."""
Projected = Callable[[Mapping[tuple[str | None, str], int]], None]
"""Receives how many events of each type and verdict were committed; a record that is no event has no type."""


class RowWriter:
    """Writes records of one topic into the live rows."""

    def __init__(
        self, log: EventLog, pool: Pool, topic: str, *, renew: Renew, projected: Projected | None = None
    ) -> None:
        self._log, self._pool, self._topic = log, pool, topic
        self._renew = renew
        self._projected = projected
        self._rows = Rows(log)

    async def load(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Drop the remembered state and begin from the rows, which are created if they do not exist.

        Returns:
            The next offset of each partition.

        Raises:
            Unavailable: Postgres cannot be reached.
            Conflict: the rows are of an older release, and another process is rebuilding them.
        """
        async with _deadline():
            current = await migrate(self._pool)
        if not current:
            await self._renew()
        async with _deadline(), acquire(self._pool) as connection:
            self._rows = Rows(self._log)
            found = await self._rows.load(connection, self._topic, partitions)
            if self._topic == topics.DEAD_LETTERS.name:
                found = await self._rows.return_to(connection, self._topic, await self._log.ends(self._topic))
            return found

    async def check(self) -> None:
        """Check that the rows are where they were left.

        Raises:
            Unavailable: Postgres cannot be reached, or the rows were deleted; `load` creates them again.
            Conflict: they have moved: another writer was first, or other rows have replaced them.
        """
        async with _deadline(), acquire(self._pool) as connection:
            await self._rows.check(connection, self._topic)

    async def project(self, records: Sequence[Record]) -> None:
        """Write the records into the rows; records that are already there have no effect.

        Raises:
            Unavailable: it is unknown whether they were written; `load` finds out.
            Conflict: another writer was first; `load` finds out how far it is.
        """
        for some in Pieces[Record](most=BATCH, size=BATCH_BYTES).of(records):
            async with _deadline(), snapshot(self._pool, readonly=False) as connection:
                changes = await self._rows.write(connection, self._topic, some)
            if self._projected is not None:
                self._projected(Counter(map(_TYPE_AND_VERDICT, changes.new.get(RECORDS.name, ()))))

    async def catch_up(self, ends: Mapping[int, int]) -> None:
        """Bring the rows to these ends, waiting for another writer for as long as it makes progress.

        Raises:
            Unavailable: the log or Postgres cannot be reached.
            Conflict: there is no progress: the offsets do not account for some rows; a rebuild fixes that.
        """
        seen: Mapping[int, int] = {}
        conflicts = 0
        while True:
            try:
                found = await self.load(sorted(ends))
                behind = {partition: end for partition, end in ends.items() if found[partition] < end}
                if not behind:
                    return
                if found != seen:
                    seen, conflicts = found, 0
                    await asyncio.sleep(OTHERS_TURN)
                    continue
                async for records in self._log.read(self._topic, found, behind):
                    await self.project(records)
            except Conflict:
                conflicts += 1
                if conflicts == MAX_CONFLICTS:
                    raise
                await asyncio.sleep(OTHERS_TURN)


@asynccontextmanager
async def _deadline() -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(TRANSACTION_DEADLINE):
            yield
    except TimeoutError as error:
        raise Unavailable(f"Postgres did not answer within {TRANSACTION_DEADLINE} s") from error
