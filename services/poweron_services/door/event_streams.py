"""Streams of what happens, as server-sent events: of one workflow, or of all.

`id` is the seq of the record (of all workflows: the offsets by partition), so a client that reconnects with
`Last-Event-ID` gets each record once.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Response
from starlette.types import Receive, Scope, Send

from poweron_events.task_cancellation import cancel_task
from poweron_projections import reader
from poweron_services.client.cancel import why_unknown
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.door.access import Reader
from poweron_services.door.door_state import DoorOf, Opened
from poweron_services.door.problems import Problem
from poweron_services.door.record_feed import PING_AFTER, SHOWN, Batch, RecordFeed, Shown, frame, has_ended
from poweron_services.door.workflow_queries import WorkflowId

router = APIRouter(tags=["streams"])

STUCK_AFTER: Final = 10.0  # seconds in which a client that reads nothing may block its stream
PING: Final = b": ping\n\n"
RETRY_MS: Final = (500, 5_000)  # between which clients come back after a stop, so that they do not all do so at once

LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=1_000)]
Show = Annotated[list[Shown] | None, Query(description="Only these kinds of events; repeatable.")]
Follow = Annotated[bool, Query(description="Whether to wait for further events; otherwise it ends at the present.")]


class RecordStream(Response):
    """A response that sends the batches of a feed until it ends, the client is gone, or the door stops."""

    media_type = "text/event-stream"

    def __init__(
        self, feed: RecordFeed, batches: AsyncGenerator[Batch[Any] | None, None], show: frozenset[str], *, follow: bool
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._feed = feed
        self._batches = batches
        self._show = show
        self._follow = follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - of the interface
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending, gone = asyncio.create_task(self._send_all(send)), asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            await cancel_task(gone)
            await cancel_task(sending)

    async def _send_all(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        sent = loop.time()
        async with aclosing(self._batches) as batches:
            async for batch in batches:
                data = PING if batch is None and loop.time() - sent >= PING_AFTER else b""
                if batch is not None:
                    data = batch.encoded(self._show)
                if data:
                    sent = loop.time()
                    async with asyncio.timeout(STUCK_AFTER):
                        await send({"type": "http.response.body", "body": data, "more_body": True})
                if (batch is not None and batch.has_ended) or (batch is None and not self._follow):
                    break
        await send({"type": "http.response.body", "body": self._last_words(), "more_body": False})

    def _last_words(self) -> bytes:
        if not self._feed.is_closed:
            return frame("end", {})
        retry = random.randint(*RETRY_MS)  # noqa: S311 - no secret
        return frame("bye", {}) + f"retry: {retry}\n\n".encode()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@router.get("/workflows/{workflow_id}/stream", response_class=Response)
async def stream_of_workflow(
    *,
    workflow_id: WorkflowId,
    connections: Opened,
    door: DoorOf,
    _: Reader,
    last_event_id: LastEventId = None,
    after: Annotated[int | None, Query(ge=-1, le=2**31 - 1)] = None,
    show: Show = None,
    follow: Follow = True,
) -> RecordStream:
    """Follow a workflow until no round of it is open."""
    workflow = await reader.workflow(connections.pool, workflow_id)
    if workflow is None and isinstance(error := await why_unknown(connections, workflow_id), UnknownWorkflow):
        raise error
    assert door.feed is not None
    cursor = _seq(last_event_id) if last_event_id else -1 if after is None else after
    waits = follow and (workflow is None or not has_ended(workflow))
    return RecordStream(door.feed, door.feed.workflow(workflow_id, cursor), frozenset(show or SHOWN), follow=waits)


@router.get("/stream", response_class=Response)
async def stream_of_all(
    *,
    connections: Opened,
    door: DoorOf,
    _: Reader,
    last_event_id: LastEventId = None,
    after: Annotated[str | None, Query(max_length=1_000, description="The `id` of an event.")] = None,
    follow: Follow = True,
) -> RecordStream:
    """Follow all workflows, from now on or from an earlier event."""
    positions = await reader.positions(connections.pool)
    cursor = _offsets(last_event_id or after, len(positions)) if last_event_id or after else positions
    assert door.feed is not None
    return RecordStream(door.feed, door.feed.everything(cursor), frozenset({"event"}), follow=follow)


def _seq(last_event_id: str) -> int:
    if not (last_event_id.isdecimal() and last_event_id.isascii()) or int(last_event_id) >= 2**31:
        raise Problem("request_unreadable", f"Last-Event-ID: {last_event_id[:100]!r} is no number of an event.")
    return int(last_event_id)


def _offsets(id_: str | None, partitions: int) -> tuple[int, ...]:
    parts = (id_ or "").split(".")
    if len(parts) != partitions or not all(part.isdecimal() and part.isascii() for part in parts):
        raise Problem("request_unreadable", f"{(id_ or '')[:100]!r} is no id of an event of this stream.")
    return tuple(map(int, parts))
