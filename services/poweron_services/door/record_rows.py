"""What streams read of the rows: batches of consecutive records, of one workflow or of all."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from poweron_events import topics
from poweron_projections import bootstrap, reader
from poweron_projections.connection import Pool
from poweron_projections.entries import EventEntry, HistoryEntry, LoggedEvent, WorkflowSummary
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

    async def records_after(self, offsets: Offsets) -> Sequence[reader.LoggedRecord]:
        """Return a page of the records of all workflows from these offsets on."""


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

    async def records_after(self, offsets: Offsets) -> Sequence[reader.LoggedRecord]:
        return await reader.records_after(self.pool, offsets, limit=PAGE)


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A record, and the id after which a stream resumes."""

    id: str
    event: EventEntry
    message: HistoryEntry | None = None
    """The message that it added to the history."""


@dataclass(slots=True)
class RecordBatch(Generic[Cursor]):
    """Consecutive records, from after one cursor up to another; some advance the cursor without being shown."""

    after: Cursor
    to: Cursor
    records: Sequence[StreamRecord]
    state: WorkflowSummary | None = None
    """The workflow after the batch; None if it has further records."""
    is_full: bool = False
    """Whether further records may follow at once."""
    rests: "dict[Cursor, RecordBatch[Cursor]]" = field(default_factory=dict)
    """What followers lack who have a part of it."""
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
        records = await self.rows.records_after(after)
        if not records:
            return None
        to = list(after)
        for partition, offset, _ in records:
            to[partition] = offset + 1
        events = [event for _, _, event in records if event is not None]
        return RecordBatch(after, tuple(to), _identified(events, after), is_full=len(records) == PAGE)

    def reaches(self, cursor: Offsets, place: Offsets) -> bool:
        return all(ours >= theirs for ours, theirs in zip(cursor, place, strict=True))

    def rest(self, batch: RecordBatch[Offsets], cursor: Offsets) -> RecordBatch[Offsets]:
        events = [
            record.event
            for record in batch.records
            if isinstance(record.event, LoggedEvent) and record.event.offset >= cursor[record.event.partition]
        ]
        return RecordBatch(cursor, tuple(map(max, cursor, batch.to)), _identified(events, cursor))


def _identified(events: Sequence[LoggedEvent], after: Offsets) -> list[StreamRecord]:
    """Give each event the offsets of a follower that has just received it."""
    at, records = list(after), list[StreamRecord]()
    for event in events:
        at[event.partition] = event.offset + 1
        records.append(StreamRecord(format_offsets(at), event))
    return records


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
