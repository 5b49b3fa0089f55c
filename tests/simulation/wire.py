"""The log as each process sees it: a cable over which appends and deliveries can go wrong.

The log itself is the one that ships (`MemoryLog`), with fewer partitions. A process that is dead has a
cable that is cut: what it had sent may still land, nothing else does.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from simulation.clock import VirtualLoop
from simulation.faults import Chance

from poweron_events import topics
from poweron_events.errors import Unavailable
from poweron_events.log import Message, Polled, Record
from poweron_events.log.memory import MemoryFollower, MemoryLog

EVENTS, REQUESTS = topics.EVENTS.name, topics.REQUESTS.name
MISHAPS = ("append lost", "append unknown", "append late", "append torn", "append doubled", "append slow")


class SimulatedLog(MemoryLog):
    """The log in memory, with few partitions; tells of every record that lands."""

    def __init__(self, partitions: int, landed: Callable[[Record], None]) -> None:
        super().__init__()
        for topic in (EVENTS, REQUESTS):
            self._topics[topic] = [[] for _ in range(partitions)]
        topics.PARTITIONS = partitions  # a record is read in the partition of its key only; a world has its process
        self._landed = landed
        self.in_flight = 0
        self._waiting: dict[str, list[asyncio.Future[None]]] = {topic.name: [] for topic in topics.ALL}
        self._concerned: str | None = None

    def write(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Mapping[str, bytes] | None = None
    ) -> int:
        with self.concerning(topic):
            offset = super().write(topic, key, value, headers)
        self._landed(self._topics[topic][self.partition_of(topic, key or b"")][offset])
        return offset

    def wake(self) -> None:
        """Let those look again whom it may concern."""
        super().wake()
        for topic in self._waiting if self._concerned is None else [self._concerned]:
            waiting, self._waiting[topic] = self._waiting[topic], []
            for waiter in waiting:
                _done(waiter)

    @contextmanager
    def concerning(self, topic: str) -> Iterator[None]:
        """What happens now concerns only those who follow this topic."""
        self._concerned = topic
        yield
        self._concerned = None

    def _rebalance(self, topic: str, members: list[MemoryFollower]) -> None:
        with self.concerning(topic):
            super()._rebalance(topic, members)

    async def news(self, topic: str, timeout: float) -> None:
        """Wait until it may be worth while to look again."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting[topic].append(waiter)
        timer = loop.call_later(timeout, _done, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def record(self, partition: int, offset: int) -> Record:
        return self._topics[EVENTS][partition][offset]

    def end(self, partition: int, topic: str = EVENTS) -> int:
        return len(self._topics[topic][partition])

    def members(self, topic: str, group: str) -> list[MemoryFollower]:
        return self._groups.get((topic, group), [])

    def readmit(self, follower: MemoryFollower) -> None:
        """Let a member that was put out join again."""
        members = self._groups[follower._topic, follower._group]
        if follower not in members:
            members.append(follower)
            self._rebalance(follower._topic, members)

    def shuffle(self, topic: str, group: str, chance: Chance) -> None:
        """Deal the partitions of a group anew."""
        members = self._groups[topic, group]
        chance.random.shuffle(members)
        self._rebalance(topic, members)

    def forget_offsets(self) -> int:
        """Lose what all groups remember; returns how much that was."""
        lost = sum(self._committed.values())
        self._committed.clear()
        return lost


def _done(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class Cable:
    """`EventLog` for one process."""

    def __init__(self, log: SimulatedLog, loop: VirtualLoop, chance: Chance) -> None:
        self._log, self._loop, self._chance = log, loop, chance
        self.cut = False
        self.swallows = False
        self.followers: list[SlowFollower] = []
        self.first_ends: dict[int, int] = {}
        self.received: dict[bytes, int] = {}
        """Of each request that came over this cable: the first end of the events seen then."""

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        await self.connected()
        answer: asyncio.Future[Sequence[int]] = self._loop.create_future()
        mishap = self._mishap(messages)
        delay = self._chance.between(0.1, 0.6) if mishap == "append slow" else self._chance.between(0.0005, 0.01)
        self._send(delay, self._arrive, answer, topic, messages, mishap)
        return await answer

    def _send(self, delay: float, arrive: Callable[..., object], *arguments: Any) -> None:
        def arrives() -> None:
            self._log.in_flight -= 1
            arrive(*arguments)

        self._log.in_flight += 1
        self._loop.later(delay, arrives)

    def _mishap(self, messages: Sequence[Message]) -> str:
        if self._chance.calm or not self._chance.often(0.16):
            return ""
        mishap = self._chance.one_of(MISHAPS)
        if mishap == "append torn" and len(messages) == 1:
            return ""
        self._chance.struck[mishap] += 1
        return mishap

    def _arrive(
        self, answer: "asyncio.Future[Sequence[int]]", topic: str, messages: Sequence[Message], mishap: str
    ) -> None:
        again = self._chance.between(0.01, 1.5)
        match mishap:
            case "append lost":
                self._answer(answer, Unavailable("not written"))
            case "append unknown":
                self._land(topic, messages)
                self._answer(answer, Unavailable("written, but nobody knows"))
            case "append late":
                self._answer(answer, Unavailable("not written yet"))
                self._send(again, self._land, topic, messages)
            case "append torn":
                self._land(topic, messages[:1])
                self._answer(answer, Unavailable("the second was not written"))
            case "append doubled":
                self._answer(answer, self._land(topic, messages))
                self._send(again, self._land, topic, messages)
            case _:
                self._answer(answer, self._land(topic, messages))

    def _land(self, topic: str, messages: Sequence[Message]) -> list[int]:
        if self.swallows:
            return []
        if self.cut:
            self._chance.struck["append posthumous"] += 1
        return [self._log.write(topic, message.key, message.value) for message in messages]

    @staticmethod
    def _answer(answer: "asyncio.Future[Sequence[int]]", said: Sequence[int] | Unavailable) -> None:
        if answer.done():
            return
        if isinstance(said, Unavailable):
            answer.set_exception(said)
        else:
            answer.set_result(said)

    @asynccontextmanager
    async def follow(self, topic: str, group: str) -> AsyncGenerator["SlowFollower", None]:
        await self.connected()
        async with self._log.follow(topic, group) as inner:
            follower = SlowFollower(self, inner, self._loop, self._chance)
            self.followers.append(follower)
            yield follower

    async def ends(self, topic: str, at_least: Mapping[int, int] | None = None) -> Mapping[int, int]:
        await self.reach("ends away")
        ends = await self._log.ends(topic)
        if topic == EVENTS:
            for partition, end in ends.items():
                self.first_ends.setdefault(partition, end)
        return ends

    async def connected(self) -> None:
        """Go on, unless the process is dead: then nothing ever does."""
        if self.cut:
            await self._loop.create_future()

    async def reach(self, fault: str, probability: float = 0.03) -> None:
        await self.connected()
        if self._chance.strikes(fault, probability):
            await asyncio.sleep(self._chance.between(0, 0.05))
            raise Unavailable("the log cannot be reached")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class SlowFollower:
    """A member of a group whose deliveries are late, small, or for a while nothing at all."""

    def __init__(self, cable: Cable, inner: MemoryFollower, loop: VirtualLoop, chance: Chance) -> None:
        self.inner = inner
        self.deaf_until = 0.0  # hears nothing, not even that its partitions are another's
        self.slow_until = 0.0  # hears who has the partitions, but no record
        self._cable, self._loop, self._chance = cable, loop, chance
        self._fetched: dict[int, list[Record]] = {}
        self._paused: frozenset[int] = frozenset()

    async def poll(self, timeout: float) -> Polled:
        await self._cable.reach("poll away", 0.005)
        await asyncio.sleep(0)
        if self.deaf_until > self._loop.time():
            await asyncio.sleep(min(timeout, self.deaf_until - self._loop.time()))
            return Polled(frozenset(), frozenset(), ())
        polled = self._fetch(self.inner._take())
        if polled.revoked or polled.assigned or polled.records:
            return polled
        await self._cable._log.news(self.inner._topic, timeout)
        return self._fetch(self.inner._take())

    def _fetch(self, polled: Polled) -> Polled:
        for number in polled.revoked | polled.assigned:
            self._fetched.pop(number, None)
        for record in polled.records:
            self._fetched.setdefault(record.partition, []).append(record)
        return Polled(polled.revoked, polled.assigned, self._delivered())

    def _delivered(self) -> list[Record]:
        if self.slow_until > self._loop.time():
            return []
        delivered: list[Record] = []
        for number in sorted(self._fetched.keys() - self._paused):
            fetched = self._fetched[number]
            most = self._chance.random.randint(1, 3) if self._chance.strikes("small batch", 0.2) else len(fetched)
            delivered += fetched[:most]
            self._fetched[number] = fetched[most:]
            if not self._fetched[number]:
                del self._fetched[number]
        for record in delivered if self.inner._topic == REQUESTS else ():
            self._cable.received.setdefault(record.value or b"", self._log_end(record))
        return delivered

    def _log_end(self, record: Record) -> int:
        log = self._cable._log
        return log.end(log.partition_of(EVENTS, record.key or b""))

    def hinder(self, *, deaf: float = 0.0, slow: float = 0.0) -> None:
        """Hear nothing, or no records, for so many seconds."""
        self.deaf_until = max(self.deaf_until, self._loop.time() + deaf)
        self.slow_until = max(self.slow_until, self._loop.time() + slow)
        self._loop.later(max(deaf, slow), self._cable._log.wake)

    def cure(self) -> None:
        self.deaf_until = self.slow_until = 0.0

    async def seek(self, partition: int, offset: int) -> None:
        self._fetched.pop(partition, None)
        with self._cable._log.concerning(self.inner._topic):
            await self.inner.seek(partition, offset)  # does not wait
        if self._chance.strikes("slow start", 0.3):
            self.hinder(slow=self._chance.between(0, 0.1))

    def pause(self, partitions: frozenset[int]) -> None:
        if partitions == self._paused:
            return
        self._paused = partitions
        with self._cable._log.concerning(self.inner._topic):
            self.inner.pause(partitions)

    def end(self, partition: int) -> int:
        return self.inner.end(partition)

    async def commit(self, offsets: Mapping[int, int]) -> None:
        await self._cable.reach("commit away", 0.05)
        await self.inner.commit(offsets)

    async def committed(self, partition: int) -> int:
        await self._cable.reach("committed away", 0.05)
        return await self.inner.committed(partition)
