"""Work in hand: what a process does for a workflow, from when it begins until what came of it is read back (E-06)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from poweron_events.envelope import Cause
from poweron_events.fold.state import Phase, Workflow
from poweron_services.runtime.partitions import Partition

AWAITING_THE_SECOND: frozenset[Phase] = frozenset({"ready", "observe"})
"""What a workflow waits for once the first of two events that travel together has been read back."""


@dataclass(slots=True, eq=False)
class Work:
    """Work on what a workflow waits for; in flight until its event is read back.

    `earlier` is work that is not over yet: cancelled, or begun before the partition was lost and given back.
    """

    head: Cause
    partition: Partition
    earlier: "Work | None" = None
    task: asyncio.Task[None] | None = None
    appending: bool = False
    causes: Sequence[Cause] = ()  # the events being appended, as causes of what follows them

    @property
    def running(self) -> bool:
        return self.task is not None and not self.task.done()

    def covers(self, workflow: Workflow) -> bool:
        """Whether this is the work on the workflow's head, or what the workflow waits for is on its way behind it."""
        if workflow.phase in AWAITING_THE_SECOND:
            return any(known.names(workflow.head) for known in (self.head, *self.causes[:-1]))
        return self.head.names(workflow.head)


def retire(work: Work) -> None:
    """Its slot is no longer awaited: what is being appended may end, what is only thought of is cancelled."""
    retired: Work | None = work
    while retired is not None:
        if retired.task is not None and not retired.appending:
            retired.task.cancel()
        retired = retired.earlier


async def in_flight_already(work: Work, workflow: Workflow) -> bool:
    """Wait for earlier work to end; whether it appended what is awaited, so that it only has to be read back."""
    earlier, appended = work.earlier, False
    while earlier is not None:
        if earlier.task is not None:
            await asyncio.wait([earlier.task])
        appended = appended or (earlier.appending and earlier.covers(workflow))
        earlier = earlier.earlier
    work.earlier = None
    return appended
