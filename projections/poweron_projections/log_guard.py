"""The log as all of PowerOn uses it: closed once it no longer holds what the rows were made from (docs/decisions/0019).

Rows are made from records, so the log is as long as they are, and begins and ends with the records that they hold.
If it does not, events were lost, and appending to it now would hide that. `find_loss` reports what is lost, so that
users can look at it before they recover.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from math import inf
from typing import Final, NamedTuple

from poweron_events import topics
from poweron_events.errors import Conflict, LogLost, Refused, Unavailable
from poweron_events.event import Model
from poweron_events.log import EventLog, Follower, GroupState, Message, Record
from poweron_projections.connection import Pool, acquire, snapshot
from poweron_projections.reader import time
from poweron_projections.records import digest

EVENTS: Final = topics.EVENTS.name

SEEN_WITHIN: Final = 1.0  # seconds before an append in which the log must have been seen to be as long as the rows
QUERY_TIMEOUT: Final = 10.0  # seconds

_HAS_ROWS: Final = "SELECT to_regclass('offsets') IS NOT NULL AND to_regclass('records') IS NOT NULL"
_FIRST_AND_LAST: Final = """
SELECT offsets.partition, kept.first, kept.log_offset, kept.sha256
  FROM offsets
 CROSS JOIN LATERAL (
           (SELECT TRUE AS first, log_offset, sha256 FROM records
             WHERE records.partition = offsets.partition ORDER BY log_offset LIMIT 1)
           UNION ALL
           (SELECT FALSE, log_offset, sha256 FROM records
             WHERE records.partition = offsets.partition ORDER BY log_offset DESC LIMIT 1)
       ) AS kept
 WHERE offsets.topic = $1
"""


class KeptRecord(NamedTuple):
    """A record that the rows were made from, the first or the last one of its partition."""

    partition: int
    first: bool
    offset: int
    sha256: bytes


class GuardedLog:
    """An `EventLog` whose `append` and `ends` raise LogLost once events that were there are missing.

    It stays closed until `begin_again`. `check` finds losses that no other call would notice.
    """

    def __init__(self, log: EventLog, pool: Pool) -> None:
        self.unguarded = log
        self._pool = pool
        self._seeing = asyncio.Lock()
        self.begin_again()

    def uncompared(self) -> "GuardedLog":
        """Return the log as it is now, for requests while Postgres has not answered yet; intake checks it again."""
        log = GuardedLog(self.unguarded, self._pool)
        log._kept = ()
        return log

    def begin_again(self) -> None:
        """Forget what the log held, for callers that have dropped everything derived from it; the rows still count."""
        self._lost = ""  # why it is closed
        self._kept: Sequence[KeptRecord] | None = None  # as the rows had them at the last query; None: never queried
        self._reached = dict[int, int]()  # by partition, the greatest length of the log that the rows or we have seen
        self._seen = -inf  # when it was last that long

    async def check(self) -> None:
        """Compare the log with the first and the last record of each partition, as last read from the rows.

        Raises:
            LogLost: events are missing.
            Unavailable: the log or Postgres cannot be reached.
        """
        with self._closing():
            kept = await self._learn() if self._kept is None else self._kept
            await self._expect_as_long()
            for first in (True, False):
                await self._expect_same([record for record in kept if record.first == first])
            await self._learn()

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        async with self._seeing:
            if self._lost or asyncio.get_running_loop().time() > self._seen + SEEN_WITHIN:
                await self.ends(EVENTS)
        offsets = await self.unguarded.append(topic, messages)
        if topic == EVENTS:
            for message, offset in zip(messages, offsets, strict=True):
                self._reach(self.partition_of(EVENTS, message.key), offset + 1)
        return offsets

    async def ends(self, topic: str, at_least: Mapping[int, int] | None = None) -> Mapping[int, int]:
        if topic != EVENTS:
            return await self.unguarded.ends(topic, at_least)
        if self._kept is None:
            await self.check()
        with self._closing():
            return await self._expect_as_long()

    def follow(self, topic: str, group: str) -> AbstractAsyncContextManager[Follower]:
        return self.unguarded.follow(topic, group)

    async def group_state(self, topic: str, group: str) -> GroupState:
        return await self.unguarded.group_state(topic, group)

    async def partitions(self, topic: str) -> int:
        return await self.unguarded.partitions(topic)

    def read(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> AsyncGenerator[Sequence[Record], None]:
        return self.unguarded.read(topic, start, end)

    def tail(self, topic: str, start: Mapping[int, int]) -> AsyncGenerator[Sequence[Record], None]:
        return self.unguarded.tail(topic, start)

    def partition_of(self, topic: str, key: bytes) -> int:
        return self.unguarded.partition_of(topic, key)

    @contextmanager
    def _closing(self) -> Iterator[None]:
        if self._lost:
            raise LogLost(self._lost)
        try:
            yield
        except LogLost as error:
            self._lost = str(error)
            raise

    async def _learn(self) -> Sequence[KeptRecord]:
        self._kept = kept = await _kept_records(self._pool)
        for record in kept:
            self._reach(record.partition, record.offset + 1)
        return kept

    def _reach(self, partition: int, end: int) -> None:
        self._reached[partition] = max(end, self._reached.get(partition, 0))

    async def _expect_as_long(self) -> Mapping[int, int]:
        """Return the ends of the log, after checking that it is at least as long as it was before."""
        reached, now = dict(self._reached), asyncio.get_running_loop().time()
        ends = await self.unguarded.ends(EVENTS, reached)
        for partition, end in reached.items():
            if ends[partition] < end:
                raise LogLost(
                    f"The log is shorter than it was: partition {partition} ends at {ends[partition]}, not {end}"
                )
        for partition, end in ends.items():
            self._reach(partition, end)
        self._seen = now
        return ends

    async def _expect_same(self, kept: Sequence[KeptRecord]) -> None:
        """Check that the log holds these records, one for each partition."""
        start = {record.partition: record.offset for record in kept}
        found = dict[int, bytes]()
        async for records in self.unguarded.read(
            EVENTS, start, {number: offset + 1 for number, offset in start.items()}
        ):
            found |= {record.partition: digest(record.value) for record in records}
        for record in kept:
            if found.get(record.partition) != record.sha256:
                place = f"record {record.offset} of partition {record.partition}"
                raise LogLost(f"The log is not the one that the rows were made of: {place} is another one, or missing")


async def _kept_records(pool: Pool) -> Sequence[KeptRecord]:
    """Return the first and the last record of each partition in the rows; none if there are no rows."""
    try:
        async with asyncio.timeout(QUERY_TIMEOUT), acquire(pool) as connection:
            if not await connection.fetchval(_HAS_ROWS):
                return ()
            return [KeptRecord(*found) for found in await connection.fetch(_FIRST_AND_LAST, EVENTS)]
    except TimeoutError as error:
        raise Unavailable(f"Postgres did not answer within {QUERY_TIMEOUT:g} s") from error
    except (Refused, Conflict) as error:  # a missing privilege, or tables being exchanged: the log is not at fault
        raise Unavailable(str(error)) from error


_HELD: Final = "CREATE TEMPORARY TABLE held (partition integer, log_offset bigint, sha256 bytea) ON COMMIT DROP"
_COUNT: Final = """
SELECT (SELECT count(*) FROM held) AS held, count(*) AS known, count(*) - count(held.partition) AS missing
  FROM records LEFT JOIN held USING (partition, log_offset, sha256)
"""
_WORKFLOWS: Final = """
SELECT workflow_id, workflows.opened_ms, rounds.prompt,
       count(*) AS events, count(*) - count(held.partition) AS lost
  FROM records
  LEFT JOIN held USING (partition, log_offset, sha256)
  JOIN workflows USING (workflow_id)
  LEFT JOIN rounds USING (workflow_id)
 WHERE (rounds.round IS NULL OR rounds.round = 1) AND workflows.status <> 'no_workflow'
 GROUP BY workflow_id, workflows.opened_ms, rounds.prompt
HAVING count(*) > count(held.partition)
 ORDER BY workflows.opened_ms DESC
"""


class LostWorkflow(Model):
    """A workflow with missing events."""

    workflow_id: str
    opened: str
    prompt: str | None
    events: int
    """The number of its records that the rows were made from."""
    lost: int
    """The number of those that the log does not hold."""


class LogLoss(Model):
    """How many records the log holds, how many the rows were made from, and which of these the log does not hold."""

    held: int
    known: int
    missing: int
    workflows: tuple[LostWorkflow, ...]


async def find_loss(log: EventLog, pool: Pool) -> LogLoss:
    """Compare every record that the rows were made from with the log, which must not be a `GuardedLog`.

    Raises:
        Unavailable: the log or Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with snapshot(pool, readonly=False) as connection:
        await connection.execute(_HELD)
        async for records in _all_records(log):
            rows = [(each.partition, each.offset, digest(each.value)) for each in records]
            await connection.copy_records_to_table("held", records=rows)
        (counted,) = await connection.fetch(_COUNT)
        found = await connection.fetch(_WORKFLOWS)
    workflows = [
        LostWorkflow(
            workflow_id=str(each["workflow_id"]),
            opened=time(each["opened_ms"]),
            prompt=each["prompt"],
            events=each["events"],
            lost=each["lost"],
        )
        for each in found
    ]
    return LogLoss(**counted, workflows=tuple(workflows))


async def _all_records(log: EventLog) -> AsyncIterator[Sequence[Record]]:
    try:
        ends = await log.ends(EVENTS)
    except LogLost:  # the topic does not exist
        return
    async for records in log.read(EVENTS, {}, ends):
        yield records
