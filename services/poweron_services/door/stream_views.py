"""The frames of a stream: what it shows of each record, and how it begins, idles and ends."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import orjson
from fastapi.sse import format_sse_event

from poweron_events.event import Model
from poweron_projections.entries import WorkflowSummary
from poweron_services.door.record_rows import ProgressBatch, RecordBatch, StreamRecord

Shown = Literal["event", "message", "state", "progress"]
SHOWN: Final = frozenset(get_args(Shown))
RETRY_MS: Final = (500, 5_000)  # between which clients come back after a stop, so that they do not all do so at once


@dataclass(frozen=True, slots=True)
class PlainView:
    """Shows these kinds as named events, whose data is the JSON of the corresponding query."""

    kinds: frozenset[Shown]

    @property
    def shows_progress(self) -> bool:
        return "progress" in self.kinds

    def encoded(self, batch: RecordBatch[Any]) -> bytes:
        """Encode the batch, once for all followers with this view."""
        if (data := batch.frames.get(self)) is None:
            data = batch.frames[self] = self._encode(batch.records, batch.state)
        return data

    def _encode(self, records: Sequence[StreamRecord], state: WorkflowSummary | None) -> bytes:
        """Encode records, each with its id in the last frame; the state has it if the last record is not shown."""
        frames, last = list[bytes](), ""
        for record in records:
            entries = (("message", record.message), ("state", record.state), ("event", record.event))
            shown = [(kind, entry) for kind, entry in entries if kind in self.kinds and entry is not None]
            frames += [_frame(kind, entry) for kind, entry in shown[:-1]]
            frames += [_frame(kind, entry, record.id) for kind, entry in shown[-1:]]
            last = "" if shown else record.id
        if state is not None and "state" in self.kinds:
            frames.append(_frame("state", state, last or None))
        return b"".join(frames)

    def state(self, state: WorkflowSummary) -> bytes:
        """Encode the state for a follower that has all records."""
        return _frame("state", state) if "state" in self.kinds else b""

    def progress(self, batch: ProgressBatch) -> bytes:
        """Encode the progress of steps, once for all followers; it has no id, since it cannot be resumed."""
        if not self.shows_progress:
            return b""
        if (data := batch.frames.get(self)) is None:
            data = batch.frames[self] = b"".join(_frame("progress", progress) for progress in batch.steps)
        return data

    def end(self) -> bytes:
        """Encode the end of the stream."""
        return format_sse_event(event="end", data_str="{}")

    def bye(self) -> bytes:
        """Encode the end of the door, and after how long the client should come back."""
        return format_sse_event(event="bye", data_str="{}", retry=retry_ms())


def retry_ms() -> int:
    """Return after how many ms a client should come back, by chance."""
    return random.randint(*RETRY_MS)  # noqa: S311 - no secret


def _frame(kind: str, entry: Model, id_: str | None = None) -> bytes:
    data: Any = entry.model_dump(mode="json", by_alias=True)
    return format_sse_event(event=kind, data_str=orjson.dumps(data).decode(), id=id_)
