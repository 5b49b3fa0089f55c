"""The log in memory: it keeps every promise of `EventLog` except surviving the process.

For tests, and for trying things out without a broker.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

from poweron_events import topics
from poweron_events.errors import Conflict, Refused
from poweron_events.log import GroupState, Message, Polled, Record

Partitions = list[list[Record]]


class MemoryLog:
    """Topics as lists, groups as lists of members."""

    def __init__(self) -> None:
        self._topics: dict[str, Partitions] = {
            topic.name: [[] for _ in range(topic.partitions)] for topic in (*topics.ALL, topics.PROGRESS)
        }
        self._groups: dict[tuple[str, str], list[MemoryFollower]] = {}
        self._committed: dict[tuple[str, str, int], int] = {}
        self._grown = asyncio.Event()

    def partition_of(self, topic: str, key: bytes) -> int:
        return topics.partition_of(key, len(self._topics[topic]))

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        for message in messages:
            if len(message.value) > topics.MAX_RECORD:
                raise Refused(f"a record may take {topics.MAX_RECORD} bytes, not {len(message.value)}")
        return [self.write(topic, message.key, message.value) for message in messages]

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Mapping[str, bytes] | None = None,
        time_ms: int | None = None,
    ) -> int:
        """Append anything, as a hostile or third-party client could; without `time_ms`, at the time of the clock."""
        number = self.partition_of(topic, key or b"")
        partition = self._topics[topic][number]
        at_ms = time.time_ns() // 1_000_000 if time_ms is None else time_ms
        partition.append(Record(topic, number, len(partition), at_ms, key, value, headers or {}))
        self.wake()
        return len(partition) - 1

    def wake(self) -> None:
        """Wake all readers that wait for records."""
        self._grown.set()
        self._grown = asyncio.Event()

    async def partitions(self, topic: str) -> int:
        return len(self._topics[topic])

    async def ends(
        self,
        topic: str,
        at_least: Mapping[int, int] | None = None,  # noqa: ARG002 - this log alone knows all records
    ) -> Mapping[int, int]:
        return {number: len(partition) for number, partition in enumerate(self._topics[topic])}

    async def read(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> AsyncGenerator[Sequence[Record], None]:
        for number, stop in end.items():
            records = self._topics[topic][number][start.get(number, 0) : stop]
            if records:
                yield records

    async def tail(self, topic: str, start: Mapping[int, int]) -> AsyncGenerator[Sequence[Record], None]:
        at = dict(start)
        while True:
            grown = self._grown
            records = [record for number, offset in at.items() for record in self._topics[topic][number][offset:]]
            if records:
                at |= {record.partition: record.offset + 1 for record in records}
                yield records
            else:
                await grown.wait()

    @asynccontextmanager
    async def follow(self, topic: str, group: str) -> AsyncGenerator["MemoryFollower", None]:
        members = self._groups.setdefault((topic, group), [])
        follower = MemoryFollower(self, topic, group)
        members.append(follower)
        self._rebalance(topic, members)
        try:
            yield follower
        finally:
            self.expel(follower)

    async def group_state(self, topic: str, group: str) -> GroupState:
        ends = await self.ends(topic)
        found = {number: self._committed.get((topic, group, number), 0) for number in ends}
        committed = {number: offset if offset <= ends[number] else 0 for number, offset in found.items()}
        return GroupState(committed, has_members=bool(self._groups.get((topic, group))))

    def expel(self, follower: "MemoryFollower") -> None:
        """Remove a member from its group, as a broker does if it no longer hears from the member."""
        for (topic, _), members in self._groups.items():
            if follower in members:
                members.remove(follower)
                follower.assign(frozenset())
                self._rebalance(topic, members)

    def _rebalance(self, topic: str, members: list["MemoryFollower"]) -> None:
        numbers = range(len(self._topics[topic]))
        for place, member in enumerate(members):
            member.assign(frozenset(number for number in numbers if number % len(members) == place))
        self.wake()


class MemoryFollower:
    """A member of a group on a `MemoryLog`."""

    def __init__(self, log: MemoryLog, topic: str, group: str) -> None:
        self._log, self._topic, self._group = log, topic, group
        self._mine: frozenset[int] = frozenset()
        self._paused: frozenset[int] = frozenset()
        self._revoked: set[int] = set()
        self._assigned: set[int] = set()
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def assign(self, numbers: frozenset[int]) -> None:
        """Take over the partitions that the group assigns to this member."""
        for number in self._mine - numbers:
            self._positions.pop(number, None)
            self._assigned.discard(number)
            self._revoked.add(number)
        self._assigned |= numbers - self._mine
        self._mine = numbers

    async def poll(self, timeout: float) -> Polled:
        await asyncio.sleep(0)  # a member that polls in a tight loop must not starve the others
        polled = self._take()
        if polled.revoked or polled.assigned or polled.records:
            return polled
        try:
            async with asyncio.timeout(timeout):
                await self._log._grown.wait()  # noqa: SLF001 - one log in two classes
        except TimeoutError:
            pass
        return self._take()

    def _take(self) -> Polled:
        revoked, assigned = frozenset(self._revoked), frozenset(self._assigned)
        self._revoked.clear()
        self._assigned.clear()
        records: list[Record] = []
        for number in sorted(self._positions.keys() - self._paused):
            partition = self._log._topics[self._topic][number]  # noqa: SLF001 - one log in two classes
            records += partition[self._positions[number] :]
            self._positions[number] = self._ends[number] = len(partition)
        return Polled(revoked, assigned, records)

    async def seek(self, partition: int, offset: int) -> None:
        if partition in self._mine:
            self._positions[partition] = offset
            self._log.wake()

    def pause(self, partitions: frozenset[int]) -> None:
        if partitions != self._paused:
            self._paused = partitions
            self._log.wake()

    def end(self, partition: int) -> int:
        return self._ends.get(partition, 0)

    async def commit(self, offsets: Mapping[int, int]) -> None:
        if not offsets.keys() <= self._mine:
            raise Conflict("a partition has moved to another member of the group")
        for number, offset in offsets.items():
            self._log._committed[self._topic, self._group, number] = offset  # noqa: SLF001 - one log in two classes

    async def committed(self, partition: int) -> int:
        offset = self._log._committed.get((self._topic, self._group, partition), 0)  # noqa: SLF001 - one log in two classes
        return offset if offset <= (await self._log.ends(self._topic))[partition] else 0


class MemoryProgress:
    """A `ProgressTopic` within one process."""

    def __init__(self) -> None:
        self._log = MemoryLog()

    async def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.write(message.key, message.value)

    def write(self, key: bytes | None, value: bytes | None) -> None:
        """Send anything, as a hostile or third-party client could."""
        self._log.write(topics.PROGRESS.name, key, value)

    async def tail(self, key: bytes | None) -> AsyncGenerator[Sequence[Record], None]:
        every = range(topics.PROGRESS.partitions)
        numbers = every if key is None else [self._log.partition_of(topics.PROGRESS.name, key)]
        async with aclosing(self._log.tail(topics.PROGRESS.name, dict.fromkeys(numbers, 0))) as tail:
            async for records in tail:
                if ours := [record for record in records if key in (None, record.key)]:
                    yield ours

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
