"""What happens is followed live, and after a cut from where it was: each record once, in order, with nothing lost."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import httpx2
import psutil
import pytest
from beside import beside
from followed_door import Writer, streamed, whole, written
from opened_door import Door, opened

from builders import At, Told, cancellation, completed, follow_up, planned, requested, reviewed, step, typical
from poweron_events import topics
from poweron_events.log import Message
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.progress import StepProgress
from poweron_projections.connection import acquire
from poweron_services.door import event_streams, http_server, record_feed
from poweron_services.door.stream_views import SHOWN
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

PERIOD = 0.1  # seconds between two reports of a step's progress

NEWEST = 1_000  # the seq of a record that is never written
START = ".".join("0" * topics.EVENTS.partitions)


@pytest.fixture
async def writer(door_settings: Settings, kafka: KafkaSettings, dsn: str) -> AsyncGenerator[Writer, None]:
    async with written(door_settings, kafka, dsn) as writer:
        yield writer


@pytest.fixture
async def door(door_settings: Settings, writer: Writer) -> AsyncGenerator[Door, None]:
    """A door that plays no roles: what happens is what the test writes."""
    await writer.write(typical("first"))
    async with opened(door_settings, serving=False) as door:
        yield door


def of(kind: str, frames: list[dict[str, Any]]) -> list[Any]:
    return [frame["data"] for frame in frames if frame.get("event") == kind]


def ids(frames: list[dict[str, Any]]) -> list[int]:
    return [int(frame["id"]) for frame in frames if "id" in frame]


async def test_a_stream_sends_what_the_queries_show_and_ends_with_the_round(door: Door, writer: Writer) -> None:
    told = typical()
    path = f"/workflows/{await writer.write(told)}"
    frames = await whole(door, f"{path}/stream")
    events = (await door.http.get(f"/api/v1{path}/events")).json()["items"]
    assert of("event", frames) == events
    assert ids(frames) == [*range(len(events))]
    history = (await door.http.get(f"/api/v1{path}/history")).json()["items"]
    assert of("message", frames) == history[::-1]
    assert of("state", frames) == [(await door.http.get(f"/api/v1{path}")).json()]
    assert frames[-1] == {"event": "end", "data": {}}


async def test_a_stream_resumes_after_every_record(door: Door, writer: Writer) -> None:
    told = typical()
    path = f"/workflows/{await writer.write(told)}/stream"
    frames = await whole(door, path)
    for last in range(len(told.messages)):
        rest = await whole(door, path, last)
        assert ids(rest) == [*range(last + 1, len(told.messages))]
        assert of("event", rest) == of("event", frames)[last + 1 :]
        assert of("state", rest) == of("state", frames)  # it may have been lost with the connection
        assert await whole(door, path, after=last) == rest
    assert of("event", await whole(door, path, NEWEST)) == []


@pytest.mark.parametrize("show", [sorted(kinds) for kinds in chain(*(combinations(SHOWN, n) for n in (1, 2)))])
async def test_a_stream_shows_only_the_kinds_that_are_asked_for(door: Door, writer: Writer, show: list[str]) -> None:
    path = f"/workflows/{await writer.write(typical())}/stream"
    frames, all_frames = await whole(door, path, show=show), await whole(door, path)
    for kind in SHOWN:
        assert of(kind, frames) == (of(kind, all_frames) if kind in show else [])
    assert len(set(ids(frames))) == len(ids(frames))
    for last in ids(frames):
        rest = await whole(door, path, last, show=show)
        assert ids(rest) == [seq for seq in ids(frames) if seq > last]
    frames, all_frames = [await whole(door, "/stream", START, follow=False, **kinds) for kinds in ({"show": show}, {})]
    for kind in SHOWN:
        assert of(kind, frames) == (of(kind, all_frames) if kind in show else [])
    for number, frame in enumerate(frames):
        if "id" in frame and number % 7 < 2:  # beside each other, and some of each kind
            rest = await whole(door, "/stream", frame["id"], follow=False, show=show)
            assert sorted(map(str, frames[number + 1 :])) == sorted(map(str, rest))


async def test_followers_get_what_comes_while_they_wait_and_others_leave(door: Door, writer: Writer) -> None:
    told = Told("live")
    path = f"/workflows/{await writer.write(told, requested('live'))}/stream"
    async with streamed(door, path, show="event") as stays:
        async with streamed(door, path, show="event") as leaves:
            assert [(await stream.next())["id"] for stream in (stays, leaves)] == ["0", "0"]
        for event in (planned(), *step(1), reviewed(), completed()):
            await writer.write(told, event)
            assert (await stays.next())["id"] == str(len(told.messages) - 1)
        assert (await stays.next())["event"] == "end"


async def test_without_follow_a_stream_ends_at_the_present(door: Door, writer: Writer) -> None:
    told = Told("open")
    path = f"/workflows/{await writer.write(told, requested('open'), planned())}/stream"
    frames = await whole(door, path, follow=False)
    assert ids(frames) == [0, 1]
    assert frames[-1]["event"] == "end"
    async with streamed(door, path, show="event") as follows:
        await follows.next()
        await writer.write(told, At().selected())
        assert ids(await whole(door, path, follow=False)) == [0, 1, 2]


async def test_who_asks_for_another_round_may_follow_before_it_is_opened(door: Door, writer: Writer) -> None:
    told = typical("again")
    path = f"/workflows/{await writer.write(told)}/stream"
    async with streamed(door, path, len(told.messages) - 1, show="event", round=2) as stream:
        await writer.write(told, follow_up())
        assert (await stream.next())["data"]["type"] == "poweron.round.requested.v1"
        await writer.write(told, cancellation(2))
        assert (await stream.next())["data"]["type"] == "poweron.cancellation.requested.v1"


async def test_progress_of_the_running_step_is_shown_without_an_id(door: Door, writer: Writer) -> None:
    told, at = Told("long"), At()
    workflow = await writer.write(told, requested("long"), planned(), at.selected(), at.parameters(), at.started())

    def progress(done: int, step_: int = 1) -> Message:
        return StepProgress(
            workflow_id=workflow, round=1, task=1, attempt=1, step=step_, try_=1,
            action="document.extract", unit="pages_read", done=done, total=9, time="2026-11-21T00:00:00.000Z",
        ).message()  # fmt: skip

    expected = {
        "workflowId": workflow, "round": 1, "task": 1, "attempt": 1, "step": 1, "try": 1,
        "action": "document.extract", "unit": "pages_read", "done": 2, "total": 9,
        "time": "2026-11-21T00:00:00.000Z",
    }  # fmt: skip

    async def tell_again(message: Message) -> None:
        while True:
            await writer.connections.progress.send([message])
            await asyncio.sleep(PERIOD)

    async with (
        streamed(door, f"/workflows/{workflow}/stream") as one,
        streamed(door, f"/workflows/{workflow}/stream") as two,
        streamed(door, "/stream") as of_all,
    ):
        async with beside(tell_again(progress(1))):  # a stream may begin to listen after the first one
            assert [(await stream.next("progress"))["data"]["done"] for stream in (one, two, of_all)] == [1, 1, 1]
        await writer.connections.progress.send([progress(5, step_=2)])  # of a step that is not running
        await asyncio.sleep(0.5)
        await writer.connections.progress.send([progress(2)])
        for stream in (one, of_all):
            while (shown := (await stream.next("progress"))["data"])["done"] == 1:
                pass
            assert shown == expected
        assert not any("id" in frame for frame in [*one.all, *of_all.all] if frame["event"] == "progress")


async def test_all_workflows_are_followed_from_now_or_from_any_event(door: Door, writer: Writer) -> None:
    stories = [typical(str(number)) for number in range(5)]
    async with streamed(door, "/stream") as stream:
        for told in stories:
            await writer.write(told)
            await writer.connections.log.append(topics.EVENTS.name, [Message(b"junk", b"no event")])
        events = [await stream.next("event") for told in stories for _ in told.messages]
    assert _seqs(events) == {told.id: [*range(len(told.messages))] for told in stories}
    for told in stories:
        of_one = await whole(door, f"/workflows/{told.id}/stream")
        of_all = [frame for frame in stream.all if frame["data"].get("workflowId") == told.id]
        for kind in ("event", "message"):
            assert of(kind, of_all) == [{**entry, "workflowId": told.id} for entry in of(kind, of_one)]
        assert of("state", of_all)[-1:] == of("state", of_one)
    for number in range(0, len(events), 7):
        rest = await whole(door, "/stream", events[number]["id"], follow=False)
        assert rest[-1]["event"] == "end"
        rest = [frame for frame in rest if frame["event"] == "event"]
        assert sorted(_names(events[: number + 1] + rest)) == sorted(_names(events))
    assert [frame["event"] for frame in await whole(door, "/stream", follow=False)] == ["end"]


def _names(frames: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(frame["data"]["workflowId"], frame["data"]["seq"]) for frame in frames]


def _seqs(frames: list[dict[str, Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for workflow, seq in _names(frames):
        found.setdefault(workflow, []).append(seq)
    return found


@pytest.mark.parametrize("path", ["/workflows/{}/stream", "/stream"])
async def test_a_damaged_row_blocks_no_stream(door: Door, writer: Writer, path: str) -> None:
    told = Told("damaged")
    workflow = await writer.write(told, requested("damaged"))
    async with streamed(door, path.format(workflow), show="event") as stream:
        async with acquire(writer.connections.pool) as connection:
            await connection.execute(
                "CREATE FUNCTION damage() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN IF NEW.seq = 1 THEN NEW.compressed = '\\x00'; END IF; RETURN NEW; END $$;"
                "CREATE TRIGGER damage BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION damage()"
            )
        await writer.write(told, planned(), At().selected())
        events = [await stream.next("event") for _ in range(2 + ("workflows" in path))][-2:]
    assert [(event["data"]["seq"], event["data"]["data"] is None) for event in events] == [(1, True), (2, False)]


async def test_idle_streams_send_comments(door: Door, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_feed, "PING_PERIOD", 0.2)
    path = f"/workflows/{await writer.write(Told('idle'), requested('idle'))}/stream"
    for followed in (path, "/stream"):
        async with streamed(door, followed) as stream:
            data = b""
            async for chunk in stream.response.aiter_bytes():
                data += chunk
                if data.count(b"\n: ping\n\n") >= 2 or data.count(b": ping\n\n: ping\n\n"):
                    break


@pytest.mark.parametrize(
    ("path", "last"),
    [("/workflows/{}/stream", "x"), ("/workflows/{}/stream", str(2**31)), ("/stream", "1.2"), ("/stream", "9" * 30)],
)
async def test_an_id_that_no_event_has_is_refused(door: Door, writer: Writer, path: str, last: str) -> None:
    workflow = await writer.write(Told("any"), requested("any"))
    refused = await door.http.get(f"/api/v1{path.format(workflow)}", headers={"Last-Event-ID": last})
    assert (refused.status_code, refused.json()["code"]) == (400, "request_unreadable")


async def test_a_stream_of_a_workflow_that_does_not_exist_is_not_found(door: Door) -> None:
    missing = await door.http.get("/api/v1/workflows/00000000-0000-0000-0000-000000000007/stream")
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_workflow")


def _connections(port: int) -> int:
    """The connections to the door that it has not closed."""
    return sum(
        found.status in (psutil.CONN_ESTABLISHED, psutil.CONN_CLOSE_WAIT) and found.laddr.port == port
        for found in psutil.Process().net_connections("tcp")
    )


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - the kernel and the loop of the door tell nothing
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("who", ["the kernel", "the door"])
async def test_a_client_that_does_not_read_is_disconnected_and_resumes_without_loss(
    door_settings: Settings, writer: Writer, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    seconds = {"the kernel": (1_000, 60.0), "the door": (3_000, 0.5)}[who]
    monkeypatch.setattr(http_server, "STALLED_MS", seconds[0])
    monkeypatch.setattr(event_streams, "STUCK_AFTER", seconds[1])
    told = Told("much")
    workflow = await writer.write(told, requested("much"), planned())
    async with opened(door_settings, serving=False) as door:
        port = int(door.address.rpartition(":")[2])
        with socket.socket() as dead:
            dead.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            dead.settimeout(0)
            await asyncio.get_running_loop().sock_connect(dead, ("127.0.0.1", port))
            dead.sendall(f"GET /api/v1/workflows/{workflow}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            async with streamed(door, f"/workflows/{workflow}/stream", show="event") as alive:
                opened_ = _connections(port)
                for number in range(40):
                    await writer.write(told, *[cancellation(9, f"{number} {n} {'x' * 90}") for n in range(100)])
                    if _connections(port) < opened_:
                        break
                await until(lambda: _connections(port) < opened_)
                seqs = [int((await alive.next())["id"]) for _ in told.messages]
            assert seqs == [*range(len(told.messages))]
            got = await _received(dead)
        rest = await whole(door, f"/workflows/{workflow}/stream", got[-1], show="event", follow=False)
        assert got + ids(rest) == [*range(len(told.messages))]


async def _received(dead: socket.socket) -> list[int]:
    """The ids of whole frames in what the kernel kept for the client."""
    data = b""
    while True:
        try:
            if not (some := await asyncio.get_running_loop().sock_recv(dead, 65_536)):
                break
        except OSError:
            break
        data += some
    lines = data.replace(b"\r\n", b"").split(b"\n")[:-1]
    return [int(line.removeprefix(b"id: ")) for line in lines if line.startswith(b"id: ")]


async def test_when_the_door_stops_streams_say_bye_and_when_to_come_back(
    door_settings: Settings, writer: Writer
) -> None:
    workflow = await writer.write(Told("bye"), requested("bye"))
    path = f"/workflows/{workflow}/stream"
    streams: list[tuple[str, dict[str, str]]] = [(path, {}), ("/stream", {}), (path, {"format": "ag-ui"})]
    reading = list[asyncio.Task[list[dict[str, Any]]]]()
    async with AsyncExitStack() as clients:
        async with opened(door_settings, serving=False) as door:
            client = await clients.enter_async_context(httpx2.AsyncClient(base_url=door.address, timeout=30))
            for path, params in (*streams, *streams[:1] * 20):
                connected = asyncio.Event()
                reading.append(asyncio.create_task(_until_bye(replace(door, http=client), path, connected, params)))
                await connected.wait()
            stopping = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - stopping < 10
        ended = [await each for each in reading]
    assert ended[0][-1]["event"] == ended[1][-1]["event"] == "bye"
    assert "event" not in ended[2][-1]
    retries = {int(frames[-1]["retry"]) for frames in ended}
    assert len(retries) > 5
    assert all(500 <= retry <= 5_000 for retry in retries)


async def _until_bye(door: Door, path: str, connected: asyncio.Event, params: dict[str, str]) -> list[dict[str, Any]]:
    async with streamed(door, path, **params) as stream:
        connected.set()
        return await stream.rest()


async def test_streams_end_when_clients_leave_and_nothing_is_read_without_followers(
    door_settings: Settings, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = list[record_feed.RecordFeed]()
    begin = record_feed.RecordFeed.__init__

    def noted(self: record_feed.RecordFeed, *arguments: Any) -> None:
        begin(self, *arguments)
        feeds.append(self)

    monkeypatch.setattr(record_feed.RecordFeed, "__init__", noted)
    workflow = await writer.write(Told("left"), requested("left"))
    async with opened(door_settings, serving=False) as door:
        async with streamed(door, f"/workflows/{workflow}/stream") as stream, streamed(door, "/stream"):
            await stream.next()
            assert feeds[0].followers == 2
        await until(lambda: feeds[0].followers == 0)
        assert feeds[0]._workflows == {}
        assert feeds[0]._tail is None
        reading = feeds[0]._reading
        assert reading is not None
        await until(reading.done)
