"""Limits that delay openings: how many workflows are open at all, and the quotas of their actors and sources."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

import structlog

from poweron_events.actor import Actor
from poweron_events.codec import ReceivedRequest
from poweron_events.errors import Unavailable
from poweron_events.fold.day_use import ActorUse, DayUse, QuotaKey, Use, counted_day_start_ms, shares
from poweron_events.policy import AppliedPolicy, PolicyTerms, plain_id
from poweron_events.request import RequestIdentity
from poweron_services.decider.quotas import QuotaReached, quota_reached
from poweron_services.fair_slots import SenderTurns
from poweron_services.intake.consistent_reads import ConsistentReads
from poweron_services.intake.intake_ports import IntakeQueries
from poweron_services.intake.judgement import Refusal
from poweron_services.row_query import SharedQuery

log = structlog.get_logger()

NextCancellation = Callable[[], Awaitable[ReceivedRequest | None]]
"""Finds the first unanswered cancellation that arrived while an opening waits; None if there is none."""

QUOTA_PERIOD: Final = 0.5  # seconds for which the rows of a day are used again, and between looks of what waits
MAX_WAITING: Final = 1_000  # openings that wait for a quota; more are refused
MAX_WAITING_BYTES: Final = 8_388_608

Value = TypeVar("Value")


async def no_cancellation() -> ReceivedRequest | None:
    """Return None, for a request that opens nothing."""
    return None


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that may have to wait before it opens a round, and what to do meanwhile."""

    next_cancellation: NextCancellation = no_cancellation
    step_aside: Callable[[], None] = _nothing
    """Lets the requests behind it pass."""
    step_back: Callable[[], None] = _nothing
    """Takes its place in the queue again."""
    size: int = 0
    """Its bytes."""


AT_ONCE: Final = Waiting()
"""For a request that opens nothing, and so need not wait."""


class _Admitted(Generic[Value]):
    """The openings that a limit admitted and that rows read before may not show yet."""

    def __init__(self) -> None:
        self._values: dict[RequestIdentity, Value] = {}
        self._released: dict[RequestIdentity, float] = {}  # when, by the clock of the event loop

    def __contains__(self, identity: RequestIdentity) -> bool:
        return identity in self._values

    def __len__(self) -> int:
        return len(self._values)

    @property
    def identities(self) -> list[RequestIdentity]:
        return list(self._values)

    @property
    def values(self) -> list[Value]:
        return list(self._values.values())

    def add(self, identity: RequestIdentity, value: Value) -> None:
        self._values[identity] = value

    def forget(self, identity: RequestIdentity) -> None:
        self._values.pop(identity, None)
        self._released.pop(identity, None)

    def release(self, identity: RequestIdentity) -> None:
        """Stop counting the opening once rows that are read later show it, or if it was not opened."""
        if identity in self._values:
            self._released[identity] = asyncio.get_running_loop().time()

    def forget_before(self, began: float) -> None:
        """Forget those that were released before a query of the rows began."""
        for identity in [identity for identity, released in self._released.items() if released < began]:
            self.forget(identity)


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
        self._admitted = _Admitted[None]()

    async def admit(self, identity: RequestIdentity, weight: int, next_cancellation: NextCancellation) -> None:
        """Wait while the limit is reached, unless the opening is cancelled; senders take turns."""
        self._admitted.forget(identity)  # it does not take two places if it is judged again
        waiter = _Waiter(identity, asyncio.Event())
        self._waiting.add(identity.source, waiter, weight)
        try:
            while not waiter.admitted.is_set() and await next_cancellation() is None:
                self._admit_next(await self._capacity())
        finally:
            self._waiting.remove(identity.source, waiter)  # an opening that no longer waits must not take a turn

    def release(self, identity: RequestIdentity) -> None:
        """Stop counting the opening once rows that are read later show it, or if it was not opened."""
        self._admitted.release(identity)

    def _admit_next(self, capacity: _Capacity) -> None:
        while capacity.free > 0 and (waiter := self._waiting.next()) is not None:
            capacity.free -= 1
            self._admitted.add(waiter.identity, None)
            waiter.admitted.set()

    async def _read_capacity(self) -> _Capacity:
        began = asyncio.get_running_loop().time()
        count = await self._queries.count_open(self._max_open)
        self._admitted.forget_before(began)
        return _Capacity(self._max_open - count - len(self._admitted))


class _Day(NamedTuple):
    """The rules and what was used, read at one moment."""

    terms: PolicyTerms | None
    """What a round that is opened now would carry; None without a policy."""
    use: DayUse
    read_at: float


@dataclass(slots=True, eq=False)
class _QuotaWaiter:
    """An opening that waits for a quota."""

    identity: RequestIdentity
    actor: Actor
    has_room: asyncio.Event


class QuotaLimit:
    """Allow each actor and each source no more than its quota (docs/decisions/0090)."""

    def __init__(self, reads: ConsistentReads, queries: IntakeQueries, now_ms: Callable[[], int]) -> None:
        self._reads = reads
        self._queries = queries
        self._now_ms = now_ms
        self._read_again = SharedQuery(self._read)
        self._look_again = SharedQuery(self._look)
        self._day: _Day | None = None
        self._admitted = _Admitted[ActorUse]()
        self._waiters: dict[RequestIdentity, _QuotaWaiter] = {}  # the one that has waited longest comes first
        self._waiting_bytes = 0
        self._used_up: dict[QuotaKey, QuotaReached] = {}  # what openings wait for

    async def admits(self, identity: RequestIdentity, actor: Actor, policy: AppliedPolicy | None) -> bool:
        """Return whether the opening finds room in the quotas of this policy, if it is current; it then takes it."""
        if policy is None or not policy.has_quotas or identity in self._admitted:
            return True
        day = await self._recent(policy)
        is_current = day.terms is not None and day.terms.number == policy.number  # else another was applied meanwhile
        return is_current and self._take_room(identity, actor, day) is None

    async def wait(self, identity: RequestIdentity, actor: Actor, waiting: Waiting) -> bool:
        """Wait until the opening finds room; return False if it is cancelled before.

        Raises:
            Refusal: too many wait already.
        """
        reached = self._take_room(identity, actor, await self._read_again())
        if reached is None:
            return True
        if len(self._waiters) >= MAX_WAITING or self._waiting_bytes + waiting.size > MAX_WAITING_BYTES:
            many = f"Too many requests wait already ({len(self._waiters):,})"
            raise Refusal("too_many_waiting", f"{many}: {reached.reason}.")
        self._used_up[reached.key] = reached
        self._waiters[identity] = waiter = _QuotaWaiter(identity, actor, asyncio.Event())
        self._waiting_bytes += waiting.size
        try:
            while not waiter.has_room.is_set():
                if await waiting.next_cancellation() is not None:
                    return False
                now = asyncio.get_running_loop().time()
                await asyncio.sleep(QUOTA_PERIOD - now % QUOTA_PERIOD)  # all look at the same time
                await self._look_again()
        finally:
            del self._waiters[identity]
            self._waiting_bytes -= waiting.size
        return True

    def release(self, identity: RequestIdentity) -> None:
        """Stop counting the opening once rows that are read later show it, or if it was not opened."""
        self._admitted.release(identity)

    async def _look(self) -> None:
        try:
            self._give_room(await self._read_again())
        except Unavailable as error:
            log.warning("quotas_not_read", error=str(error))

    def _give_room(self, day: _Day) -> None:
        """Give room to the openings that wait, in their order."""
        self._used_up = {}
        for waiter in self._waiters.values():
            if waiter.has_room.is_set():
                continue
            reached = self._take_room(waiter.identity, waiter.actor, day)
            if reached is None:
                waiter.has_room.set()
            else:
                self._used_up[reached.key] = reached

    def _take_room(self, identity: RequestIdentity, actor: Actor, day: _Day) -> QuotaReached | None:
        """Admit the opening, or return the quota that it has to wait for.

        It never overtakes one that waits for the same quota, and counts what was admitted before even if the rows do
        not show it yet.
        """
        self._admitted.forget(identity)
        if day.terms is not None:
            both = shares(day.terms, actor, identity.source, day.use, self._admitted.values)
            earlier = next((self._used_up[share.key] for share in both if share.key in self._used_up), None)
            reached = earlier or quota_reached(both, day.terms.number, day.use.day_start_ms)
            if reached is not None:
                return reached
        self._admitted.add(identity, ActorUse(plain_id(actor.id), identity.source, Use(starts=1, open=1)))
        return None

    async def _recent(self, policy: AppliedPolicy) -> _Day:
        """Return what was read a moment ago, since what was admitted meanwhile counts anyway, or read it again."""
        day, now = self._day, asyncio.get_running_loop().time()
        if day is None or now >= day.read_at + QUOTA_PERIOD or day.terms is None or day.terms.number != policy.number:
            return await self._read_again()
        return day

    async def _read(self) -> _Day:
        """Return the current policy and what the rows hold of the day."""
        if self._day is None:
            await self._reads.reach_all_ends()
        began, floors = asyncio.get_running_loop().time(), self._reads.floors
        policy = await self._reads.policy()
        terms = policy.terms if policy is not None else None
        use = await self._queries.day_use(
            counted_day_start_ms(self._now_ms()),
            requests=[(identity.source, identity.id) for identity in self._admitted.identities],
            calls=terms is not None and terms.limits_calls,
        )
        self._reads.check_not_older(use.positions, floors)
        for source, request_id in use.answered:
            self._admitted.forget(RequestIdentity(source=source, id=request_id))
        self._admitted.forget_before(began)
        self._day = _Day(terms, use, began)
        return self._day
