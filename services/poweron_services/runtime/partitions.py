"""The part of the log that a process holds: the workflows of its partitions, folded from where the rows end.

Every assignment starts from a snapshot. If an opening belongs to a workflow that is not held, the workflow is looked
up, and only that workflow waits meanwhile (E-07).

`HeldPartitions` returns or yields facts; the worker acts on them before it waits again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import structlog

from poweron_events import topics
from poweron_events.codec import KnownRecord, Undecodable, read_record
from poweron_events.envelope import Recorded
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.fold.partial import PartialFold, Stub
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.log import EventLog, Follower, Record
from poweron_events.retry import Failure, retry
from poweron_services.runtime.stop_requests import StopRequests


class WorkSnapshot(Protocol):
    """A partition as Postgres holds it: the projector's next offset and the open workflows there."""

    @property
    def offset(self) -> int: ...
    @property
    def workflows(self) -> Mapping[str, Workflow]: ...


class Snapshots(Protocol):
    """The queries that the loop sends to Postgres. Every method raises Unavailable while Postgres does not answer."""

    async def load(self, partitions: Iterable[int]) -> Mapping[int, WorkSnapshot]:
        """The snapshots of partitions, read at one moment."""

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        """The projector's next offset and the stubs of the workflows that it knows, read at one moment."""

    async def positions(self) -> Mapping[int, int]:
        """The projector's next offset of every partition."""

    async def answered(self, source: str, request_id: str) -> bool:
        """Return whether the rows hold an answer to the request."""


log = structlog.get_logger()


SETTLED_PERIOD = 1.0  # seconds between checks whether intake has committed a stop request


TIDY_PERIOD = 5.0  # seconds between clean-ups of ended workflows


class FoldedRecord(NamedTuple):
    """A record of a held workflow, and the workflow before and after it; None before its first round."""

    recorded: Recorded
    verdict: Verdict
    before: Workflow | None
    after: Workflow


class ReleasedWorkflows(NamedTuple):
    """Workflows that are no longer held."""

    workflow_ids: Collection[str]


PartitionFact = FoldedRecord | ReleasedWorkflows


PartitionFacts = AsyncIterator[Sequence[PartitionFact]]
"""Facts that come in the background. After each list, even an empty one, workflows may be `pending`."""


@dataclass(slots=True, eq=False)
class Partition:
    """A partition while it is ours."""

    number: int
    fold: PartialFold
    position: int
    end_at_assignment: int
    floor: int
    pending: set[str] = field(default_factory=set)
    """The workflows to consider once the partition is caught up."""
    parked: dict[str, deque[Recorded]] = field(default_factory=dict)
    looking_up: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ours(self) -> bool:
        return not self.lost.is_set()

    @property
    def caught_up(self) -> bool:
        return self.position >= self.end_at_assignment

    def wake(self) -> None:
        """Wake all tasks that wait for the fold to advance or for the partition to be lost."""
        self.moved.set()
        self.moved = asyncio.Event()

    async def reach(self, offset: int) -> None:
        """Wait until everything before the offset is folded, or the partition is lost."""
        while self.ours and self.position < offset:
            await self.moved.wait()

    def lose(self) -> None:
        self.lost.set()
        self.wake()


class HeldPartitions:
    """The partitions that are ours, each with its fold."""

    def __init__(
        self,
        event_log: EventLog,
        snapshots: Snapshots,
        follower: Follower,
        *,
        written: MutableMapping[bytes | None, KnownRecord],
        stops: StopRequests,
    ) -> None:
        self._log = event_log
        self._snapshots = snapshots
        self._follower = follower
        self._stops = stops
        self._written = written  # events that this process has written and not read back, by their bytes
        self._assignments: dict[int, object] = {}  # by partition, the current assignment; also while it is being loaded
        self.partitions: dict[int, Partition] = {}

    def take(self, records: Iterable[Record]) -> list[PartitionFact]:
        """Fold the records of held partitions."""
        folded = [self._take(record) for record in records]
        for partition in self.partitions.values():
            partition.wake()
        return [fact for fact in folded if fact is not None]

    def lose_all(self) -> None:
        """Start nothing new, as if every partition had been revoked."""
        self._assignments.clear()
        for partition in self.partitions.values():
            partition.lose()

    # --- assignment -------------------------------------------------------------------------------------

    def revoke(self, numbers: Iterable[int]) -> list[PartitionFact]:
        """Release these partitions; nothing new begins there."""
        facts = list[PartitionFact]()
        if numbers:
            self._written.clear()  # some of these events will never be read back here
        for number in numbers:
            self._assignments.pop(number, None)
            partition = self.partitions.pop(number, None)
            if partition is not None:
                partition.lose()
                facts.append(ReleasedWorkflows([*partition.fold.workflows]))
        return facts

    def assign(self, numbers: frozenset[int]) -> PartitionFacts:
        """Register the assignment at once, so that a revocation ends it; the generator loads the partitions."""
        assignment = object()
        self._assignments.update(dict.fromkeys(numbers, assignment))
        return self._assign(numbers, assignment)

    async def _assign(self, numbers: frozenset[int], assignment: object) -> PartitionFacts:
        """Start from the snapshot; acting waits until everything up to the end seen now is folded."""

        def ours() -> frozenset[int]:
            return frozenset(number for number in numbers if self._assignments.get(number) is assignment)

        partitions = await retry(
            lambda: self._load(numbers),
            failed=_not_loaded(partitions=sorted(numbers)),
            on=Exception,
            needed=lambda: bool(ours()),
        )
        for partition in (partitions or {}).values():
            if partition.number in ours():
                await self._begin(partition)
        yield ()

    async def _load(self, numbers: frozenset[int]) -> Mapping[int, Partition]:
        await self._stops.read()
        snapshots = await self._snapshots.load(numbers)
        await self._stops.forget_answered(self._snapshots.answered)
        ends = await self._log.ends(topics.EVENTS.name)  # last: the answers to what was left out are before them
        return {number: _partition(number, snapshots[number], ends.get(number, 0)) for number in numbers}

    async def _begin(self, partition: Partition) -> None:
        self.partitions[partition.number] = partition
        await self._follower.seek(partition.number, partition.position)

    # --- folding ----------------------------------------------------------------------------------------

    def _take(self, record: Record) -> FoldedRecord | None:
        partition = self.partitions.get(record.partition)
        if partition is None or record.offset < partition.position:
            return None
        partition.position = record.offset + 1
        try:
            recorded = read_record(record, self._written.pop(record.value, None))
        except Undecodable:  # skipped by rule; the projector writes the dead letter (E-14)
            return None
        return self._feed(partition, recorded)

    def _feed(self, partition: Partition, recorded: Recorded) -> FoldedRecord | None:
        """Fold a record unless its workflow waits for a look-up."""
        workflow_id = recorded.envelope.workflow_id
        if workflow_id in partition.parked:
            partition.parked[workflow_id].append(recorded)
        elif partition.fold.must_look_up(recorded):
            partition.parked[workflow_id] = deque([recorded])
        else:
            return self._fold(partition, recorded, None)
        return None

    def _fold(self, partition: Partition, recorded: Recorded, stub: Stub | None) -> FoldedRecord | None:
        before = partition.fold.workflows.get(recorded.envelope.workflow_id)
        verdict = partition.fold.apply(recorded, stub)
        if verdict == "accepted":
            self._stops.answered(recorded)
        workflow = partition.fold.workflows.get(recorded.envelope.workflow_id)
        if workflow is None:
            return None
        partition.pending.add(workflow.id)
        return None if verdict is None else FoldedRecord(recorded, verdict, before, workflow)

    def look_ups(self) -> Iterator[PartitionFacts]:
        """Begin a look-up in each partition where openings wait for one that is not under way."""
        for partition in self.partitions.values():
            if partition.parked and not partition.looking_up:
                partition.looking_up = True
                yield self._look_up(partition)

    async def _look_up(self, partition: Partition) -> PartitionFacts:
        """Query Postgres for the workflows whose openings wait, until none waits."""
        while partition.parked and partition.ours:
            answer = await retry(
                lambda: self._answer(partition, list(partition.parked)),
                failed=_not_loaded(partitions=[partition.number]),
                on=Exception,
                needed=lambda: partition.ours,
            )
            if answer is not None and partition.ours:
                folded = [fact for id_, stub in answer.items() for fact in self._unpark(partition, id_, stub)]
                yield [fact for fact in folded if fact is not None]
        partition.looking_up = False

    async def _answer(self, partition: Partition, workflow_ids: Sequence[str]) -> Mapping[str, Stub | None]:
        projected, stubs = await self._snapshots.look_up(partition.number, workflow_ids)
        if projected < partition.floor:
            raise Unavailable(f"Postgres was rebuilt and has come to {projected}, but was at {partition.floor} before")
        partition.floor = projected
        return {workflow_id: stubs.get(workflow_id) for workflow_id in workflow_ids}

    def _unpark(self, partition: Partition, workflow_id: str, stub: Stub | None) -> list[FoldedRecord | None]:
        parked = partition.parked.pop(workflow_id)
        opening = self._fold(partition, parked.popleft(), stub)
        return [opening, *(self._feed(partition, recorded) for recorded in parked)]

    # --- tidying ----------------------------------------------------------------------------------------

    async def tidy(self) -> PartitionFacts:
        """Periodically forget ended workflows that the projector has passed, and commit positions for dashboards."""
        while True:
            await asyncio.sleep(TIDY_PERIOD)
            try:
                yield self._forget(await self._snapshots.positions())
                await self._follower.commit(
                    {partition.number: partition.position for partition in self.partitions.values()}
                )
            except PowerOnError as error:
                log.info("tidying_postponed", error=str(error))
            except Exception:
                log.exception("tidying_error")

    async def go_on_with_settled(self) -> PartitionFacts:
        """Resume workflows whose stop requests are settled, although no answer to them was folded here since."""
        while True:
            await asyncio.sleep(SETTLED_PERIOD)
            try:
                forgotten = await self._stops.forget_settled(self._snapshots.answered, self._is_folded)
            except PowerOnError as error:
                log.info("tidying_postponed", error=str(error))
                continue
            for partition in self.partitions.values():
                partition.pending |= forgotten & partition.fold.workflows.keys()
            yield ()

    def _is_folded(self, number: int, end: int) -> bool:
        """Return whether a partition is folded up to this end; one that this process does not hold counts as folded."""
        partition = self.partitions.get(number)
        return partition is None or partition.position >= end

    def _forget(self, projected: Mapping[int, int]) -> list[PartitionFact]:
        facts = list[PartitionFact]()
        for partition in self.partitions.values():
            position = projected.get(partition.number, 0)
            workflow_ids = set(partition.fold.workflows)
            if partition.fold.forget_ended(position):
                partition.floor = max(partition.floor, position)
                facts.append(ReleasedWorkflows(workflow_ids - partition.fold.workflows.keys()))
        return facts


def _partition(number: int, snapshot: WorkSnapshot, end: int) -> Partition:
    fold = PartialFold(dict(snapshot.workflows))
    return Partition(number, fold, snapshot.offset, end, floor=snapshot.offset, pending=set(fold.workflows))


def _not_loaded(partitions: list[int]) -> Callable[[Failure], None]:
    """Return a callback that logs why workflows of these partitions wait for Postgres."""

    def failed(failure: Failure) -> None:
        if isinstance(failure.error, Unavailable):
            level = logging.WARNING if failure.lasts else logging.INFO  # at a start, others may be starting too
            log.log(level, "loading_retried", error=str(failure.error), partitions=partitions)
        else:
            log.error("loading_error", exc_info=failure.error, partitions=partitions)

    return failed
