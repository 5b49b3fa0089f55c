"""What streams read of the rows: batches of consecutive records, of one workflow or of all."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from poweron_events import topics
from poweron_events.progress import StepProgress
from poweron_projections import bootstrap, reader
from poweron_projections.connection import Pool
from poweron_projections.entries import EventEntry, HistoryEntry, WorkflowSummary
from poweron_services.door.problems import Problem

PAGE: Final = 200  # records of a batch

Cursor = TypeVar("Cursor", bound=Hashable)
"""How far a follower is: the seq of its last record, or the next offset of each partition."""
Offsets = tuple[int, ...]


class StreamRows(Protocol):
    """The queries; each raises Unavailable if Postgres cannot be reached."""

    async def record_counts(self, workflow_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the number of records of each of these workflows that has any."""

    async def news(self, workflow_id: str, after_seq: int) -> reader.News:
        """Return a page of a workflow's records after this seq, and its state."""

    async def positions(self) -> Offsets:
        """Return the next offset of each partition that is not in the rows yet."""

    async def log_news(self, offsets: Offsets) -> Sequence[reader.LoggedRecord]:
        """Return a page of the records of all workflows from these offsets on, with their messages and states."""

    async def states(self, workflow_ids: Collection[str]) -> Mapping[str, WorkflowSummary]:
        """Return those of these workflows that have records, by id."""


@dataclass(frozen=True, slots=True)
class PostgresRows:
    """The rows in Postgres."""

    pool: Pool

    async def record_counts(self, workflow_ids: Sequence[str]) -> Mapping[str, int]:
        return await reader.record_counts(self.pool, workflow_ids)

    async def news(self, workflow_id: str, after_seq: int) -> reader.News:
        return await reader.news(self.pool, workflow_id, after_seq=after_seq, limit=PAGE)

    async def positions(self) -> Offsets:
        positions = await bootstrap.positions(self.pool)
        return tuple(positions.get(partition, 0) for partition in range(topics.EVENTS.partitions))

    async def log_news(self, offsets: Offsets) -> Sequence[reader.LoggedRecord]:
        return await reader.log_news(self.pool, offsets, limit=PAGE)

    async def states(self, workflow_ids: Collection[str]) -> Mapping[str, WorkflowSummary]:
        return await reader.states(self.pool, workflow_ids)


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A record, and the id after which a stream resumes."""

    id: str
    event: EventEntry
    message: HistoryEntry | None = None
    """The message that it added to the history."""
    state: WorkflowSummary | None = None
    """In a stream of all workflows: its workflow, if it is the newest record of it."""


@dataclass(slots=True)
class RecordBatch(Generic[Cursor]):
    """Consecutive records, from after one cursor up to another; some advance the cursor without being shown."""

    after: Cursor
    to: Cursor
    records: Sequence[StreamRecord]
    state: WorkflowSummary | None = None
    """The workflow after the batch; None if it has further records, or all workflows are followed."""
    is_full: bool = False
    """Whether further records may follow at once."""
    rests: "dict[Cursor, RecordBatch[Cursor]]" = field(default_factory=dict)
    """What followers lack who have a part of it."""
    frames: dict[Hashable, bytes] = field(default_factory=dict)
    """What views have encoded, so that it is done once for all followers."""


@dataclass(slots=True)
class ProgressBatch:
    """The progress of steps that are running."""

    steps: Sequence[StepProgress]
    frames: dict[Hashable, bytes] = field(default_factory=dict)
    """What views have encoded, so that it is done once for all followers."""


class RecordSource(Protocol[Cursor]):
    """Where batches come from, and how their cursors compare."""

    async def load(self, after: Cursor) -> RecordBatch[Cursor] | None:
        """Return the records after a cursor; None if there are none yet."""

    def reaches(self, cursor: Cursor, place: Cursor) -> bool:
        """Return whether a follower at `cursor` has everything up to `place`."""

    def rest(self, batch: RecordBatch[Cursor], cursor: Cursor) -> RecordBatch[Cursor]:
        """Return what a follower at `cursor` lacks of a batch that begins at or before it."""


@dataclass(frozen=True, slots=True)
class WorkflowSource:
    """The records of one workflow; the cursor is the seq of the last one."""

    rows: StreamRows
    workflow_id: str

    async def load(self, after: int) -> RecordBatch[int] | None:
        events, messages, state = await self.rows.news(self.workflow_id, after)
        if not events:
            return None
        last = events[-1].seq
        records = [StreamRecord(str(event.seq), event, messages.get(event.seq)) for event in events]
        is_newest = state is not None and state.seq == last + 1
        return RecordBatch(after, last, records, state if is_newest else None, is_full=len(events) == PAGE)

    def reaches(self, cursor: int, place: int) -> bool:
        return cursor >= place

    def rest(self, batch: RecordBatch[int], cursor: int) -> RecordBatch[int]:
        records = [record for record in batch.records if record.event.seq > cursor]
        return RecordBatch(cursor, batch.to, records, batch.state)


@dataclass(frozen=True, slots=True)
class LogSource:
    """The records of all workflows; the cursor is the next offset of each partition."""

    rows: StreamRows

    async def load(self, after: Offsets) -> RecordBatch[Offsets] | None:
        records = await self.rows.log_news(after)
        if not records:
            return None
        to = list(after)
        for record in records:
            to[record.partition] = record.offset + 1
        shown = [
            StreamRecord("", event, message, state) for _, _, event, message, state in records if event is not None
        ]
        return RecordBatch(after, tuple(to), _identified(shown, after), is_full=len(records) == PAGE)

    def reaches(self, cursor: Offsets, place: Offsets) -> bool:
        return all(ours >= theirs for ours, theirs in zip(cursor, place, strict=True))

    def rest(self, batch: RecordBatch[Offsets], cursor: Offsets) -> RecordBatch[Offsets]:
        rest = [record for record in batch.records if record.event.offset >= cursor[record.event.partition]]
        return RecordBatch(cursor, tuple(map(max, cursor, batch.to)), _identified(rest, cursor))


def _identified(records: Sequence[StreamRecord], after: Offsets) -> list[StreamRecord]:
    """Give each record the offsets of a follower that has just received it."""
    at, identified = list(after), list[StreamRecord]()
    for record in records:
        at[record.event.partition] = record.event.offset + 1
        identified.append(replace(record, id=format_offsets(at)))
    return identified


def format_offsets(offsets: Sequence[int]) -> str:
    """Return offsets by partition as ids of streams and cursors of the log have them."""
    return ".".join(map(str, offsets))


def parse_offsets(text: str) -> Offsets:
    """Return the offsets by partition in such an id; raise Problem if it is none."""
    parts = text.split(".")
    if len(parts) != topics.EVENTS.partitions or not all(map(_is_offset, parts)):
        raise Problem("request_unreadable", f"{text[:100]!r} is no place in the log.")
    return tuple(map(int, parts))


def _is_offset(part: str) -> bool:
    return part.isdecimal() and part.isascii() and len(part) < 19
