"""The projector: brings what the log says into the rows, exactly once, and stays with it (E-11).

Any number may run; the offset row decides which of them writes. All that one remembers can be
forgotten at any time: the rows say where to go on.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from poweron_events import topics
from poweron_events.errors import Conflict, PowerOnError, Unavailable
from poweron_events.log import EventLog, Follower, Polled, Record
from poweron_events.retry import Backoff
from poweron_projections.batches import Pieces
from poweron_projections.connection import Pool, acquire, snapshot
from poweron_projections.migrations import migrate
from poweron_projections.rows import BATCH_BYTES, Rows

log = logging.getLogger(__name__)

GROUP: Final = "poweron.projector"
DEAD_LETTERS_GROUP: Final = "poweron.projector.deadletter"

BATCH: Final = 2_000  # records in one transaction
GATHER: Final = 0.05  # seconds in which records gather after a small transaction: many at once cost far less
POLL: Final = 0.2  # seconds
IDLE: Final = 5.0  # seconds without records after which the rows are asked whether they are where they were left
PATIENCE: Final = 0.5  # seconds that a transaction may take before polling goes on beside it
TRANSACTION_DEADLINE: Final = 30.0  # seconds
STOP_TIMEOUT: Final = 5.0  # seconds
ANOTHERS_TURN: Final = 0.05  # seconds in which a living projector shows that it moves
STUCK: Final = 10  # conflicts without any progress of anybody


class Projector:
    """Takes records of one topic into the live rows."""

    def __init__(self, log: EventLog, pool: Pool, topic: str) -> None:
        self._log, self._pool, self._topic = log, pool, topic
        self._rows = Rows(log)

    async def load(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Forget everything and begin from the rows, which are made if they are not there.

        Returns:
            The next offset of each partition.

        Raises:
            Unavailable: Postgres cannot be reached.
            Conflict: the rows are of an older release, and another process is rebuilding them.
        """
        async with _deadline():
            current = await migrate(self._pool)
        if not current:
            from poweron_projections.rebuild import rebuild  # noqa: PLC0415 - rebuilding projects in its turn

            await rebuild(self._log, self._pool)
        async with _deadline(), acquire(self._pool) as connection:
            self._rows = Rows(self._log)
            return await self._rows.load(connection, self._topic, partitions)

    async def check(self) -> None:
        """Make sure that the rows are where they were left.

        Raises:
            Unavailable: Postgres cannot be reached, or the rows were deleted; `load` makes them anew.
            Conflict: they are elsewhere: another projector was first, or other rows took their place.
        """
        async with _deadline(), acquire(self._pool) as connection:
            await self._rows.check(connection, self._topic)

    async def project(self, records: Sequence[Record]) -> None:
        """Take the records into the rows; those that are there already have no effect.

        Raises:
            Unavailable: it is not known whether they are in the rows; `load` tells.
            Conflict: another projector was first; `load` tells how far it is.
        """
        for some in Pieces[Record](most=BATCH, size=BATCH_BYTES).of(records):
            async with _deadline(), snapshot(self._pool, readonly=False) as connection:
                await self._rows.write(connection, self._topic, some)


@asynccontextmanager
async def _deadline() -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(TRANSACTION_DEADLINE):
            yield
    except TimeoutError as error:
        raise Unavailable(f"Postgres did not answer within {TRANSACTION_DEADLINE} s") from error


async def run(log: EventLog, pool: Pool) -> None:
    """Project events and dead letters until cancelled; what fails is tried again, later and later."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_follow(log, pool, topics.EVENTS.name, GROUP))
        group.create_task(_follow(log, pool, topics.DEAD_LETTERS.name, DEAD_LETTERS_GROUP))


async def catch_up(log: EventLog, pool: Pool, ends: Mapping[int, int] | None = None) -> None:
    """Bring the rows to these ends of `poweron.events`, by default those seen now, and to all dead letters.

    A living projector is waited for as long as it moves; where nobody projects, this does.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
        Conflict: nobody gets on: rows are there that the offsets do not know of; a rebuild mends that.
    """
    events, dead_letters = topics.EVENTS.name, topics.DEAD_LETTERS.name
    await _catch_up(log, pool, events, await log.ends(events) if ends is None else ends)
    await _catch_up(log, pool, dead_letters, await log.ends(dead_letters))


async def _catch_up(log: EventLog, pool: Pool, topic: str, ends: Mapping[int, int]) -> None:
    projector = Projector(log, pool, topic)
    seen: Mapping[int, int] = {}
    conflicts = 0
    while True:
        try:
            found = await projector.load(sorted(ends))
            behind = {partition: end for partition, end in ends.items() if found[partition] < end}
            if not behind:
                return
            if found != seen:
                seen, conflicts = found, 0
                await asyncio.sleep(ANOTHERS_TURN)
                continue
            async for records in log.read(topic, found, behind):
                await projector.project(records)
        except Conflict:
            conflicts += 1
            if conflicts == STUCK:
                raise
            await asyncio.sleep(ANOTHERS_TURN)


async def _follow(log: EventLog, pool: Pool, topic: str, group: str) -> None:
    async with log.follow(topic, group) as follower:
        following = _Following(follower, Projector(log, pool, topic))
        while True:
            await following.go_on()


class _Following:
    """A follower, the projector that it feeds, and whether the two stand at the same place."""

    def __init__(self, follower: Follower, projector: Projector) -> None:
        self._follower, self._projector = follower, projector
        self._assigned: frozenset[int] = frozenset()
        self._in_place = True
        self._backoff = Backoff()
        self._not_before = self._idle_since = 0.0

    async def go_on(self) -> None:
        """Poll once, and do what is to be done."""
        polled = await self._poll(POLL)
        now = asyncio.get_running_loop().time()
        if not self._in_place:
            if now >= self._not_before:
                await self._attempt(self._take_place())
        elif polled.records:
            self._idle_since = now
            await self._attempt(self._projector.project(polled.records))
            await asyncio.sleep(GATHER if len(polled.records) < BATCH else 0)
        elif now >= self._idle_since + IDLE:
            self._idle_since = now
            await self._attempt(self._projector.check())

    async def _poll(self, timeout: float) -> Polled:
        try:
            polled = await self._follower.poll(timeout)
        except Unavailable:
            await asyncio.sleep(timeout)
            return Polled(frozenset(), frozenset(), ())
        if polled.revoked or polled.assigned:
            self._assigned = (self._assigned - polled.revoked) | polled.assigned
            self._in_place = False
        return polled

    async def _take_place(self) -> None:
        """Begin where the rows end."""
        assigned = self._assigned
        for partition, offset in (await self._projector.load(sorted(assigned))).items():
            await self._follower.seek(partition, offset)
        self._follower.pause(frozenset())
        self._in_place = assigned == self._assigned

    async def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; polling goes on beside it if it takes long (E-09)."""
        task = asyncio.create_task(work)
        missed = False
        try:
            await asyncio.wait({task}, timeout=PATIENCE)
            while not task.done():
                self._follower.pause(self._assigned)
                missed |= bool((await self._poll(POLL)).records)
            self._follower.pause(frozenset())
            task.result()
            self._in_place = self._in_place and not missed
        except PowerOnError as error:
            self._later(error)
        else:
            self._backoff = Backoff()
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=STOP_TIMEOUT)

    def _later(self, error: PowerOnError) -> None:
        pause = self._backoff.next()
        if not isinstance(error, Conflict):
            log.warning("projecting is tried again later", extra={"error": str(error), "pause": pause})
        self._in_place = False
        self._not_before = asyncio.get_running_loop().time() + pause
