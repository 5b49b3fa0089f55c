"""One follower of a stream: sends what it lacks, then what is new, until there is nothing more to wait for."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol

from fastapi.sse import KEEPALIVE_COMMENT

from poweron_projections.entries import WorkflowSummary
from poweron_services.door.record_feed import Followed
from poweron_services.door.record_rows import Cursor, ProgressBatch, RecordBatch

OPEN: Final = ("running", "paused")

Send = Callable[[bytes], Awaitable[None]]


class StreamView(Protocol):
    """What a stream shows, and in which format; the frames may be empty."""

    @property
    def shows_progress(self) -> bool:
        """Whether it shows the progress of steps."""

    def encoded(self, batch: RecordBatch[Any]) -> bytes:
        """Encode the records of a batch; the last frame of each has its id."""

    def state(self, state: WorkflowSummary) -> bytes:
        """Encode the state for a follower that has all records."""

    def progress(self, batch: ProgressBatch) -> bytes:
        """Encode the progress of steps."""

    def end(self) -> bytes:
        """Encode the end of the stream."""

    def bye(self) -> bytes:
        """Encode the end of the door."""


@dataclass(frozen=True, slots=True)
class StreamFollower(Generic[Cursor]):
    """What one client asked for."""

    view: StreamView
    cursor: Cursor
    """What it has."""
    present: Cursor
    """Where the rows were when it asked."""
    waits: bool = True
    """Whether it waits for records that come later."""
    round: int = 0
    """The round whose end it waits for; otherwise the end of the last one."""

    async def run(self, followed: Followed[Cursor], send: Send) -> None:
        """Send until the stream ends: no round is open, the present is reached, or the door stops."""
        cursor, pings = self.cursor, followed.pings
        state: WorkflowSummary | None = None
        progress: ProgressBatch | None = None
        while not followed.is_closed:
            changed, is_recent = followed.changed, followed.is_recent(cursor)
            batch = followed.recent(cursor) if is_recent else await followed.older(cursor)
            if batch is not None:
                await _send(send, self.view.encoded(batch))
                cursor, state = batch.to, batch.state or state
                continue
            if is_recent and followed.source.reaches(cursor, self.present):
                if (newer := followed.state) is not None and (state is None or newer.seq > state.seq):
                    state = newer
                    await _send(send, self.view.state(state))
                if not self.waits or (state is not None and self._has_ended(state)):
                    await _send(send, self.view.end())
                    return
                if followed.progress is not progress:
                    progress = followed.progress
                    if progress is not None:
                        await _send(send, self.view.progress(progress))
            if pings != followed.pings:
                pings = followed.pings
                await send(KEEPALIVE_COMMENT)
            await changed.wait()
        await _send(send, self.view.bye())

    def _has_ended(self, state: WorkflowSummary) -> bool:
        return state.status not in OPEN and state.current_round >= self.round


async def _send(send: Send, data: bytes) -> None:
    if data:
        await send(data)
