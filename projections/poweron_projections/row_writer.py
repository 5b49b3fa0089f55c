"""Writing rows: records of one topic enter the live rows exactly once, with any number of processes (E-11).

The offset row decides which process writes. A process can drop what it remembers at any time: the rows say where
to continue.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from poweron_events import topics
from poweron_events.errors import Conflict, Unavailable
from poweron_events.log import EventLog, Record
from poweron_projections.batches import Pieces
from poweron_projections.connection import Pool, acquire, snapshot
from poweron_projections.migrations import migrate
from poweron_projections.rows import BATCH_BYTES, Rows

BATCH: Final = 2_000  # records in one transaction
TRANSACTION_DEADLINE: Final = 30.0  # seconds
OTHERS_TURN: Final = 0.05  # seconds in which another writer, if it is alive, shows that it makes progress
MAX_CONFLICTS: Final = 10  # without progress by any writer

Renew = Callable[[], Awaitable[object]]
"""Replaces tables of an older release; raises Conflict if another process is doing so."""


class RowWriter:
    """Writes records of one topic into the live rows."""

    def __init__(self, log: EventLog, pool: Pool, topic: str, *, renew: Renew) -> None:
        self._log, self._pool, self._topic = log, pool, topic
        self._renew = renew
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
                await self._rows.write(connection, self._topic, some)

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
