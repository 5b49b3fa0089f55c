"""The faults that can be injected, the plan of when to inject them, and the recovery from them.

The same seed gives the same plan. The service has recovered from a fault when every workflow that was open at its
injection has made progress or ended, by the broker's clock. `first_ms` is when the first of them did; until then no
process made any progress. To see that, `RecoveryMonitor` folds the log as it grows.
"""

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, get_args

import structlog

from poweron_events import topics
from poweron_events.codec import Undecodable, read_record
from poweron_events.envelope import Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Follower, Record
from poweron_events.log.kafka_settings import REQUEST_TIMEOUT
from poweron_events.request import RequestIdentity
from poweron_events.retry import Failure, retry

FaultKind = Literal[
    "process_killed",
    "process_stopped",
    "process_frozen",
    "projectors_killed",
    "cancelled_while_stopped",
    "rebalance",
    "second_projector",
    "kafka_killed",
    "kafka_frozen",
    "postgres_killed",
    "offsets_lost",
    "rows_lost",
    "rows_rebuilt",
    "records_poisoned",
    "decompression_bombs",
    "opening_forged",
    "requests_flooded",
]

KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)

FAULT_NAMES: Final[dict[FaultKind, str]] = {
    "process_killed": "role process killed",
    "process_stopped": "role process stopped",
    "process_frozen": "role process frozen",
    "projectors_killed": "all projectors killed",
    "cancelled_while_stopped": "cancelled, all killed",
    "rebalance": "process joins and leaves",
    "second_projector": "one more projector",
    "kafka_killed": "Kafka killed",
    "kafka_frozen": "Kafka frozen",
    "postgres_killed": "Postgres killed",
    "offsets_lost": "offsets of requests lost",
    "rows_lost": "all rows dropped",
    "rows_rebuilt": "rows rebuilt beside",
    "records_poisoned": "unreadable records",
    "decompression_bombs": "decompression bombs",
    "opening_forged": "opening forged",
    "requests_flooded": "flood of duplicates",
}

SESSION_TIMEOUT = 3.0  # seconds until a consumer group drops a silent process

DURATIONS: Final[dict[FaultKind, tuple[float, float]]] = {
    "process_killed": (0.0, 2.0),
    "process_stopped": (0.0, 2.0),
    "process_frozen": (SESSION_TIMEOUT + 0.5, SESSION_TIMEOUT + 5.0),
    "projectors_killed": (0.5, 3.0),
    "cancelled_while_stopped": (0.0, 2.0),
    "rebalance": (2.0, 6.0),
    "second_projector": (2.0, 6.0),
    "kafka_killed": (0.0, 2.0),
    "kafka_frozen": (1.0, REQUEST_TIMEOUT + 2.0),
    "postgres_killed": (0.0, 3.0),
    "offsets_lost": (0.0, 0.0),
    "rows_lost": (0.0, 0.0),
    "rows_rebuilt": (0.0, 0.0),
    "records_poisoned": (0.0, 0.0),
    "decompression_bombs": (0.0, 0.0),
    "opening_forged": (0.0, 0.0),
    "requests_flooded": (0.0, 0.0),
}
"""The minimum and maximum seconds until a fault is undone by a start, a thaw or by leaving the group."""

FIRST = 1.0  # seconds
GAP = (1.5, 5.0)  # seconds between two faults; the second may begin while the first lasts


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its time, kind and target, and the seconds until it is undone."""

    at: float
    kind: FaultKind
    target: int
    lasts: float


def plan_faults(seed: int, seconds: float) -> tuple[Fault, ...]:
    """Plan faults for this many seconds; every kind occurs equally often, give or take one."""
    rng = random.Random(f"faults {seed}")
    at, coming, planned = FIRST, list[FaultKind](), list[Fault]()
    while at < seconds:
        coming = coming or rng.sample(KINDS, len(KINDS))
        kind = coming.pop()
        planned.append(Fault(round(at, 3), kind, rng.randrange(1_000), round(rng.uniform(*DURATIONS[kind]), 3)))
        at += rng.uniform(*GAP)
    return tuple(planned)


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
