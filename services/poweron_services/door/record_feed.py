"""New records for any number of followers: read from the rows once, encoded once, and sent to all as the same bytes.

A follower that is slower than the feed, or resumes further back, reads pages of the rows, so it needs no queue of its
own and misses nothing. While there is no follower, nothing is read.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final, Generic

import structlog

from poweron_events.errors import PowerOnError
from poweron_events.log import ProgressTopic
from poweron_events.progress import StepProgress
from poweron_events.task_cancellation import retrieve_error
from poweron_projections.entries import WorkflowSummary
from poweron_services.background_tasks import BackgroundTasks
from poweron_services.client.follow import follow_all_progress
from poweron_services.door.record_rows import (
    PAGE,
    Cursor,
    LogSource,
    Offsets,
    ProgressBatch,
    RecordBatch,
    RecordSource,
    StreamRows,
    WorkflowSource,
)

log = structlog.get_logger()

PERIOD: Final = 0.1  # seconds between reads of the rows, while there are followers
REST: Final = 3  # times the CPU time of reading and sending, the feed rests: many followers get larger batches
KEPT: Final = 400  # records for followers that are a little behind
PROGRESS_KEPT: Final = 1_000  # workflows whose newest progress is kept for followers that come later
PING_PERIOD: Final = 15.0  # seconds between comments, since proxies cut streams that are idle for longer
READ_WITHIN: Final = 10.0  # seconds in which Postgres must answer
CLOSED_WITHIN: Final = 2.0  # seconds in which the feed must end
READ_AT_ONCE: Final = 2  # pages for followers that are behind, so that other requests still get a connection


class Followed(Generic[Cursor]):
    """What some followers follow: one workflow, or all of them."""

    def __init__(self, source: RecordSource[Cursor], slots: asyncio.Semaphore) -> None:
        """At most as many pages are read at once as there are slots."""
        self.source = source
        self.followers = 0
        self.at: Cursor | None = None
        """The cursor from which new records are read for all; None until the rows have answered."""
        self.state: WorkflowSummary | None = None
        """The workflow there; None if all workflows are followed, or it has no records."""
        self.progress: ProgressBatch | None = None
        """The newest progress of steps, as long as no record came after it."""
        self.pings = 0
        self.changed = asyncio.Event()
        """Set once there may be something to send; then another event takes its place."""
        self.is_closed = False
        self._slots = slots
        self._batches = deque[RecordBatch[Cursor]]()
        self._loads: dict[Cursor, asyncio.Task[RecordBatch[Cursor] | None]] = {}

    def wake(self) -> None:
        """Wake all followers."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def ping(self) -> None:
        """Let all idle followers send a comment."""
        self.pings += 1
        self.wake()

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        for load in self._loads.values():
            load.cancel()
        self.wake()

    def begin(self, at: Cursor) -> None:
        """Read new records from here on."""
        self.at = at
        self.wake()

    def show(self, progress: Sequence[StepProgress]) -> None:
        """Send the progress of steps to all followers that have all records."""
        if progress:
            self.progress = ProgressBatch(progress)
            self.wake()

    async def advance(self) -> None:
        """Read what is new, and wake all followers."""
        while self.at is not None and (batch := await self.source.load(self.at)) is not None:
            self._batches.append(batch)
            while sum(len(recent.records) for recent in self._batches) > max(KEPT, len(batch.records)):
                self._batches.popleft()
            self.at, self.state, self.progress = batch.to, batch.state or self.state, None
            self.wake()
            if not batch.is_full:
                break

    def is_recent(self, cursor: Cursor) -> bool:
        """Return whether `recent` has everything after the cursor that the feed has read."""
        begin = self._batches[0].after if self._batches else self.at
        return begin is not None and self.source.reaches(cursor, begin)

    def recent(self, cursor: Cursor) -> RecordBatch[Cursor] | None:
        """Return the next batch after the cursor, if it is kept."""
        for batch in reversed(self._batches):
            if batch.after == cursor:
                return batch
            if self.source.reaches(cursor, batch.after):
                return None if self.source.reaches(cursor, batch.to) else self._rest(batch, cursor)
        return None

    def _rest(self, batch: RecordBatch[Cursor], cursor: Cursor) -> RecordBatch[Cursor]:
        if cursor not in batch.rests:
            batch.rests[cursor] = self.source.rest(batch, cursor)
        return batch.rests[cursor]

    async def older(self, cursor: Cursor) -> RecordBatch[Cursor] | None:
        """Read a page after the cursor, once for all who ask for it; None if there is none or it cannot be read."""
        if (load := self._loads.get(cursor)) is None:
            load = self._loads[cursor] = asyncio.create_task(self._load(cursor))
            load.add_done_callback(lambda _: self._loads.pop(cursor))
            retrieve_error(load)
        await asyncio.wait({load})
        return None if load.cancelled() else load.result()

    async def _load(self, cursor: Cursor) -> RecordBatch[Cursor] | None:
        async with self._slots:
            try:
                async with asyncio.timeout(READ_WITHIN):
                    return await self.source.load(cursor)
            except (PowerOnError, TimeoutError):
                return None


class RecordFeed:
    """The feed of a door."""

    def __init__(self, rows: StreamRows, topic: ProgressTopic) -> None:
        """`topic` has the progress of long steps."""
        self.rows = rows
        self.is_closed = False
        self._topic = topic
        self._slots = asyncio.Semaphore(READ_AT_ONCE)
        self._workflows: dict[str, Followed[int]] = {}
        self._all: Followed[Offsets] | None = None
        self._progress: dict[str, StepProgress] = {}
        """The newest progress of each workflow, while a follower shows progress."""
        self._unshown: set[str] = set()
        """The workflows whose newest progress the followers have not got."""
        self._watchers = 0
        self._tail: asyncio.Task[None] | None = None
        """Reads the progress of all workflows, for all followers."""
        self._tasks = BackgroundTasks()
        self._reading: asyncio.Task[None] | None = None
        self._has_failed = False
        """Whether the last read met an unexpected error, or only outages have followed it."""

    @property
    def followers(self) -> int:
        """The number of followers."""
        return sum(followed.followers for followed in self._followed())

    async def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        for followed in self._followed():
            followed.close()
        await self._tasks.cancel(CLOSED_WITHIN)

    @contextmanager
    def workflow(self, workflow_id: str, *, progress: bool) -> Generator[Followed[int], None, None]:
        """Follow a workflow within the block, with the progress of its steps or without."""
        followed = self._workflows.get(workflow_id)
        if followed is None:
            source = WorkflowSource(self.rows, workflow_id)
            followed = self._workflows[workflow_id] = Followed(source, self._slots)
            self._unshown |= self._progress.keys() & {workflow_id}
        try:
            with self._following(followed, progress=progress):
                yield followed
        finally:
            if not followed.followers:
                del self._workflows[workflow_id]

    @contextmanager
    def everything(self, *, progress: bool) -> Generator[Followed[Offsets], None, None]:
        """Follow all workflows within the block, with the progress of their steps or without."""
        followed = self._all = self._all or Followed(LogSource(self.rows), self._slots)
        try:
            with self._following(followed, progress=progress):
                yield followed
        finally:
            if not followed.followers:
                self._all = None

    @contextmanager
    def _following(self, followed: Followed[Any], *, progress: bool) -> Generator[None, None, None]:
        followed.followers += 1
        self._watchers += progress
        followed.is_closed = self.is_closed
        if (self._reading is None or self._reading.done()) and not self.is_closed:
            self._reading = self._tasks.spawn(self._read())
        if progress and self._tail is None and not self.is_closed:
            self._tail = self._tasks.spawn(self._read_progress())
        try:
            yield
        finally:
            followed.followers -= 1
            self._watchers -= progress
            if self._tail is not None and not self._watchers:
                self._tail.cancel()
                self._tail = None
                self._progress.clear()

    def _followed(self) -> list[Followed[Any]]:
        return [*self._workflows.values(), *([self._all] if self._all is not None else [])]

    async def _read(self) -> None:
        """Read new records while there is a follower; try again while Postgres is unavailable."""
        loop, is_down = asyncio.get_running_loop(), False
        pinged = loop.time()
        while self._followed():
            used = time.thread_time()
            if loop.time() - pinged >= PING_PERIOD:
                pinged = loop.time()
                self._wake(Followed.ping)
            was_down, is_down = is_down, not await self._read_new()
            if was_down and not is_down:
                self._wake(Followed.wake)
            await asyncio.sleep(0)  # those who were woken send before this goes on
            await asyncio.sleep(max(PERIOD, REST * (time.thread_time() - used)))

    def _wake(self, wake: Callable[[Followed[Any]], None]) -> None:
        for followed in self._followed():
            wake(followed)

    async def _read_new(self) -> bool:
        """Read what is new; return False if Postgres is unavailable."""
        try:
            async with asyncio.timeout(READ_WITHIN):
                progress = await self._running_steps()
                if self._workflows:
                    await self._advance_workflows(await self.rows.record_counts(list(self._workflows)))
                if self._all is not None and self._all.at is None:
                    self._all.begin(await self.rows.positions())
                elif self._all is not None:
                    await self._all.advance()
                self._show(progress)
        except (PowerOnError, TimeoutError):
            return False
        except Exception:
            if not self._has_failed:  # ten reads a second would log the same
                log.exception("http_error")
            self._has_failed = True
            return False
        self._has_failed = False
        return True

    async def _advance_workflows(self, counts: Mapping[str, int]) -> None:
        for workflow_id, followed in [*self._workflows.items()]:
            last = counts.get(workflow_id, 0) - 1
            if followed.at is None:
                followed.begin(max(-1, last - PAGE))
            if followed.at is not None and last > followed.at:
                await followed.advance()

    async def _running_steps(self) -> dict[str, StepProgress]:
        """Return the new progress of followed workflows, unless it is about a step that is not running."""
        followed = self._unshown if self._all is not None else self._unshown & self._workflows.keys()
        progress = {workflow_id: self._progress[workflow_id] for workflow_id in followed & self._progress.keys()}
        self._unshown.clear()
        states = await self.rows.states(progress) if progress else {}
        return {id_: step for id_, step in progress.items() if id_ in states and _is_running(step, states[id_])}

    def _show(self, progress: Mapping[str, StepProgress]) -> None:
        for workflow_id in progress.keys() & self._workflows.keys():
            self._workflows[workflow_id].show([progress[workflow_id]])
        if self._all is not None:
            self._all.show([*progress.values()])

    async def _read_progress(self) -> None:
        async with aclosing(follow_all_progress(self._topic)) as following:
            async for newest in following:
                for workflow_id, progress in newest.items():
                    self._progress.pop(workflow_id, None)
                    self._progress[workflow_id] = progress
                for workflow_id in [*self._progress][:-PROGRESS_KEPT]:
                    del self._progress[workflow_id]
                self._unshown |= newest.keys()


def _is_running(progress: StepProgress, state: WorkflowSummary) -> bool:
    """Return whether the progress is about the step that is running now."""
    place = (state.current_round, state.current_task, state.attempt, state.current_step)
    return state.status == "running" and progress.place == place
