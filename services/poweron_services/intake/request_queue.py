"""A queue of requests: read by one consumer group, handled a few at a time, committed once all before them are done.

What it holds is bounded in number and bytes: the rest of a backlog of any length waits in Kafka. Senders take
turns, and each workflow has one request in hand at a time, in order of arrival.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import structlog

from poweron_events import topics
from poweron_events.codec import RequestAddress, request_address
from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.log import EventLog, Follower, Polled, Record
from poweron_events.retry import Failure, retry
from poweron_services.background_tasks import BackgroundTasks
from poweron_services.fair_slots import SenderTurns

log = structlog.get_logger()

POLL_TIMEOUT = 1.0  # seconds
BUSY_POLL_TIMEOUT = 0.1  # seconds between checks for free room or something to commit
COMMIT_PERIOD = 0.2  # seconds between commits
STOP_TIMEOUT = 5.0  # seconds that requests being handled get at shutdown
MAX_PENDING = 64  # requests handled at a time
TRIES = 5  # attempts until a request that meets unexpected errors is given up
MAX_HELD = 20_000  # requests; more wait in Kafka
MAX_HELD_BYTES = 16_777_216


@dataclass(slots=True, eq=False)
class PendingOffsets:
    """The requests of a partition that are not done yet. Offsets may have gaps: deleted records, transactions."""

    next: int
    offsets: set[int] = field(default_factory=set)
    committed: int = 0
    end_at_assignment: int = 0
    lost: bool = False

    @property
    def done(self) -> int:
        """The offset before which every request is done."""
        return min(self.offsets, default=self.next)

    def pass_by(self, offset: int) -> None:
        self.next = max(self.next, offset + 1)

    def take(self, offset: int) -> None:
        self.offsets.add(offset)
        self.pass_by(offset)


@dataclass(slots=True, eq=False)
class HeldRequest:
    """A request and its places in the topic: several if it was sent again meanwhile."""

    record: Record
    address: RequestAddress
    places: list[tuple[PendingOffsets, int]]
    behind: "deque[HeldRequest]" = field(default_factory=deque)
    """While the request is in hand: the later requests about its workflow, in order of arrival."""
    aside: "set[HeldRequest]" = field(default_factory=set)
    """The requests in hand that wait for what others need not wait for; the queue handles these meanwhile."""
    task: asyncio.Task[None] | None = None

    def step_aside(self) -> None:
        """Let the requests behind this one pass."""
        self.aside.add(self)

    def step_back(self) -> None:
        """Take a place among the requests that are handled again."""
        self.aside.discard(self)

    @property
    def wanted(self) -> bool:
        """Whether a partition that it came from is still ours."""
        return any(not partition.lost for partition, _ in self.places)

    def is_in(self, partition: PendingOffsets) -> bool:
        """Return whether it has a place in this partition."""
        return any(partition is other for other, _ in self.places)

    @property
    def is_new(self) -> bool:
        """Whether the request arrived after its partition was assigned to us, so that no process has read it before."""
        return all(offset >= partition.end_at_assignment for partition, offset in self.places)


class HeldRequests:
    """The requests that were read and are not answered yet."""

    def __init__(self, weight: Callable[[str], int]) -> None:
        self._weight = weight
        self._held: dict[RequestAddress, HeldRequest] = {}
        self._of_workflow: dict[str, deque[HeldRequest]] = {}  # requests behind the one that is next or in hand
        self._turns = SenderTurns[HeldRequest]()
        self._places = 0
        self._bytes = 0

    @property
    def empty(self) -> bool:
        return not self._places

    @property
    def full(self) -> bool:
        return self._places >= MAX_HELD or self._bytes >= MAX_HELD_BYTES

    def add(self, record: Record, partition: PendingOffsets) -> None:
        """Hold a request; one that is already held gets one more place, but no turn of its own."""
        address = request_address(record.value, record.headers) or _of_unreadable(record)
        known = self._held.get(address)
        if known is not None and known.is_in(partition):
            partition.pass_by(record.offset)  # its earlier place keeps the commit back
            return
        partition.take(record.offset)
        self._places += 1
        if known is not None:
            known.places.append((partition, record.offset))
            return
        held = self._held[address] = HeldRequest(record, address, [(partition, record.offset)])
        self._bytes += record.size
        if address.workflow_id in self._of_workflow:
            self._of_workflow[address.workflow_id].append(held)
        else:
            self._of_workflow[address.workflow_id] = held.behind
            self._add_turn(held)

    def next(self) -> HeldRequest | None:
        """Return the request whose turn it is, or None if all that are held wait for an earlier one."""
        while (held := self._turns.next()) is not None:
            if held.wanted:
                return held
            self.done(held)
        return None

    def done(self, held: HeldRequest) -> None:
        """Release a request at all its places; the next request of its workflow then waits for its turn."""
        del self._held[held.address]
        self._places -= len(held.places)
        self._bytes -= held.record.size
        for partition, offset in held.places:
            partition.offsets.discard(offset)
        behind = self._of_workflow[held.address.workflow_id]
        if behind:
            following = behind.popleft()
            following.behind = behind
            self._add_turn(following)
        else:
            del self._of_workflow[held.address.workflow_id]

    def _add_turn(self, held: HeldRequest) -> None:
        self._turns.add(held.address.source, held, self._weight(held.address.source))


class RequestQueue:
    """Pass each request that `concerns` accepts to `handle` until that returns, or to `give_up` if it would fail again.

    `handle` also receives whether the request is new; if not, another process may have answered it before. `weight`
    returns how many turns a sender takes at a time.
    """

    def __init__(
        self,
        event_log: EventLog,
        group: str,
        concerns: Callable[[Record], bool],
        handle: Callable[[HeldRequest, bool], Awaitable[None]],
        give_up: Callable[[Record, str], Awaitable[None]],
        *,
        weight: Callable[[str], int] = lambda _: 1,
    ) -> None:
        self._log = event_log
        self._group = group
        self._concerns = concerns
        self._handle = handle
        self._give_up = give_up
        self._partitions: dict[int, PendingOffsets] = {}
        self._unbegun: frozenset[int] = frozenset()
        self._held = HeldRequests(weight)
        self._in_hand = 0
        self._aside: set[HeldRequest] = set()
        self._tasks = BackgroundTasks()
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
    def _busy(self) -> bool:
        return not self._held.empty or bool(self._uncommitted())

    def _take_in(self, follower: Follower, polled: Polled) -> None:
        for number in polled.revoked & self._partitions.keys():
            self._partitions.pop(number).lost = True
        for held in [held for held in self._aside if not held.wanted]:
            self._drop(held)
        self._unbegun = (self._unbegun - polled.revoked) | polled.assigned
        for record in polled.records:
            self._take(record)
        self._hand_out()
        follower.pause(frozenset(self._partitions) if self._held.full else frozenset())

    async def _begin(self, follower: Follower) -> None:
        """Continue from the group's committed offset; keep partitions that fail, since each is assigned only once."""
        ends = await self._log.ends(topics.REQUESTS.name) if self._unbegun else {}
        # Nothing is fetched before all offsets are known: Kafka answers a question only after a fetch before it.
        offsets = {number: await follower.committed(number) for number in sorted(self._unbegun)}
        for number, offset in offsets.items():
            self._partitions[number] = PendingOffsets(offset, committed=offset, end_at_assignment=ends[number])
            await follower.seek(number, offset)
            self._unbegun -= {number}

    def _take(self, record: Record) -> None:
        partition = self._partitions.get(record.partition)
        if partition is None:
            return
        if self._concerns(record):
            self._held.add(record, partition)
        else:
            partition.pass_by(record.offset)

    def _hand_out(self) -> None:
        while self._in_hand - len(self._aside) < MAX_PENDING and (held := self._held.next()) is not None:
            self._in_hand += 1
            held.aside = self._aside
            held.task = self._tasks.spawn(self._settle(held))

    async def _settle(self, held: HeldRequest) -> None:
        await self._until_done(held)
        self._release(held)
        self._hand_out()

    def _drop(self, held: HeldRequest) -> None:
        """Stop a request that may wait for hours and that another process answers; it may be read here again."""
        if held.task is not None:
            held.task.cancel()
        self._release(held)

    def _release(self, held: HeldRequest) -> None:
        self._in_hand -= 1
        held.step_back()
        self._held.done(held)

    async def _until_done(self, held: HeldRequest) -> None:
        """Handle a request for as long as it takes; one that would fail again does not block others."""
        record, is_new = held.record, held.is_new
        errors = 0
        reason = ""

        async def attempt() -> None:
            await (self._give_up(record, reason) if reason else self._handle(held, is_new))

        def failed(failure: Failure) -> None:
            nonlocal errors, reason, is_new
            error, is_new = failure.error, False  # the failed attempt may have had its effect
            if isinstance(error, Unavailable | Conflict):
                log.warning("request_waits", error=str(error))
                return
            log.error("request_error", exc_info=error, partition=record.partition, offset=record.offset)
            errors += 1
            if isinstance(error, Refused):
                reason = str(error)
            elif errors >= TRIES:
                reason = f"intake met an unexpected error {errors} times: {error!r}"

        await retry(attempt, failed=failed, on=Exception)

    def _uncommitted(self) -> dict[int, int]:
        return {number: held.done for number, held in self._partitions.items() if held.done != held.committed}

    def _commit_now_and_then(self, follower: Follower) -> None:
        """Commit what is done; one commit covers many requests, and reading continues meanwhile."""
        now = asyncio.get_running_loop().time()
        if now < self._commit_at or (self._committing is not None and not self._committing.done()):
            return
        if uncommitted := self._uncommitted():
            self._commit_at = now + COMMIT_PERIOD
            self._committing = self._tasks.spawn(self._commit(follower, uncommitted))

    async def _commit(self, follower: Follower, offsets: Mapping[int, int]) -> None:
        with suppress(Unavailable, Conflict):  # the request is read again, and its answer is found
            await follower.commit(offsets)
            for number, offset in offsets.items():
                if number in self._partitions:
                    self._partitions[number].committed = offset


def _of_unreadable(record: Record) -> RequestAddress:
    """An address of its own, since each unreadable record becomes a dead letter."""
    place = f"{record.partition}/{record.offset}"
    return RequestAddress("", place, place)
