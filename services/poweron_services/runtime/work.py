"""Work in hand: what a process does for a workflow, from its beginning until its events are read back (E-06).

It works ahead (E-17): written events are assumed to be accepted, and the next role of this process continues from them.
"""

import asyncio
from dataclasses import dataclass, field

from poweron_events.fold.state import Phase, Workflow
from poweron_services.models.time_limit import TimeLimit
from poweron_services.runtime.partitions import Partition

Awaited = tuple[str, str, Phase]
"""The state of a workflow: the id and the digest of its head, and the phase in which it waits there."""


@dataclass(slots=True, eq=False)
class Work:
    """Work on what a workflow waits for; in flight until its last event is read back.

    `earlier` is work that is not over yet: cancelled, or begun before the partition was lost and assigned again.
    """

    partition: Partition
    earlier: "Work | None" = None
    task: asyncio.Task[None] | None = None
    thinking: bool = True
    """Whether it may still produce events; those already written reach the log regardless."""
    at: Awaited | None = None
    """The state that it works on, or in which it found nothing to write."""
    passed: set[Awaited] = field(default_factory=set)
    """The states whose next event it has written."""
    reservations: set[int] = field(default_factory=set)
    """The reservations of the round that it made or counts as used."""
    limit: TimeLimit | None = None
    """The time limit of its stage; it is suspended while the round is paused."""
    is_suspended: bool = False
    began_paused: bool = False
    """It began in a paused round, where it may only report that an action did not begin."""

    @property
    def running(self) -> bool:
        """Whether it may still produce events, or does not know yet that the log has those it wrote."""
        return self.task is not None and not self.task.done()

    def may_go_on(self, workflow_id: str) -> bool:
        """Return whether more may begin: the partition is ours, and the workflow is neither frozen nor paused."""
        workflow = self.partition.fold.workflows.get(workflow_id)
        return self.partition.ours and not (workflow is not None and (workflow.frozen or workflow.is_paused))

    def pause(self, workflow: Workflow) -> None:
        """Stop the clock of its stage; drop what only waits, for a slot or for a person, to begin again afterwards."""
        self.suspend(suspended=True)
        if workflow.phase in ("ready", "approve") and not self.wrote_at(workflow):
            self.begin_again()
            retire(self)

    def keep_limit(self, limit: TimeLimit | None) -> None:
        """Keep the time limit of the stage that begins now; None once it has ended."""
        self.limit, self.is_suspended = limit, False

    def suspend(self, *, suspended: bool) -> None:
        """Stop the clock of its stage, and of earlier work, or let it go on."""
        if self.limit is not None and self.is_suspended != suspended:
            self.is_suspended = suspended
            if suspended:
                self.limit.stop()
            else:
                self.limit.go_on()
        if self.earlier is not None:
            self.earlier.suspend(suspended=suspended)

    def begin_again(self) -> None:
        """Record that it has ended without an event, so that other work on the same state begins."""
        self.at = None

    def think_at(self, workflow: Workflow) -> None:
        """Begin to work on what the workflow waits for."""
        self.at, self.began_paused = _awaited(workflow), workflow.is_paused

    def wrote(self, *workflows: Workflow) -> None:
        """Record that the events which these workflows wait for were written."""
        self.passed.update(map(_awaited, workflows))

    def covers(self, workflow: Workflow) -> bool:
        """Return whether this work is on what the workflow waits for, or its event is on its way."""
        works_on_it = self.at == _awaited(workflow) and self.began_paused == workflow.is_paused
        return self.wrote_at(workflow) or works_on_it

    def wrote_at(self, workflow: Workflow) -> bool:
        """Return whether the event that the workflow waits for was written and is on its way."""
        return _awaited(workflow) in self.passed


def _awaited(workflow: Workflow) -> Awaited:
    """The state without the head's offset, which is not known yet when working ahead."""
    assert workflow.head is not None
    return workflow.head.id, workflow.head.sha256, workflow.phase


def retire(work: Work) -> None:
    """Drop work whose result is no longer awaited: cancel it unless it is only appending; what was written remains."""
    current: Work | None = work
    while current is not None:
        if current.task is not None and current.thinking:
            current.task.cancel()
        current = current.earlier


def outgoing(work: Work | None, partition: Partition, workflow: Workflow) -> Work | None:
    """Return the work that new work must wait for; retire it unless it covers what the workflow waits for."""
    if work is None or work.covers(workflow):
        return work
    retire(work)
    lasts = work.thinking if work.partition is partition else work.running
    return work if lasts or work.earlier is not None else None


async def in_flight_already(work: Work, workflow: Workflow) -> bool:
    """Wait for earlier work to end; return whether it wrote the awaited event, which then only has to be read back."""
    earlier, written = work.earlier, False
    while earlier is not None:
        if earlier.task is not None:
            await asyncio.wait([earlier.task])
        written = written or earlier.wrote_at(workflow)
        earlier = earlier.earlier
    work.earlier = None
    return written
