"""A queue of requests: read in one consumer group, a few handled at a time, committed once all before them are done.

What is not being handled waits in Kafka, so that a backlog of any length takes no memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import structlog

from poweron_events import topics
from poweron_events.errors import Conflict, Unavailable
from poweron_events.log import EventLog, Follower, Polled, Record
from poweron_events.retry import Failure, retry
from poweron_services.background_tasks import BackgroundTasks

log = structlog.get_logger()

POLL_TIMEOUT = 1.0  # seconds
BUSY_POLL_TIMEOUT = 0.1  # seconds between looks whether there is a free slot again, or something to commit
COMMIT_PERIOD = 0.2  # seconds between commits
STOP_TIMEOUT = 5.0  # seconds that requests being handled get at shutdown
MAX_PENDING = 64  # requests handled at a time
TRIES = 5  # until a request that will fail again is given up


@dataclass(slots=True)
class PendingOffsets:
    """The requests of a partition that are not done yet. Offsets may have gaps: deleted records, transactions."""

    next: int
    offsets: set[int] = field(default_factory=set)
    committed: int = 0

    @property
    def done(self) -> int:
        """The offset before which every request is done."""
        return min(self.offsets, default=self.next)

    def pass_by(self, offset: int) -> None:
        self.next = max(self.next, offset + 1)

    def take(self, offset: int) -> None:
        self.offsets.add(offset)
        self.pass_by(offset)


class RequestQueue:
    """Hands each request that `concerns` it to `handle` until that returns; to `give_up` what will fail again."""

    def __init__(
        self,
        event_log: EventLog,
        group: str,
        concerns: Callable[[Record], bool],
        handle: Callable[[Record], Awaitable[None]],
        give_up: Callable[[Record, str], Awaitable[None]],
    ) -> None:
        self._log = event_log
        self._group = group
        self._concerns = concerns
        self._handle = handle
        self._give_up = give_up
        self._slots = asyncio.Semaphore(MAX_PENDING)
        self._partitions: dict[int, PendingOffsets] = {}
        self._unbegun: frozenset[int] = frozenset()
        self._tasks = BackgroundTasks()
        self._pending = 0
        self._committing: asyncio.Task[None] | None = None
        self._commit_at = 0.0

    async def run(self) -> None:
        """Handle requests until cancelled."""
        async with self._log.follow(topics.REQUESTS.name, self._group) as follower:
            try:
                await self._follow(follower)
            finally:
                await self._tasks.cancel(STOP_TIMEOUT)

    async def _follow(self, follower: Follower) -> None:
        def failed(failure: Failure) -> None:
            log.warning("kafka_unavailable", error=str(failure.error))

        while True:
            await retry(partial(self._go_on, follower), failed=failed)

    async def _go_on(self, follower: Follower) -> None:
        self._take_in(follower, await follower.poll(BUSY_POLL_TIMEOUT if self._busy else POLL_TIMEOUT))
        await self._begin(follower)
        self._commit_now_and_then(follower)

    @property
    def _full(self) -> bool:
        return self._pending >= MAX_PENDING

    @property
    def _busy(self) -> bool:
        return self._pending > 0 or bool(self._uncommitted())

    def _take_in(self, follower: Follower, polled: Polled) -> None:
        for number in polled.revoked:
            self._partitions.pop(number, None)
        self._unbegun = (self._unbegun - polled.revoked) | polled.assigned
        for record in polled.records:
            self._take(record)
        follower.pause(frozenset(self._partitions) if self._full else frozenset())

    async def _begin(self, follower: Follower) -> None:
        """Go on where the group stands; a partition is assigned only once, so one that cannot be begun is kept."""
        for number in sorted(self._unbegun):
            offset = await follower.committed(number)
            self._partitions[number] = PendingOffsets(offset, committed=offset)
            await follower.seek(number, offset)
            self._unbegun -= {number}

    def _take(self, record: Record) -> None:
        partition = self._partitions.get(record.partition)
        if not self._concerns(record):
            if partition is not None:
                partition.pass_by(record.offset)
            return
        if partition is not None:
            partition.take(record.offset)
        self._pending += 1
        self._tasks.spawn(self._handle_in_a_slot(record, partition))

    async def _handle_in_a_slot(self, record: Record, partition: PendingOffsets | None) -> None:
        async with self._slots:
            await self._until_done(record)
        self._pending -= 1
        if partition is not None:
            partition.offsets.discard(record.offset)

    async def _until_done(self, record: Record) -> None:
        """Handle, however long it takes; a request that will fail again stops no other."""
        raised: list[str] = []

        async def attempt() -> None:
            if len(raised) < TRIES:
                await self._handle(record)
            else:
                await self._give_up(record, f"intake met an unexpected error {len(raised)} times: {raised[-1]}")

        def failed(failure: Failure) -> None:
            if isinstance(failure.error, Unavailable | Conflict):
                log.warning("request_waits", error=str(failure.error))
            else:
                error = failure.error
                log.error("request_error", exc_info=error, partition=record.partition, offset=record.offset)
                raised.append(repr(error))

        await retry(attempt, failed=failed, on=Exception)

    def _uncommitted(self) -> dict[int, int]:
        return {number: held.done for number, held in self._partitions.items() if held.done != held.committed}

    def _commit_now_and_then(self, follower: Follower) -> None:
        """What is done; one commit tells of many requests, and reading goes on beside it."""
        now = asyncio.get_running_loop().time()
        if now >= self._commit_at and (self._committing is None or self._committing.done()) and self._uncommitted():
            self._commit_at = now + COMMIT_PERIOD
            self._committing = self._tasks.spawn(self._commit(follower, self._uncommitted()))

    async def _commit(self, follower: Follower, offsets: Mapping[int, int]) -> None:
        with suppress(Unavailable, Conflict):  # it comes again, and its answer is found
            await follower.commit(offsets)
            for number, offset in offsets.items():
                if number in self._partitions:
                    self._partitions[number].committed = offset
