"""Deadlines of rounds: when this process's clock passes one, an event says so, which the fold decides on (E-16)."""

import asyncio
from collections.abc import Callable

from poweron_events.fold.state import Workflow
from poweron_events.fold.turn import round_due_ms
from poweron_services.runtime.partitions import Partition


class RoundDeadlines:
    """One timer for each workflow whose round has a deadline."""

    def __init__(self, now_ms: Callable[[], int], passed: Callable[[Workflow], None]) -> None:
        self._now_ms = now_ms
        self._passed = passed
        self._timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}  # by workflow, with the deadline in ms

    def __len__(self) -> int:
        return len(self._timers)

    def watch(self, partition: Partition, workflow: Workflow) -> None:
        """Report once the workflow's round is out of time, unless it is forgotten or its deadline changes before."""
        due_ms = round_due_ms(workflow)
        if due_ms is None:
            self.forget(workflow.id)
        elif workflow.id not in self._timers or self._timers[workflow.id][0] != due_ms:
            self.forget(workflow.id)
            delay = max(0, due_ms - self._now_ms()) / 1000
            timer = asyncio.get_running_loop().call_later(delay, self._tell, partition, workflow.id)
            self._timers[workflow.id] = (due_ms, timer)

    def forget(self, workflow_id: str) -> None:
        _, timer = self._timers.pop(workflow_id, (0, None))
        if timer is not None:
            timer.cancel()

    def forget_all(self) -> None:
        for workflow_id in list(self._timers):
            self.forget(workflow_id)

    def _tell(self, partition: Partition, workflow_id: str) -> None:
        self._passed(partition.fold.workflows[workflow_id])  # still held: no timer outlives the release of its workflow
