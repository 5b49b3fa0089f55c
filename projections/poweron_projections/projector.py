"""The projector: brings the log into the rows and follows it from then on (E-11).

Any number of projectors may run. Tables of an older release are rebuilt first, beside the existing ones.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from poweron_events import topics
from poweron_events.errors import Conflict, PowerOnError, Unavailable
from poweron_events.log import EventLog, Follower, Polled
from poweron_events.retry import Backoff, Outage
from poweron_events.task_cancellation import cancel_task
from poweron_projections.connection import Pool
from poweron_projections.rebuild import rebuild
from poweron_projections.rows import BATCH, Projected, RowWriter

log = logging.getLogger(__name__)

GROUP: Final = "poweron.projector"

GATHER: Final = 0.05  # seconds for which records gather after a transaction: many at once cost far less
GATHER_EACH: Final = 0.004  # seconds for each record of the transaction, if many arrive
GATHER_MOST: Final = 0.1  # seconds
GATHER_BESIDE: Final = 0.25  # seconds for records of the other topics: no one waits for their rows
GATHER_BESIDE_MOST: Final = 0.5  # seconds for them, if many arrive
POLL: Final = 0.2  # seconds
IDLE: Final = 5.0  # seconds without records before the position of the rows is checked
LONG_WORK: Final = 0.5  # seconds that a transaction may take before polling continues beside it
STOP_TIMEOUT: Final = 5.0  # seconds


async def run(log: EventLog, pool: Pool, projected: Projected | None = None) -> None:
    """Project events, dead letters and the ledger until cancelled; failures are retried after longer and longer pauses.

    `projected` receives how many events of each type and verdict were committed.
    """
    async with asyncio.TaskGroup() as group:
        group.create_task(_follow(log, pool, topics.EVENTS.name, GROUP, projected))
        for topic in topics.BESIDE_EVENTS:
            group.create_task(_follow(log, pool, topic.name, group_of(topic)))


async def _follow(log: EventLog, pool: Pool, topic: str, group: str, projected: Projected | None = None) -> None:
    async with log.follow(topic, group) as follower:
        renew = partial(rebuild, log, pool)
        least, most = (GATHER, GATHER_MOST) if topic == topics.EVENTS.name else (GATHER_BESIDE, GATHER_BESIDE_MOST)
        writer = RowWriter(log, pool, topic, renew=renew, projected=projected)
        following = _Following(follower, writer, partial(gathering, least=least, most=most))
        while True:
            await following.go_on()


def group_of(topic: topics.Topic) -> str:
    """Return the consumer group of the projectors that follow one of the topics besides the events."""
    return f"{GROUP}{topic.name.removeprefix('poweron')}"


def gathering(records: int, least: float = GATHER, most: float = GATHER_MOST) -> float:
    """Return for how many seconds records gather after a transaction with this many records.

    A running workflow changes the same rows with each batch: the more records arrive, the longer they gather. There is
    no wait after a full batch, since more records are then ready, as they are after a standstill.
    """
    return 0.0 if records >= BATCH else min(most, max(least, records * GATHER_EACH))


class _Following:
    """A follower, the writer that it feeds, and whether both are at the same position."""

    def __init__(self, follower: Follower, writer: RowWriter, gathering: Callable[[int], float]) -> None:
        self._follower, self._writer, self._gathering = follower, writer, gathering
        self._assigned: frozenset[int] = frozenset()
        self._is_positioned = True
        self._failed_polls = 0
        self._backoff = Backoff()
        self._kafka_outage, self._postgres_outage = Outage(), Outage()
        self._not_before = self._idle_since = 0.0

    async def go_on(self) -> None:
        """Poll once, and act on the result."""
        polled = await self._poll(POLL)
        now = asyncio.get_running_loop().time()
        if not self._is_positioned:
            if now >= self._not_before:
                await self._attempt(self._seek_to_rows())
        elif polled.records:
            self._idle_since = now
            await self._attempt(self._writer.project(polled.records))
            await asyncio.sleep(self._gathering(len(polled.records)))
        elif now >= self._idle_since + IDLE:
            self._idle_since = now
            await self._attempt(self._writer.check())

    async def _poll(self, timeout: float) -> Polled:
        try:
            polled = await self._follower.poll(timeout)
        except Unavailable as error:
            self._failed_polls += 1
            if self._failed_polls.bit_count() == 1:  # the 1st, 2nd, 4th and so on
                log.warning("kafka_unavailable", extra={"error": str(error)})
            self._kafka_outage.failed(error)
            await asyncio.sleep(timeout)
            return Polled(frozenset(), frozenset(), ())
        self._failed_polls = 0
        self._kafka_outage.ended()
        if polled.revoked or polled.assigned:
            self._assigned = (self._assigned - polled.revoked) | polled.assigned
            self._is_positioned = False
        return polled

    async def _seek_to_rows(self) -> None:
        """Seek to where the rows end."""
        assigned = self._assigned
        for partition, offset in (await self._writer.load(sorted(assigned))).items():
            await self._follower.seek(partition, offset)
        self._follower.pause(frozenset())
        self._is_positioned = assigned == self._assigned

    async def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; polling continues beside it if it takes long (E-09)."""
        task = asyncio.create_task(work)
        missed = False
        try:
            await asyncio.wait({task}, timeout=LONG_WORK)
            while not task.done():
                self._follower.pause(self._assigned)
                missed |= bool((await self._poll(POLL)).records)
            self._follower.pause(frozenset())
            task.result()
            self._is_positioned = self._is_positioned and not missed
        except PowerOnError as error:
            self._later(error)
        else:
            self._backoff = Backoff()
            self._postgres_outage.ended()
        finally:
            await cancel_task(task, STOP_TIMEOUT)

    def _later(self, error: PowerOnError) -> None:
        pause = self._backoff.next()
        if not isinstance(error, Conflict):
            log.warning("projection_retried", extra={"code": error.code, "error": str(error), "pause": pause})
        self._postgres_outage.failed(error)
        self._is_positioned = False
        self._not_before = asyncio.get_running_loop().time() + pause
