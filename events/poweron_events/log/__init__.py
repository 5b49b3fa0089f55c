"""The log: what appending, following and reading promise, whoever keeps it (`kafka`, `memory`)."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """One record as the log keeps it. `time_ms` is the broker's, in ms since 1970.

    `unreadable` says why a record, or the batch that ends with it, is not read; it then has no key and no value.
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
        """Bytes of its key, value and headers."""
        size = len(self.key or b"") + len(self.value or b"")
        if not self.headers:  # as all that we write
            return size
        return size + sum(len(name) + len(content or b"") for name, content in self.headers.items())


class Message(NamedTuple):
    """What is appended: the value under the key that decides its partition."""

    key: bytes
    value: bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.key) + len(self.value)


class Polled(NamedTuple):
    """What one poll brought.

    Changes of the assignment come first: `revoked` partitions are no longer ours, `assigned` ones
    are and stay silent until `seek` says where to begin. Records are in offset order within a partition.
    Kafka gives nobody else what was revoked before the next poll, if that comes within a few seconds.
    """

    revoked: frozenset[int]
    assigned: frozenset[int]
    records: Sequence[Record]


class GroupState(NamedTuple):
    """A consumer group as it is seen from outside."""

    committed: Mapping[int, int]
    """By partition, the offset after the last record that the group has done; 0 as in `Follower.committed`."""
    has_members: bool


class Follower(Protocol):
    """A member of a consumer group on one topic.

    Each record comes at least once, and in order within a partition, from the offset last sought.
    Two followers of a group may both be given a partition while it moves from one to the other.
    """

    async def poll(self, timeout: float) -> Polled:
        """What has come since the last poll, waiting at most `timeout` seconds for something.

        Raises:
            Unavailable: the log cannot be reached; poll again later.
        """

    async def seek(self, partition: int, offset: int) -> None:
        """Begin, or go on, delivering an assigned partition from `offset`. Without effect once revoked."""

    def pause(self, partitions: frozenset[int]) -> None:
        """Deliver nothing of exactly these partitions until called again; holds across rebalances."""

    def end(self, partition: int) -> int:
        """The end offset seen with the newest delivery of the partition, 0 before the first."""

    async def commit(self, offsets: Mapping[int, int]) -> None:
        """Remember for the group where to begin next time: the offset after the last one done.

        Raises:
            Unavailable: it may or may not be remembered.
            Conflict: the partition has moved to another member.
        """

    async def committed(self, partition: int) -> int:
        """What the group last remembered; 0 if nothing, or more than the partition holds: its topic was made again.

        Raises:
            Unavailable: the log cannot be reached.
        """


class ProgressTopic(Protocol):
    """Where it is told how far long work is, and where that is watched: it keeps nothing for long and promises nothing.

    Records may be lost, come late or be forged.
    """

    async def send(self, messages: Sequence[Message]) -> None:
        """Send these messages, or none of them, within a few seconds.

        Raises:
            Unavailable: they are lost.
        """

    def tail(self, key: bytes) -> AsyncGenerator[Sequence[Record], None]:
        """What was sent under this key a moment ago and what comes from now on, in batches, without end.

        Raises:
            Unavailable: nothing can be read now.
        """


class EventLog(Protocol):
    """Topics of records; each partition is a sequence that only ever grows at its end.

    Where the keeper breaks that, because its topic of the events was deleted or cut, whoever meets it raises LogLost,
    which is an Unavailable: it may be restored.
    """

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        """Append all messages; those of one key stay in the order given. Returns their offsets.

        Raises:
            Unavailable: not known whether it was written; repeating the same bytes is safe,
                since a second copy of an event has no effect.
            Refused: a message is too large and was not written.
        """

    def follow(self, topic: str, group: str) -> AbstractAsyncContextManager[Follower]:
        """Join the group; leaves it on exit."""

    async def group_state(self, topic: str, group: str) -> GroupState:
        """Look at a group without joining it.

        Raises:
            Unavailable: the log cannot be reached.
            Refused: it does not let us look.
        """

    async def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""

    async def ends(self, topic: str, at_least: Mapping[int, int] | None = None) -> Mapping[int, int]:
        """The end offset of every partition.

        An end that is lower than in `at_least` is asked for again for several seconds before it is believed.

        Raises:
            Unavailable: the log cannot be reached.
        """

    def read(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> AsyncGenerator[Sequence[Record], None]:
        """All records from `start` up to but without `end`, in batches, in order within a partition.

        Belongs to no group and moves no offsets.

        Raises:
            Unavailable: the log cannot be reached.
        """

    def tail(self, topic: str, partition: int, offset: int) -> AsyncGenerator[Sequence[Record], None]:
        """All records of a partition from `offset` on, in batches, waiting for more without end.

        Belongs to no group and moves no offsets.

        Raises:
            Unavailable: the log cannot be reached.
        """

    def partition_of(self, topic: str, key: bytes) -> int:
        """The partition that the key's records go to."""
