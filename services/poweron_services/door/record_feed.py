"""New records for any number of followers: read from the rows once, encoded once, and sent to all as the same bytes.

A follower that is slower than the feed, or resumes, reads pages of the rows instead, so it needs no queue of its own
and misses nothing. While there is no follower, nothing is read.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar, get_args

import orjson

from poweron_events.errors import PowerOnError
from poweron_events.task_cancellation import cancel_task
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.entries import EventEntry, HistoryEntry, WorkflowSummary

Shown = Literal["event", "message", "state", "progress"]
SHOWN: Final = frozenset(get_args(Shown))
PERIOD: Final = 0.05  # seconds between looks at the rows, while there are followers
KEPT: Final = 50  # batches for followers that are a little behind
PAGE: Final = 200  # records of a batch
PING_AFTER: Final = 15.0  # seconds of silence, since proxies cut streams that are idle for longer

Cursor = TypeVar("Cursor")
"""A place in what is followed: the seq of a record, or the next offset of each partition."""


def frame(event: str, data: Any, id_: str | None = None) -> bytes:
    """Encode one event of a stream."""
    line = b"" if id_ is None else b"id: " + id_.encode() + b"\n"
    return line + b"event: " + event.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


@dataclass(slots=True)
class Batch(Generic[Cursor]):
    """Consecutive records, from after one cursor up to another."""

    after: Cursor
    to: Cursor
    events: Sequence[tuple[str, EventEntry]]
    """The records, each with the id after which a stream resumes."""
    messages: dict[int, list[HistoryEntry]] = field(default_factory=dict)
    """The messages of the history that each record added, by seq."""
    state: WorkflowSummary | None = None
    """The workflow after the batch."""
    _encoded: dict[frozenset[str], bytes] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether no round of the workflow is open after the batch."""
        return self.state is not None and has_ended(self.state)

    def encoded(self, show: frozenset[str]) -> bytes:
        """Return the frames of these kinds; the last frame of each record has its id."""
        if (frames := self._encoded.get(show)) is None:
            frames = self._encoded[show] = b"".join(self._frames(show))
        return frames

    def _frames(self, show: frozenset[str]) -> list[bytes]:
        result = list[bytes]()
        for id_, event in self.events:
            shown: list[tuple[str, Any]] = []
            if "message" in show:
                shown += [("message", _data(message)) for message in self.messages.get(event.seq, ())]
            if "event" in show:
                shown.append(("event", _data(event)))
            result += [frame(kind, data) for kind, data in shown[:-1]]
            result += [frame(kind, data, id_) for kind, data in shown[-1:]]
        if self.state is not None and "state" in show:
            result.append(frame("state", _data(self.state)))
        return result


def has_ended(workflow: WorkflowSummary) -> bool:
    """Return whether no round of the workflow is open."""
    return workflow.status not in ("running", "paused")


def _data(entry: EventEntry | HistoryEntry | WorkflowSummary) -> dict[str, Any]:
    return entry.model_dump(mode="json", by_alias=True)


class Followed(Generic[Cursor]):
    """What some followers follow: one workflow, or all of them."""

    def __init__(self, load: Callable[[Cursor], Awaitable[Batch[Cursor] | None]]) -> None:
        """`load` returns the records after a cursor; None if there are none yet."""
        self.load = load
        self.followers = 0
        self.at: Cursor | None = None
        """The cursor from which new records are read for all."""
        self.batches = deque[Batch[Cursor]](maxlen=KEPT)
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once there may be something to send."""
        self.woken = asyncio.get_running_loop().time()

    def wake(self) -> None:
        """Wake all followers."""
        changed, self.changed = self.changed, asyncio.get_running_loop().create_future()
        changed.set_result(None)
        self.woken = asyncio.get_running_loop().time()

    async def advance(self) -> None:
        """Read what is new, and wake all followers."""
        while self.at is not None and (batch := await self.load(self.at)) is not None:
            self.batches.append(batch)
            self.at = batch.to
            self.wake()

    async def next(self, cursor: Cursor) -> Batch[Cursor] | None:
        """Return the batch after the cursor; None if there is none yet."""
        for batch in self.batches:
            if batch.after == cursor:
                return batch
        found = await self.load(cursor)
        if found is None and self.at is None:
            self.at = cursor
        return found


class RecordFeed:
    """The feed of a door."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._workflows: dict[str, Followed[int]] = {}
        self._all: Followed[tuple[int, ...]] | None = None
        self._reading: asyncio.Task[None] | None = None
        self.is_closed = False

    @property
    def followers(self) -> int:
        """The number of followers."""
        return sum(followed.followers for followed in self._followed())

    async def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        for followed in self._followed():
            followed.wake()
        if self._reading is not None:
            await cancel_task(self._reading)

    async def workflow(self, workflow_id: str, cursor: int) -> AsyncGenerator[Batch[int] | None, None]:
        """Yield the batches of a workflow after this seq; None each time there is nothing new.

        It ends when the feed is closed.

        Raises:
            Unavailable: Postgres cannot be reached.
        """

        async def load(after: int) -> Batch[int] | None:
            return await self._batch(workflow_id, after)

        followed = self._workflows.setdefault(workflow_id, Followed(load))
        try:
            async for batch in self._follow(followed, cursor):
                yield batch
        finally:
            if not followed.followers:
                self._workflows.pop(workflow_id, None)

    async def everything(self, cursor: tuple[int, ...]) -> AsyncGenerator[Batch[tuple[int, ...]] | None, None]:
        """Yield the batches of all workflows after these offsets of the partitions; otherwise as `workflow`."""
        self._all = self._all or Followed(self._batch_of_all)
        async for batch in self._follow(self._all, cursor):
            yield batch

    async def _follow(self, followed: Followed[Cursor], cursor: Cursor) -> AsyncGenerator[Batch[Cursor] | None, None]:
        followed.followers += 1
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        try:
            while not self.is_closed:
                changed = followed.changed
                batch = await followed.next(cursor)
                yield batch
                if batch is not None:
                    cursor = batch.to
                elif not self.is_closed:
                    await asyncio.wait({changed})  # to await it would cancel it for all, if this follower leaves
        finally:
            followed.followers -= 1

    async def _batch(self, workflow_id: str, after: int) -> Batch[int] | None:
        events = await reader.events(self._pool, workflow_id, after_seq=after, limit=PAGE)
        if not events:
            return None
        last = events[-1].seq
        messages: dict[int, list[HistoryEntry]] = {}
        for entry in await reader.history(self._pool, workflow_id, limit=len(events), before_seq=last + 1):
            if entry.seq > after:
                messages.setdefault(entry.seq, []).append(entry)
        state = await reader.workflow(self._pool, workflow_id)
        is_newest = state is not None and state.seq == last + 1
        return Batch(after, last, [(str(event.seq), event) for event in events], messages, state if is_newest else None)

    async def _batch_of_all(self, after: tuple[int, ...]) -> Batch[tuple[int, ...]] | None:
        to, events = list(after), list[tuple[str, EventEntry]]()
        for event in await reader.events_after(self._pool, after, limit=PAGE):
            to[event.partition] = event.offset + 1
            events.append((".".join(map(str, to)), event))
        return Batch(after, tuple(to), events) if events else None

    async def _read(self) -> None:
        """Look for new records while there is a follower; while Postgres is away, try again."""
        loop = asyncio.get_running_loop()
        while any(followed.followers for followed in self._followed()):
            await asyncio.sleep(PERIOD)
            with suppress(PowerOnError):
                seqs = await reader.record_counts(self._pool, list(self._workflows)) if self._workflows else {}
                for workflow_id, followed in [*self._workflows.items()]:
                    if followed.at is not None and seqs.get(workflow_id, 0) > followed.at + 1:
                        await followed.advance()
                if self._all is not None and self._all.followers:
                    await self._all.advance()
            for each in self._followed():
                if loop.time() - each.woken > PING_AFTER:
                    each.wake()

    def _followed(self) -> list[Followed[Any]]:
        return [*self._workflows.values(), *([self._all] if self._all is not None else [])]
