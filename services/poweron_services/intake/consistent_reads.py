"""Reads of the rows that are never older than the rows that this process relied on before.

`OpenLimit` lets openings wait while the limit of open workflows is reached (docs/decisions/0008).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from poweron_events import topics
from poweron_events.codec import ReceivedRequest
from poweron_events.errors import Unavailable
from poweron_events.fold.partial import Stub
from poweron_events.log import EventLog
from poweron_events.policy import AppliedPolicy
from poweron_events.request import POLICY_ID
from poweron_events.task_cancellation import retrieve_error
from poweron_services.fair_slots import SenderTurns
from poweron_services.intake.intake_ports import IntakeQueries

QUERY_PERIOD = 0.02  # seconds between two queries while a caller waits for the rows to change


REACH_TIMEOUT = 10.0  # seconds until a request waits for its next try, and the log says so


Seen = TypeVar("Seen")


class SharedQuery(Generic[Seen]):
    """A query of the rows, shared by all callers that ask at the same time."""

    def __init__(self, ask: Callable[[], Awaitable[Seen]]) -> None:
        self._ask = ask
        self._next: asyncio.Task[Seen] | None = None
        self._asked = 0.0

    async def __call__(self) -> Seen:
        """Return what the rows say, read after the call."""
        if self._next is None:
            self._next = asyncio.create_task(self._query())
            retrieve_error(self._next)  # callers get it themselves, but all of them may be gone
        return await asyncio.shield(self._next)

    async def until(self, holds: Callable[[Seen], bool]) -> Seen:
        """Query the rows until the condition holds, and return what they say."""
        while not holds(rows := await self()):
            pass
        return rows

    async def _query(self) -> Seen:
        """Delay the query, so that callers that ask meanwhile can share it."""
        await asyncio.sleep(self._asked + QUERY_PERIOD - asyncio.get_running_loop().time())
        self._next, self._asked = None, asyncio.get_running_loop().time()
        return await self._ask()


class ConsistentReads:
    """Wait for the projector and remember its position: rows that are being rebuilt must not answer."""

    def __init__(self, event_log: EventLog, queries: IntakeQueries) -> None:
        self._log = event_log
        self._queries = queries
        self._positions = SharedQuery(queries.positions)
        self._floors: dict[int, int] = {}  # by partition, the position of the rows that were relied on
        self._policy: AppliedPolicy | None = None
        self._policies_reached = False

    async def reach_end(self, workflow: str) -> None:
        """Wait until the projector has passed everything that is in the workflow's partition now."""
        ends = await self._log.ends(topics.EVENTS.name)
        await self.reach(workflow, ends[self._partition(workflow)])

    async def reach_again(self, workflow: str) -> None:
        """Wait until the rows are at the position that was relied on before or, if there is none, at the end."""
        floor = self._floors.get(self._partition(workflow))
        await (self.reach_end(workflow) if floor is None else self.reach(workflow, floor))

    async def reach(self, workflow: str, offset: int) -> None:
        """Wait until the projector's next offset in the workflow's partition is at least this.

        Raises:
            Unavailable: the offset is not reached within `REACH_TIMEOUT`.
        """
        partition = self._partition(workflow)
        try:
            async with asyncio.timeout(REACH_TIMEOUT):
                await self._positions.until(lambda positions: positions.get(partition, 0) >= offset)
        except TimeoutError as error:
            raise Unavailable(
                f"After {REACH_TIMEOUT:g} s the rows are not at offset {offset} of partition {partition}; "
                "a projector may be missing"
            ) from error
        self._floors[partition] = max(self._floors.get(partition, 0), offset)

    async def stub(self, workflow: str) -> Stub | None:
        """Return the stub of the workflow, or None if there is none.

        Raises:
            Unavailable: the rows are behind the position that was relied on before.
        """
        partition = self._partition(workflow)
        projected, stubs = await self._queries.look_up(partition, [workflow])
        if projected < self._floors.get(partition, 0):
            raise _rebuilt(projected)
        return stubs.get(workflow)

    async def policy(self) -> AppliedPolicy | None:
        """Return the newest policy, never an older one than before; None if none was applied.

        Raises:
            Unavailable: the rows are behind the position that was relied on before.
        """
        if not self._policies_reached:
            await self.reach_end(POLICY_ID)
            self._policies_reached = True
        partition = self._partition(POLICY_ID)
        known = self._policy.number if self._policy else 0
        projected, newer = await self._queries.policy_after(partition, known)
        if projected < self._floors.get(partition, 0):
            raise _rebuilt(projected)
        if newer is not None and (self._policy is None or newer.number > self._policy.number):
            self._policy = newer
        return self._policy

    def _partition(self, workflow: str) -> int:
        return self._log.partition_of(topics.EVENTS.name, workflow.encode())


def _rebuilt(projected: int) -> Unavailable:
    return Unavailable(f"Postgres was rebuilt and has come to {projected} only; it was further before")


NextCancellation = Callable[[], Awaitable[ReceivedRequest | None]]
"""Finds the first unanswered cancellation that arrived while an opening waits; None if there is none."""


async def no_cancellation() -> ReceivedRequest | None:
    """Return None, for a request that opens nothing."""
    return None


@dataclass(slots=True)
class _Capacity:
    """How many more workflows may be opened, according to one query of the rows."""

    free: int


class OpenLimit:
    """Allow at most `max_open` workflows with an open round that does not wait for a person."""

    def __init__(self, queries: IntakeQueries, max_open: int) -> None:
        self._queries = queries
        self._max_open = max_open
        self._capacity = SharedQuery(self._read_capacity)
        self._waiting = SenderTurns[asyncio.Event]()

    async def admit(self, sender: str, next_cancellation: NextCancellation) -> None:
        """Wait while the limit is reached, unless the opening is cancelled; senders take turns."""
        admitted = asyncio.Event()
        self._waiting.add(sender, admitted)
        try:
            while not admitted.is_set() and await next_cancellation() is None:
                self._let_in(await self._capacity())
        finally:
            self._waiting.remove(sender, admitted)  # an opening that no longer waits must not take a turn

    def _let_in(self, capacity: _Capacity) -> None:
        while capacity.free > 0 and (admitted := self._waiting.next()) is not None:
            capacity.free -= 1
            admitted.set()

    async def _read_capacity(self) -> _Capacity:
        return _Capacity(self._max_open - await self._queries.count_open(self._max_open))
