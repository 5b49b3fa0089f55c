"""The part of the log that a process holds: the workflows of its partitions, folded on from the rows in Postgres.

Every assignment starts from a snapshot. If an opening belongs to a workflow that is not held, the workflow is looked
up, and only that workflow waits meanwhile (E-07).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from poweron_events import topics
from poweron_events.codec import Undecodable, read_record
from poweron_events.envelope import Envelope, Recorded
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.fold.partial import PartialFold, Stub
from poweron_events.log import EventLog, Follower, Polled, Record
from poweron_events.retry import Failure, retry
from poweron_services.background_tasks import BackgroundTasks
from poweron_services.runtime.stop_requests import StopRequests
from poweron_services.runtime.worker_ports import Listener, Snapshots, WorkSnapshot

log = structlog.get_logger()

COMMITTED_PERIOD = 1.0  # seconds between checks whether intake has committed a stop request
TIDY_PERIOD = 5.0  # seconds between clean-ups of ended workflows


@dataclass(slots=True, eq=False)
class Partition:
    """A partition while it is ours."""

    number: int
    fold: PartialFold
    position: int
    end_at_assignment: int
    floor: int
    pending: set[str] = field(default_factory=set)
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
        listener: Listener,
        *,
        written: MutableMapping[bytes | None, Envelope],
        stops: StopRequests,
    ) -> None:
        self._log = event_log
        self._snapshots = snapshots
        self._follower = follower
        self._listener = listener
        self._stops = stops
        self._written = written  # events that this process has written and not read back, by their bytes
        self._tasks = BackgroundTasks()
        self._assignments: dict[int, object] = {}  # by partition, the current assignment; also while it is being loaded
        self.partitions: dict[int, Partition] = {}

    def take(self, polled: Polled) -> None:
        """Process the result of a poll except its revocations: first the assignment, then the records."""
        if polled.assigned:
            assignment = object()
            self._assignments.update(dict.fromkeys(polled.assigned, assignment))
            self._tasks.spawn(self._assign(polled.assigned, assignment))
        for record in polled.records:
            self._take(record)
        self._listener.changed()
        for partition in self.partitions.values():
            partition.wake()

    async def close(self, timeout: float) -> None:
        await self._tasks.cancel(timeout)

    def lose_all(self) -> None:
        """Start nothing new, as if every partition had been revoked."""
        self._assignments.clear()
        for partition in self.partitions.values():
            partition.lose()

    # --- assignment -------------------------------------------------------------------------------------

    def revoke(self, numbers: Iterable[int]) -> None:
        """Release these partitions; nothing new begins there."""
        if numbers:
            self._written.clear()  # some of these events will never be read back here
        for number in numbers:
            self._assignments.pop(number, None)
            partition = self.partitions.pop(number, None)
            if partition is not None:
                partition.lose()
                self._listener.released(partition.fold.workflows)

    async def _assign(self, numbers: frozenset[int], assignment: object) -> None:
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
        self._listener.changed()

    async def _load(self, numbers: frozenset[int]) -> Mapping[int, Partition]:
        await self._stops.read()  # first: the answers to what it skips are before the ends that are queried next
        ends = await self._log.ends(topics.EVENTS.name)
        snapshots = await self._snapshots.load(numbers)
        await self._stops.forget_answered(self._snapshots.answered)
        return {number: _partition(number, snapshots[number], ends.get(number, 0)) for number in numbers}

    async def _begin(self, partition: Partition) -> None:
        self.partitions[partition.number] = partition
        await self._follower.seek(partition.number, partition.position)

    # --- folding ----------------------------------------------------------------------------------------

    def _take(self, record: Record) -> None:
        partition = self.partitions.get(record.partition)
        if partition is None or record.offset < partition.position:
            return
        partition.position = record.offset + 1
        with suppress(Undecodable):  # skipped by rule; the projector writes the dead letter (E-14)
            self._feed(partition, read_record(record, self._written.pop(record.value, None)))

    def _feed(self, partition: Partition, recorded: Recorded) -> None:
        workflow_id = recorded.envelope.workflow_id
        if workflow_id in partition.parked:
            partition.parked[workflow_id].append(recorded)
        elif partition.fold.must_look_up(recorded):
            partition.parked[workflow_id] = deque([recorded])
            if not partition.looking_up:
                partition.looking_up = True
                self._tasks.spawn(self._look_up(partition))
        else:
            self._fold(partition, recorded, None)

    def _fold(self, partition: Partition, recorded: Recorded, stub: Stub | None) -> None:
        before = partition.fold.workflows.get(recorded.envelope.workflow_id)
        verdict = partition.fold.apply(recorded, stub)
        if verdict == "accepted":
            self._stops.answered(recorded)
        workflow = partition.fold.workflows.get(recorded.envelope.workflow_id)
        if workflow is None:
            return
        partition.pending.add(workflow.id)
        if verdict == "superseded":
            self._listener.superseded(workflow, recorded)
        elif verdict == "accepted" and before is not None:
            self._listener.accepted(before, workflow, recorded)

    async def _look_up(self, partition: Partition) -> None:
        """Query Postgres for the workflows whose openings wait, until none waits."""
        while partition.parked and partition.ours:
            answer = await retry(
                lambda: self._answer(partition, list(partition.parked)),
                failed=_not_loaded(partitions=[partition.number]),
                on=Exception,
                needed=lambda: partition.ours,
            )
            if answer is not None and partition.ours:
                for workflow_id, stub in answer.items():
                    self._unpark(partition, workflow_id, stub)
                self._listener.changed()
        partition.looking_up = False

    async def _answer(self, partition: Partition, workflow_ids: Sequence[str]) -> Mapping[str, Stub | None]:
        projected, stubs = await self._snapshots.look_up(partition.number, workflow_ids)
        if projected < partition.floor:
            raise Unavailable(f"Postgres was rebuilt and has come to {projected}, but was at {partition.floor} before")
        partition.floor = projected
        return {workflow_id: stubs.get(workflow_id) for workflow_id in workflow_ids}

    def _unpark(self, partition: Partition, workflow_id: str, stub: Stub | None) -> None:
        parked = partition.parked.pop(workflow_id)
        self._fold(partition, parked.popleft(), stub)
        for recorded in parked:
            self._feed(partition, recorded)

    # --- tidying ----------------------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Periodically forget ended workflows that the projector has passed, and commit positions for dashboards."""
        while True:
            await asyncio.sleep(TIDY_PERIOD)
            try:
                self._forget(await self._snapshots.positions())
                await self._follower.commit(
                    {partition.number: partition.position for partition in self.partitions.values()}
                )
            except PowerOnError as error:
                log.info("tidying_postponed", error=str(error))
            except Exception:
                log.exception("tidying_error")

    async def go_on_with_committed(self) -> None:
        """Resume workflows whose stop requests intake has committed without an answer that is folded from here."""
        while True:
            await asyncio.sleep(COMMITTED_PERIOD)
            try:
                forgotten = await self._stops.forget_committed(self._is_folded)
            except PowerOnError as error:
                log.info("tidying_postponed", error=str(error))
                continue
            for partition in self.partitions.values():
                partition.pending |= forgotten & partition.fold.workflows.keys()
            self._listener.changed()

    def _is_folded(self, number: int, end: int) -> bool:
        """Return whether a partition is folded up to this end; one that this process does not hold counts as folded."""
        partition = self.partitions.get(number)
        return partition is None or partition.position >= end

    def _forget(self, projected: Mapping[int, int]) -> None:
        for partition in self.partitions.values():
            position = projected.get(partition.number, 0)
            workflow_ids = set(partition.fold.workflows)
            if partition.fold.forget_ended(position):
                partition.floor = max(partition.floor, position)
                self._listener.released(workflow_ids - partition.fold.workflows.keys())


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
