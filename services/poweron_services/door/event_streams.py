"""Streams of what happens, as server-sent events: of one workflow, or of all.

`id` is the seq of the record (of all workflows: the offsets by partition), so a client that reconnects with
`Last-Event-ID` gets each record once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Annotated, Any, Final, Literal

import structlog
from fastapi import APIRouter, Header, Query, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from poweron_events import topics
from poweron_events.task_cancellation import cancel_task
from poweron_projections import reader
from poweron_services.client.cancel import why_unknown
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.door.access import Reader, StreamSlot
from poweron_services.door.ag_ui_events import AgUiView
from poweron_services.door.door_state import DoorOf, DoorState, Opened
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import MAX_SEQ, WorkflowId
from poweron_services.door.record_feed import Followed, RecordFeed
from poweron_services.door.record_rows import parse_offsets
from poweron_services.door.stream_follower import StreamFollower, StreamView
from poweron_services.door.stream_views import SHOWN, PlainView, Shown

log = structlog.get_logger()
router = APIRouter(tags=["streams"])

STUCK_AFTER: Final = 10.0  # seconds in which a client that reads nothing may block its stream
PIECE: Final = 65_536  # bytes that are sent at once, so that a client that does not read takes no more memory

SEQ: Final = {"pattern": r"^([0-9]{1,9})?$"}
OFFSETS: Final = {"pattern": rf"^([0-9]{{1,18}}(\.[0-9]{{1,18}}){{{topics.PARTITIONS - 1}}})?$"}


def _last_event_id(form: dict[str, Any]) -> Any:
    description = "The last `id` that arrived."
    return Header(alias="Last-Event-ID", max_length=1_000, description=description, json_schema_extra=form)


Show = Annotated[list[Shown] | None, Query(description="Only these kinds of events; repeatable.")]
Follow = Annotated[bool, Query(description="Whether to wait for further events; otherwise it ends at the present.")]


class RecordStream(Response):
    """A response that sends what a follower gets until the stream ends or the client is gone.

    `StreamSender` runs it, after the framework has released what it needed to find it.
    """

    media_type = "text/event-stream"

    def __init__(
        self, following: AbstractContextManager[Followed[Any]], follower: StreamFollower[Any], slot: StreamSlot
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._following = following
        self._follower = follower
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - of the interface
        scope["state"]["stream"] = self

    async def run(self, receive: Receive, send: Send) -> None:
        """Send the stream."""
        sending = asyncio.create_task(self._send_all(send))
        ends = [asyncio.create_task(_until_gone(receive))]
        if self._slot.has_key:
            ends.append(asyncio.create_task(self._slot.until_invalid()))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await asyncio.wait({sending, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self._slot.release()
            for task in (*ends, sending):
                await cancel_task(task)

    async def _send_all(self, send: Send) -> None:
        try:
            with self._following as followed:
                await self._follower.run(followed, _in_pieces(send))
        except TimeoutError:
            return  # the client reads nothing; the connection is closed, and it may come back
        except Exception:
            log.exception("http_error")
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _in_pieces(send: Send) -> Callable[[bytes], Awaitable[None]]:
    async def send_all(data: bytes) -> None:
        for begin in range(0, len(data), PIECE):
            async with asyncio.timeout(STUCK_AFTER):
                piece = data if len(data) <= PIECE else data[begin : begin + PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": True})

    return send_all


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class StreamSender:
    """Runs the streams that the routes below it return."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if isinstance(stream := scope.get("state", {}).pop("stream", None), RecordStream):
            await stream.run(receive, send)


@router.get("/workflows/{workflow_id}/stream", response_class=Response)
async def stream_of_workflow(
    *,
    workflow_id: WorkflowId,
    connections: Opened,
    door: DoorOf,
    request: Request,
    caller: Reader,
    last_event_id: Annotated[str | None, _last_event_id(SEQ)] = None,
    after: Annotated[int | None, Query(ge=-1, le=MAX_SEQ, description="Only what comes after this seq.")] = None,
    show: Show = None,
    follow: Follow = True,
    round_: Annotated[int, Query(alias="round", ge=0, le=MAX_SEQ, description="Wait until this round has ended.")] = 0,
    format_: Annotated[
        Literal["poweron", "ag-ui"], Query(alias="format", description="`ag-ui`: as events of that protocol.")
    ] = "poweron",
) -> RecordStream:
    """Follow a workflow until no round of it is open."""
    workflow = await reader.workflow(connections.pool, workflow_id)
    if workflow is None and isinstance(error := await why_unknown(connections, workflow_id), UnknownWorkflow):
        raise error
    cursor = _seq(last_event_id) if last_event_id else -1 if after is None else after
    view: StreamView = PlainView(frozenset(show or SHOWN))
    if format_ == "ag-ui":
        view, cursor = AgUiView(workflow_id, cursor), -1
    present = -1 if workflow is None else workflow.seq - 1
    follower = StreamFollower(view, cursor, present, waits=follow, round=round_)
    following = _feed(door).workflow(workflow_id, progress=view.shows_progress and follow)
    return RecordStream(following, follower, StreamSlot(request, caller))


@router.get("/stream", response_class=Response)
async def stream_of_all(
    *,
    door: DoorOf,
    request: Request,
    caller: Reader,
    last_event_id: Annotated[str | None, _last_event_id(OFFSETS)] = None,
    after: Annotated[
        str | None, Query(max_length=1_000, description="The `id` of an event.", json_schema_extra=OFFSETS)
    ] = None,
    show: Show = None,
    follow: Follow = True,
) -> RecordStream:
    """Follow all workflows, from now on or from an earlier record; everything it sends names its workflow.

    Each record comes after the message that it added, and the newest one of a workflow after its state.
    """
    feed = _feed(door)
    positions = await feed.rows.positions()
    cursor = parse_offsets(given) if (given := last_event_id or after) else positions
    view = PlainView(frozenset(show or SHOWN))
    follower = StreamFollower(view, cursor, positions, waits=follow)
    following = feed.everything(progress=view.shows_progress and follow)
    return RecordStream(following, follower, StreamSlot(request, caller))


def _feed(door: DoorState) -> RecordFeed:
    _ = door.opened
    assert door.feed is not None
    return door.feed


def _seq(last_event_id: str) -> int:
    if not (last_event_id.isdecimal() and last_event_id.isascii()) or int(last_event_id) > MAX_SEQ:
        raise Problem("request_unreadable", f"Last-Event-ID: {last_event_id[:100]!r} is no number of an event.")
    return int(last_event_id)
