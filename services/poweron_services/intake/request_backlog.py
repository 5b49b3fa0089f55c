"""The requests that a queue holds: which one is next, which are duplicates, and which offsets are done.

Senders take turns. Each workflow has one request in hand at a time, in order of arrival.
"""

from collections import deque
from dataclasses import dataclass, field

from poweron_events.codec import RequestAddress, request_address
from poweron_events.log import Record
from poweron_services.fair_slots import SenderTurns

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

    @property
    def wanted(self) -> bool:
        """Whether a partition that it came from is still ours."""
        return any(not partition.lost for partition, _ in self.places)

    @property
    def is_new(self) -> bool:
        """Whether the request arrived after its partition was assigned to us, so that no process has read it before."""
        return all(offset >= partition.end_at_assignment for partition, offset in self.places)


class HeldRequests:
    """The requests that were read and are not answered yet."""

    def __init__(self) -> None:
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
        partition.take(record.offset)
        self._places += 1
        address = request_address(record.value, record.headers) or _of_unreadable(record)
        known = self._held.get(address)
        if known is not None:
            known.places.append((partition, record.offset))
            return
        held = self._held[address] = HeldRequest(record, address, [(partition, record.offset)])
        self._bytes += record.size
        if address.workflow_id in self._of_workflow:
            self._of_workflow[address.workflow_id].append(held)
        else:
            self._of_workflow[address.workflow_id] = held.behind
            self._turns.add(address.source, held)

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
            self._turns.add(following.address.source, following)
        else:
            del self._of_workflow[held.address.workflow_id]


def _of_unreadable(record: Record) -> RequestAddress:
    """An address of its own, since each unreadable record becomes a dead letter."""
    place = f"{record.partition}/{record.offset}"
    return RequestAddress("", place, place)
