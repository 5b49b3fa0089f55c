"""The rows of one schema, advanced along with the log: one transaction per batch (E-11)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from poweron_events import topics
from poweron_events.dead_letter import DeadLetter
from poweron_events.errors import Conflict
from poweron_events.log import EventLog, Message, Record
from poweron_projections import offsets
from poweron_projections.batches import Pieces
from poweron_projections.bootstrap import views
from poweron_projections.connection import Connection
from poweron_projections.folder import Folder, LocalFolder, LookUp
from poweron_projections.projection import Batch, Changes, put_dead_letters
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
    """What is remembered between two transactions: how far the rows go, and the open workflows.

    After an error this memory may be ahead of the rows and must not be used. Dead letters are appended to `log`, unless
    it is None.
    """

    def __init__(self, log: EventLog | None, folder: Folder | None = None) -> None:
        self._log = log
        self._folder = folder or LocalFolder()
        self.offsets: dict[str, dict[int, int]] = {}

    async def load(self, connection: Connection, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        """Begin where the rows end; return the next offset of each partition."""
        async with connection.transaction():  # a process that drops or exchanges the tables waits until both are done
            await offsets.stay(connection)
            await offsets.begin(connection, topic, partitions)
            found = await offsets.read(connection, topic)
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

    async def write(self, connection: Connection, topic: str, records: Sequence[Record]) -> None:
        """Write the records into the rows, inside a repeatable-read transaction that the caller commits.

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

    async def fold(self, topic: str, records: Sequence[Record], look_up: LookUp) -> Changes:
        """Return what the records change in the rows."""
        if topic == topics.EVENTS.name:
            return await self._folder.fold(records, look_up)
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
