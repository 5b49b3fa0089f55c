"""Recovery: the log is folded as it grows, to see which workflows make progress after a fault, and when.

The service has recovered from a fault when every workflow that was open at its injection has made progress or ended,
by the broker's clock. `first_ms` is when the first of them did; until then no process made any progress.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from poweron_events import topics
from poweron_events.codec import Undecodable, read_record
from poweron_events.envelope import Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Follower, Record
from poweron_events.request import RequestIdentity
from poweron_events.retry import Failure, retry
from poweron_services.experiments.chaos.faults import FaultKind

log = structlog.get_logger()

MONITOR_GROUP: Final = "poweron.chaos"
POLL_TIMEOUT: Final = 0.2  # seconds


@dataclass(slots=True)
class InjectedFault:
    """A fault and the recovery from it so far; times in ms since 1970."""

    kind: FaultKind
    injected_ms: int
    waiting: set[str]
    """The workflows that were open at the injection and have made no progress since."""
    first_ms: int | None = None
    all_ms: int | None = None

    def take(self, workflow: Workflow, time_ms: int) -> None:
        """Take note of an event in a workflow."""
        if time_ms > self.injected_ms and (workflow.id in self.waiting or not self.waiting):
            self.first_ms = self.first_ms or time_ms
            self.waiting.discard(workflow.id)
        if not workflow.is_open:
            self.waiting.discard(workflow.id)
        if self.first_ms is not None and not self.waiting:
            self.all_ms = time_ms


@dataclass(slots=True)
class RecoveryMonitor:
    """The state of the log so far."""

    workflows: dict[str, Workflow] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    endings: Counter[str] = field(default_factory=Counter)
    answered: set[str] = field(default_factory=set)
    """The ids of the requests that have an answer."""
    positions: dict[int, int] = field(default_factory=dict)
    latest_ms: int = 0
    """The time of the last accepted event, by the broker's clock."""
    events: int = 0
    superseded: int = 0
    faults: list[InjectedFault] = field(default_factory=list)

    def fault_injected(self, kind: FaultKind, now_ms: int) -> None:
        """Record that a fault is injected now."""
        self.faults.append(InjectedFault(kind, now_ms, set(self.open)))

    def take(self, record: Record) -> None:
        """Fold one record, if it has not been folded before."""
        if record.offset < self.positions.get(record.partition, 0):
            return
        self.positions[record.partition] = record.offset + 1
        self.events += 1
        with suppress(Undecodable):
            self._fold(read_record(record))

    def _fold(self, recorded: Recorded) -> None:
        workflow_id = recorded.envelope.workflow_id
        before = self.workflows.get(workflow_id) or Workflow(workflow_id)
        workflow, verdict = evolve(before, recorded)
        self.workflows[workflow_id] = workflow
        if verdict != "accepted":
            self.superseded += 1
            return
        request: RequestIdentity | None = getattr(recorded.envelope.event, "request", None)
        if request is not None:
            self.answered.add(request.id)
        self.latest_ms = max(self.latest_ms, recorded.time_ms)
        self._note(before, workflow)
        for fault in self.faults:
            if fault.all_ms is None:
                fault.take(workflow, recorded.time_ms)

    def _note(self, before: Workflow, workflow: Workflow) -> None:
        if workflow.is_open:
            self.open.add(workflow.id)
        elif before.is_open:
            self.open.discard(workflow.id)
            self.endings[workflow.current.ending or ""] += 1

    async def run(self, log: EventLog) -> None:
        """Follow the log from its beginning until cancelled."""
        async with log.follow(topics.EVENTS.name, MONITOR_GROUP) as follower:
            while True:
                await retry(partial(self._poll, follower), failed=_polls_again)

    async def _poll(self, follower: Follower) -> None:
        polled = await follower.poll(POLL_TIMEOUT)
        for number in polled.assigned:
            await follower.seek(number, self.positions.get(number, 0))
        for record in polled.records:
            self.take(record)


def _polls_again(failure: Failure) -> None:
    log.warning("kafka_unavailable", error=str(failure.error))
