"""Rows in memory, which records are appended to, and followers of them that come, go and come back."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import orjson

from poweron_events.errors import Unavailable
from poweron_projections.entries import LoggedEvent, LoggedMessage, WorkflowSummary
from poweron_projections.reader import LoggedRecord, News
from poweron_services.door.record_rows import PAGE

WORKFLOWS = ("one", "two", "three")


def summary(workflow_id: str, seq: int, status: str) -> WorkflowSummary:
    return WorkflowSummary.model_validate(
        {
            **dict.fromkeys(WorkflowSummary.model_fields),
            **dict.fromkeys(("frozen", "stuck"), False),
            **dict.fromkeys(
                ("current_task", "attempt", "current_step", "current_action", "steps", "tokens", "cost_nano_usd"), 0
            ),
            **dict.fromkeys(("opened", "updated", "cursor"), ""),
            "workflow_id": workflow_id,
            "status": status,
            "phase": "plan",
            "current_round": 1,
            "seq": seq,
            "restarted_as": (),
        }
    )


def message(event: LoggedEvent) -> LoggedMessage | None:
    """The message that every third record of a workflow adds."""
    if event.seq % 3:
        return None
    return LoggedMessage.model_validate(
        {
            **dict.fromkeys(LoggedMessage.model_fields),
            **dict.fromkeys(("round", "task", "attempt", "step", "unread_left_out"), 0),
            **dict.fromkeys(("prompt", "kind", "status", "message", "summary", "error", "time"), ""),
            **dict.fromkeys(("documents", "references", "findings", "links", "unread", "learnings"), ()),
            "workflow_id": event.workflow_id,
            "seq": event.seq,
        }
    )


@dataclass
class RowsInMemory:
    """Rows of some partitions; now and then they cannot be reached."""

    chance: random.Random
    partitions: int = 3
    unavailable: float = 0.0
    """The share of queries that fail."""
    log: list[list[tuple[int, LoggedEvent | None]]] = field(default_factory=list)
    workflows: dict[str, list[LoggedEvent]] = field(default_factory=lambda: {name: [] for name in WORKFLOWS})
    ended: set[str] = field(default_factory=set)
    time: int = 0

    def __post_init__(self) -> None:
        self.log = [[] for _ in range(self.partitions)]

    def append(self, workflow_id: str | None) -> None:
        """Append a record with the time of one of several machines; one without a workflow is not an event."""
        self.time += 1
        time = self.time + self.chance.randint(-5, 5)
        events = [] if workflow_id is None else self.workflows[workflow_id]
        partition = self.chance.randrange(self.partitions) if workflow_id is None else self._partition(workflow_id)
        event = None
        if workflow_id is not None:
            event = LoggedEvent(
                workflow_id=workflow_id,
                seq=len(events),
                type="poweron.tested.v1",
                verdict="accepted",
                partition=partition,
                offset=len(self.log[partition]),
                time="",
                id="",
                source="",
                causationid=None,
                sha256="",
                data=None,
            )
            events.append(event)
        self.log[partition].append((time, event))

    def _partition(self, workflow_id: str) -> int:
        return WORKFLOWS.index(workflow_id) % self.partitions

    def _reach(self) -> None:
        if self.chance.random() < self.unavailable:
            raise Unavailable("Postgres is away")

    async def record_counts(self, workflow_ids: Sequence[str]) -> Mapping[str, int]:
        self._reach()
        return {name: len(self.workflows[name]) for name in workflow_ids if self.workflows[name]}

    async def news(self, workflow_id: str, after_seq: int) -> News:
        self._reach()
        events = self.workflows[workflow_id]
        page = events[max(0, after_seq + 1) :][:PAGE]
        messages = {event.seq: added for event in page if (added := message(event)) is not None}
        return News([*page], {**messages}, self._state(workflow_id) if events else None)

    def _state(self, workflow_id: str) -> WorkflowSummary:
        status = "completed" if workflow_id in self.ended else "running"
        return summary(workflow_id, len(self.workflows[workflow_id]), status)

    async def states(self, workflow_ids: Collection[str]) -> Mapping[str, WorkflowSummary]:
        self._reach()
        return {name: self._state(name) for name in workflow_ids if self.workflows[name]}

    async def positions(self) -> tuple[int, ...]:
        self._reach()
        return tuple(len(records) for records in self.log)

    async def log_news(self, offsets: tuple[int, ...]) -> Sequence[LoggedRecord]:
        self._reach()
        found = list[tuple[int, int, int, LoggedEvent | None]]()
        for partition, records in enumerate(self.log):
            page = records[offsets[partition] :][:PAGE]
            times = accumulate((time for time, _ in page), max)
            for number, (time, (_, event)) in enumerate(zip(times, page, strict=True)):
                found.append((time, partition, offsets[partition] + number, event))
        return [self._logged(*record[1:]) for record in sorted(found, key=lambda record: record[:3])[:PAGE]]

    def _logged(self, partition: int, offset: int, event: LoggedEvent | None) -> LoggedRecord:
        if event is None:
            return LoggedRecord(partition, offset, None)
        is_newest = event.seq == len(self.workflows[event.workflow_id]) - 1
        state = self._state(event.workflow_id) if is_newest else None
        return LoggedRecord(partition, offset, event, message(event), state)


def frames(data: bytes) -> list[dict[str, Any]]:
    """The frames of a stream with their data; comments and the last frame, if it is cut, are left out."""
    told = list[dict[str, Any]]()
    for part in data.decode().split("\n\n")[:-1]:
        lines = [line.split(": ", 1) for line in part.split("\n") if not line.startswith(":")]
        if lines:
            frame: dict[str, Any] = dict(lines)
            told.append(frame | ({"data": orjson.loads(frame["data"])} if "data" in frame else {}))
    return told
