"""The log: what appending, following and reading guarantee in every implementation (`kafka`, `memory`)."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """One record of the log. `time_ms` is the broker's time, in ms since 1970.

    `unreadable` says why a record, or the batch that ends with it, was not read; it then has no key and no value.
    """

    topic: str
    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]
    unreadable: str = ""

    @property
    def size(self) -> int:
        """The size of its key, value and headers in bytes."""
        size = len(self.key or b"") + len(self.value or b"")
        if not self.headers:  # like all records that we write
            return size
        return size + sum(len(name) + len(content or b"") for name, content in self.headers.items())


class Message(NamedTuple):
    """A message to append: a value under the key that decides its partition."""

    key: bytes
    value: bytes

    @property
    def size(self) -> int:
        """The size of its key and value in bytes."""
        return len(self.key) + len(self.value)


class Polled(NamedTuple):
    """The result of one poll.

    Changes of the assignment come first: `revoked` partitions are no longer ours; `assigned` partitions
    are ours but deliver nothing until `seek` says where to begin. Records are in offset order within a partition.
    Kafka assigns revoked partitions to no other member before the next poll, if that comes within a few seconds.
    """

    revoked: frozenset[int]
    assigned: frozenset[int]
    records: Sequence[Record]


class GroupState(NamedTuple):
    """A consumer group as seen from outside."""

    committed: Mapping[int, int]
    """By partition, the offset after the last record that the group has processed; 0 as in `Follower.committed`."""
    has_members: bool


class Follower(Protocol):
    """A member of a consumer group on one topic.

    Each record is delivered at least once, and in order within a partition, from the offset of the last seek.
    Two followers of a group may both hold a partition while it moves from one to the other.
    """

    async def poll(self, timeout: float) -> Polled:
        """Return what has arrived since the last poll, waiting at most `timeout` seconds for something.

        Raises:
            Unavailable: the log cannot be reached; poll again later.
        """

    async def seek(self, partition: int, offset: int) -> None:
        """Start or continue to deliver an assigned partition from `offset`; does nothing once it is revoked."""

    def pause(self, partitions: frozenset[int]) -> None:
        """Pause exactly these partitions until the next call; the pause holds across rebalances."""

    def end(self, partition: int) -> int:
        """Return the end offset seen with the latest delivery of the partition, 0 before the first."""

    async def commit(self, offsets: Mapping[int, int]) -> None:
        """Store where the group resumes: the offset after the last processed record.

        Raises:
            Unavailable: it may or may not be stored.
            Conflict: the partition has moved to another member.
        """

    async def committed(self, partition: int) -> int:
        """Return the offset that the group last committed; 0 if none, or if a recreated partition is shorter.

        Raises:
            Unavailable: the log cannot be reached.
        """


class ProgressTopic(Protocol):
    """The topic on which processes report the progress of long work: short retention, no guarantees.

    Records may be lost, late or forged.
    """

    async def send(self, messages: Sequence[Message]) -> None:
        """Send these messages, or none of them, within a few seconds.

        Raises:
            Unavailable: they are lost.
        """

    def tail(self, key: bytes | None) -> AsyncGenerator[Sequence[Record], None]:
        """Yield recent messages and those that arrive from now on, in batches, without end; only those under a key.

        With None, they are the messages under all keys; those under the same key are in order.

        Raises:
            Unavailable: nothing can be read now.
        """


class EventLog(Protocol):
    """Topics of records; each partition is a sequence that only grows at its end.

    If that no longer holds because the topic of the events was deleted or truncated, the call that notices it raises
    LogLost, which is an Unavailable: the topic may be restored.
    """

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        """Append all messages and return their offsets; messages with the same key keep their order.

        Raises:
            Unavailable: it is unknown whether they were written; repeating the same bytes is safe,
                since a second copy of an event has no effect.
            Refused: a message is too large and was not written.
        """

    def follow(self, topic: str, group: str) -> AbstractAsyncContextManager[Follower]:
        """Join the group; leave it on exit."""

    async def group_state(self, topic: str, group: str) -> GroupState:
        """Return the state of a group without joining it.

        Raises:
            Unavailable: the log cannot be reached.
            Refused: the log does not allow us to see it.
        """

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions of the topic."""

    async def ends(self, topic: str, at_least: Mapping[int, int] | None = None) -> Mapping[int, int]:
        """Return the end offset of every partition.

        An end that is lower than in `at_least` is requested again for several seconds before it is accepted.

        Raises:
            Unavailable: the log cannot be reached.
        """

    def read(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> AsyncGenerator[Sequence[Record], None]:
        """Yield all records from `start` up to, but not including, `end`, in batches, in order within a partition.

        Belongs to no group and commits no offsets.

        Raises:
            Unavailable: the log cannot be reached.
        """

    def tail(self, topic: str, start: Mapping[int, int]) -> AsyncGenerator[Sequence[Record], None]:
        """Yield all records of some partitions from these offsets on, in batches, waiting for more without end.

        Belongs to no group and commits no offsets.

        Raises:
            Unavailable: the log cannot be reached.
        """

    def partition_of(self, topic: str, key: bytes) -> int:
        """Return the partition that records with this key go to."""
