"""The rows of one schema, moved along with the log: one transaction a batch (E-11)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from poweron_events import topics
from poweron_events.codec import Undecodable
from poweron_events.errors import Conflict
from poweron_events.log import EventLog, Record
from poweron_projections import offsets
from poweron_projections.connection import Connection
from poweron_projections.projection import (
    Batch,
    Read,
    View,
    dead_letter,
    project,
    put_dead_letters,
    put_undecodable,
    read,
    settle,
)
from poweron_projections.snapshots import views
from poweron_projections.table import columns_of
from poweron_projections.tables import PROJECTED

BREATH: Final = 100  # records folded before others on the event loop get their turn

_BURIED: Final = """
SELECT partition, log_offset
  FROM dead_letters
 WHERE topic = $1 AND (partition, log_offset) IN (SELECT * FROM unnest($2::integer[], $3::bigint[]))
"""


class Rows:
    """What is remembered between two transactions: how far the rows go, and the open workflows.

    After any error the memory may be ahead of the rows: `load` forgets it. Dead letters are told to `log`,
    to nobody where it is None.
    """

    def __init__(self, log: EventLog | None) -> None:
        self._log = log
        self.offsets: dict[str, dict[int, int]] = {}
        self._views: dict[str, View] = {}

    async def load(self, connection: Connection, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        """Begin anew from what the rows say: the next offset of each partition."""
        self._views.clear()
        async with connection.transaction():  # whoever drops or exchanges the tables waits until both are done
            await offsets.begin(connection, topic, partitions)
            found = await offsets.read(connection, topic)
        self.offsets[topic] = {partition: found[partition] for partition in partitions}
        return self.offsets[topic]

    async def check(self, connection: Connection, topic: str) -> None:
        """Compare the offsets with those remembered.

        Raises:
            Conflict: the rows were moved on, or replaced.
        """
        found, remembered = await offsets.read(connection, topic), self.offsets.get(topic, {})
        if any(found.get(partition) != offset for partition, offset in remembered.items()):
            raise Conflict(f"the rows of {topic!r} are at {found!r}, but were left at {remembered!r}")

    async def write(self, connection: Connection, topic: str, records: Sequence[Record]) -> None:
        """Take the records into the rows, inside a repeatable-read transaction that the caller commits.

        Records before the offset are already there and are left out, so that a batch can come twice.

        Raises:
            Conflict: another projector was first.
        """
        before = self.offsets[topic]
        await offsets.stay(connection)
        found = await offsets.read(connection, topic)
        fresh = [record for record in records if record.offset >= before[record.partition]]
        after = {record.partition: record.offset + 1 for record in fresh}
        if any(found.get(partition) != before[partition] for partition in after):
            raise Conflict(f"another projector has moved {topic!r} on from {before!r} to {found!r}")
        batch = Batch()
        if topic == topics.EVENTS.name:
            await self._fold(connection, [read(record) for record in fresh], batch)
        else:
            put_dead_letters(fresh, batch)
        await _write(connection, batch)
        await offsets.move(connection, topic, before, after)
        self.offsets[topic] = {**before, **after}

    async def _fold(self, connection: Connection, reads: Sequence[Read], batch: Batch) -> None:
        await self._bury(connection, reads)
        named = {recorded.envelope.workflow_id for _, recorded in reads if not isinstance(recorded, Undecodable)}
        unheld = named - self._views.keys()
        if unheld:
            self._views.update(await views(connection, unheld))
        for place, (record, recorded) in enumerate(reads):
            if place % BREATH == BREATH - 1:
                await asyncio.sleep(0)
            if isinstance(recorded, Undecodable):
                put_undecodable(record, batch)
            else:
                workflow_id = recorded.envelope.workflow_id
                view = self._views.get(workflow_id) or View.of(workflow_id)
                self._views[workflow_id] = project(view, record, recorded, batch)
        for workflow_id in named:
            view = settle(self._views.pop(workflow_id), batch)
            if view.workflow.is_open:
                self._views[workflow_id] = view

    async def _bury(self, connection: Connection, reads: Sequence[Read]) -> None:
        """Append a dead letter for each record that is no event, unless the rows hold it already (E-14).

        It comes before the commit, so at least once; telling it again has no effect.
        """
        letters = [dead_letter(record, error) for record, error in reads if isinstance(error, Undecodable)]
        if not letters or self._log is None:
            return
        places = [letter.partition for letter in letters], [letter.offset for letter in letters]
        buried = {tuple(row) for row in await connection.fetch(_BURIED, topics.EVENTS.name, *places)}
        untold = [letter.message() for letter in letters if (letter.partition, letter.offset) not in buried]
        if untold:
            await self._log.append(topics.DEAD_LETTERS.name, untold)


async def _write(connection: Connection, batch: Batch) -> None:
    for table in PROJECTED:
        rows = batch.of(table)
        if rows and table.keeps == "all":
            await connection.copy_records_to_table(table.name, records=rows, columns=table.columns)
        elif rows:
            await connection.execute(table.upsert, *columns_of(rows))
