"""Limits that let openings wait: how many workflows are open at all, and the quotas of their actors and sources."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from poweron_events.actor import Actor
from poweron_events.codec import ReceivedRequest
from poweron_events.fold.day_use import DayUse, RequestKey, Use, day_ms, shares
from poweron_events.policy import AppliedPolicy
from poweron_events.request import RequestIdentity
from poweron_services.decider.quotas import Hold, hold
from poweron_services.fair_slots import SenderTurns
from poweron_services.intake.consistent_reads import ConsistentReads
from poweron_services.intake.intake_ports import IntakeQueries
from poweron_services.intake.judgement import Refusal
from poweron_services.row_query import SharedQuery

Value = TypeVar("Value")

NextCancellation = Callable[[], Awaitable[ReceivedRequest | None]]
"""Finds the first unanswered cancellation that arrived while an opening waits; None if there is none."""

QUOTA_PERIOD: Final = 0.5  # seconds between two looks of openings that wait for a quota
MAX_WAITING: Final = 1_000  # openings that wait for a quota; more are refused
MAX_WAITING_BYTES: Final = 8_388_608


async def no_cancellation() -> ReceivedRequest | None:
    """Return None, for a request that opens nothing."""
    return None


class Waiting(NamedTuple):
    """A request that may have to wait before it opens a round."""

    next_cancellation: NextCancellation = no_cancellation
    step_aside: Callable[[bool], None] = lambda _: None
    """Called with whether it lets the requests behind it pass."""
    size: int = 0
    """Its bytes."""


AT_ONCE: Final = Waiting()
"""For a request that opens nothing, and so need not wait."""


class _LetIn(Generic[Value]):
    """The openings that a limit let in and that rows read before may not show yet."""

    def __init__(self) -> None:
        self._values: dict[RequestIdentity, Value] = {}
        self._settled: dict[RequestIdentity, float] = {}  # when the rows held them, by the clock of the event loop

    def add(self, identity: RequestIdentity, value: Value) -> None:
        self._values[identity] = value
        self._settled.pop(identity, None)

    def settle(self, identity: RequestIdentity) -> None:
        """Record that the rows hold the opening by now, or that it was not opened."""
        if identity in self._values:
            self._settled[identity] = asyncio.get_running_loop().time()

    def forget(self, identity: RequestIdentity) -> None:
        self._values.pop(identity, None)
        self._settled.pop(identity, None)

    def keys(self) -> list[RequestKey]:
        return [(identity.source, identity.id) for identity in self._values]

    def forget_before(self, began: float) -> None:
        """Forget those that were settled before a query of the rows began."""
        for identity in [identity for identity, settled in self._settled.items() if settled < began]:
            self.forget(identity)

    def others(self, identity: RequestIdentity) -> list[Value]:
        """Return the values of all but this one."""
        return [value for other, value in self._values.items() if other != identity]

    def __len__(self) -> int:
        return len(self._values)


@dataclass(slots=True)
class _Capacity:
    """How many more workflows may be opened, according to one query of the rows."""

    free: int


class _Waiter(NamedTuple):
    identity: RequestIdentity
    admitted: asyncio.Event


class OpenLimit:
    """Allow at most `max_open` workflows with an open round that does not wait for a person (docs/decisions/0008)."""

    def __init__(self, queries: IntakeQueries, max_open: int) -> None:
        self._queries = queries
        self._max_open = max_open
        self._capacity = SharedQuery(self._read_capacity)
        self._waiting = SenderTurns[_Waiter]()
        self._let_in = _LetIn[None]()

    async def admit(self, identity: RequestIdentity, weight: int, next_cancellation: NextCancellation) -> None:
        """Wait while the limit is reached, unless the opening is cancelled; senders take turns."""
        self._let_in.forget(identity)  # it does not take two places if it is judged again
        waiter = _Waiter(identity, asyncio.Event())
        self._waiting.add(identity.source, waiter, weight)
        try:
            while not waiter.admitted.is_set() and await next_cancellation() is None:
                self._admit_next(await self._capacity())
        finally:
            self._waiting.remove(identity.source, waiter)  # an opening that no longer waits must not take a turn

    def settle(self, identity: RequestIdentity) -> None:
        """Record that the rows hold the opening by now, or that it was not opened."""
        self._let_in.settle(identity)

    def _admit_next(self, capacity: _Capacity) -> None:
        while capacity.free > 0 and (waiter := self._waiting.next()) is not None:
            capacity.free -= 1
            self._let_in.add(waiter.identity, None)
            waiter.admitted.set()

    async def _read_capacity(self) -> _Capacity:
        began = asyncio.get_running_loop().time()
        count = await self._queries.count_open(self._max_open)
        self._let_in.forget_before(began)
        return _Capacity(self._max_open - count - len(self._let_in))


class QuotaLimit:
    """Allow each actor and each source no more than its quota (docs/decisions/0090)."""

    def __init__(self, reads: ConsistentReads, queries: IntakeQueries, now_ms: Callable[[], int]) -> None:
        self._reads = reads
        self._queries = queries
        self._now_ms = now_ms
        self._current = SharedQuery(self._read)
        self._let_in = _LetIn[tuple[Actor, str, Use]]()
        self._reached = False
        self._waiting = self._waiting_bytes = 0

    async def admits(self, identity: RequestIdentity, actor: Actor, policy: AppliedPolicy | None) -> bool:
        """Return whether the opening finds room in the quotas of its actor and its source; it then takes it."""
        if policy is None or not policy.has_quotas:
            return True
        return self._take_room(identity, actor, *await self._current()) is None

    async def wait(self, identity: RequestIdentity, actor: Actor, waiting: Waiting) -> bool:
        """Wait until the opening finds room, and take it; return False if it is cancelled before.

        Raises:
            Refusal: too many wait already.
        """
        held = self._take_room(identity, actor, *await self._current())
        if held is not None and (
            self._waiting >= MAX_WAITING or self._waiting_bytes + waiting.size > MAX_WAITING_BYTES
        ):
            raise Refusal("too_many_waiting", f"{held.sentence} {self._waiting:,} requests wait already.")
        self._waiting += 1
        self._waiting_bytes += waiting.size
        waiting.step_aside(True)  # noqa: FBT003 - what a callback is called with
        try:
            while held is not None:
                if await waiting.next_cancellation() is not None:
                    return False
                now = asyncio.get_running_loop().time()
                await asyncio.sleep(QUOTA_PERIOD - now % QUOTA_PERIOD)  # all look together, with one query
                held = self._take_room(identity, actor, *await self._current())
        finally:
            waiting.step_aside(False)  # noqa: FBT003
            self._waiting -= 1
            self._waiting_bytes -= waiting.size
        return True

    def settle(self, identity: RequestIdentity) -> None:
        """Record that the rows hold the opening by now, or that it was not opened."""
        self._let_in.settle(identity)

    def _take_room(
        self, identity: RequestIdentity, actor: Actor, policy: AppliedPolicy | None, day: DayUse
    ) -> Hold | None:
        """Let the opening in, or return why not; those let in before count even if the rows do not show them yet."""
        if policy is not None:
            now = day.plus(self._let_in.others(identity))
            both = shares(policy.terms, actor, identity.source, now)
            if (held := hold(both, policy.number, day.day_ms)) is not None:
                return held
        self._let_in.add(identity, (actor, identity.source, Use(starts=1, open=1)))
        return None

    async def _read(self) -> tuple[AppliedPolicy | None, DayUse]:
        """Return the current policy and what the rows hold of the day."""
        if not self._reached:
            await self._reads.reach_all_ends()
            self._reached = True
        began = asyncio.get_running_loop().time()
        policy = await self._reads.policy()
        day = await self._queries.day_use(day_ms(self._now_ms()), requests=self._let_in.keys())
        self._reads.check(day.positions)
        for source, request_id in day.answered:
            self._let_in.forget(RequestIdentity(source=source, id=request_id))
        self._let_in.forget_before(began)
        return policy, day
