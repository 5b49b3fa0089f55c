"""Work in hand: what a process does for a workflow, from when it begins until what came of it is read back (E-06).

It thinks ahead (E-17): what was written is taken for accepted, and the next role of this process goes on behind it.
"""

import asyncio
from dataclasses import dataclass, field

from poweron_events.envelope import Cause
from poweron_events.fold.state import Phase, Workflow
from poweron_services.runtime.partitions import Partition

Awaited = tuple[Cause, Phase]
"""Where a workflow stands: its head, and what it waits for there."""


@dataclass(slots=True, eq=False)
class Work:
    """Work on what a workflow waits for; in flight until its last event is read back.

    `earlier` is work that is not over yet: cancelled, or begun before the partition was lost and given back.
    """

    partition: Partition
    earlier: "Work | None" = None
    task: asyncio.Task[None] | None = None
    thinking: bool = True
    """Whether more may come of it; what it has written goes its way to the log all the same."""
    at: Awaited | None = None
    """Where it thinks, or found nothing to write."""
    passed: set[Awaited] = field(default_factory=set)
    """Where it has written what is next."""
    reservations: set[int] = field(default_factory=set)
    """The reservations of the round that it has made or counts as used."""

    @property
    def running(self) -> bool:
        """Whether it thinks, or does not know yet that the log has what it wrote."""
        return self.task is not None and not self.task.done()

    def may_go_on(self, workflow_id: str) -> bool:
        """Whether more may be begun: the partition is ours, and nothing that was read froze the workflow."""
        held = self.partition.fold.workflows.get(workflow_id)
        return self.partition.ours and not (held is not None and held.frozen)

    def think_at(self, workflow: Workflow) -> None:
        """Begin with what the workflow waits for."""
        self.at = _awaited(workflow)

    def wrote(self, *passed: Workflow) -> None:
        """Remember that what these wait for was written."""
        self.passed.update(map(_awaited, passed))

    def covers(self, workflow: Workflow) -> bool:
        """Whether this is the work on what the workflow waits for, or that is on its way."""
        return self.wrote_at(workflow) or self.at == _awaited(workflow)

    def wrote_at(self, workflow: Workflow) -> bool:
        """Whether what the workflow waits for was written and is on its way."""
        return _awaited(workflow) in self.passed


def _awaited(workflow: Workflow) -> Awaited:
    """The head as it is known wherever it lies: who thinks ahead does not know its offset yet."""
    assert workflow.head is not None
    return workflow.head._replace(offset=None), workflow.phase


def retire(work: Work) -> None:
    """Its slot is no longer awaited: what is only thought of is cancelled, what was written stays so."""
    retired: Work | None = work
    while retired is not None:
        if retired.task is not None and retired.thinking:
            retired.task.cancel()
        retired = retired.earlier


async def in_flight_already(work: Work, workflow: Workflow) -> bool:
    """Wait for earlier work to end; whether it wrote what is awaited, so that it only has to be read back."""
    earlier, written = work.earlier, False
    while earlier is not None:
        if earlier.task is not None:
            await asyncio.wait([earlier.task])
        written = written or earlier.wrote_at(workflow)
        earlier = earlier.earlier
    work.earlier = None
    return written
