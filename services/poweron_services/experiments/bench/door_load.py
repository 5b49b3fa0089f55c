"""Followers of one workflow at a door: a process of `poweron door`, and many clients that read its streams.

The clients speak HTTP/1.1 over bare sockets, which takes the least time of the machine on which the door is measured.
They come back with `Last-Event-ID` when their connection is lost, as browsers do.
"""

import asyncio
import socket
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final
from uuid import uuid4

import httptools
import psutil

from poweron_events import topics
from poweron_events.codec import encode
from poweron_events.envelope import envelop, rfc3339
from poweron_events.errors import Refused
from poweron_events.log import EventLog, Message
from poweron_events.request import CancellationRequested, RequestIdentity, RoundPaused, WorkflowRequested, workflow_id
from poweron_services.experiments.bench.figures import percentile
from poweron_services.experiments.sandbox.child_process import stop
from poweron_services.experiments.sandbox.servers import until

READY_WITHIN: Final = 60.0  # seconds
RECEIVED_WITHIN: Final = 120.0  # seconds
AGAIN_AFTER: Final = 0.2  # seconds until a client comes back
ID: Final = b"\nid: "
APPENDED_AT_ONCE: Final = 500  # records
SOURCE: Final = "/poweron/bench"
REASON: Final = "The load of a door. " * 40


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


@dataclass(slots=True)
class DoorProcess:
    """A `poweron door` that plays no roles, at a port that it keeps when it is started again."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    port: int = field(default_factory=free_port)
    process: Process | None = None

    async def start(self) -> None:
        """Start the door, and wait until it answers queries."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(*self.command, "door", "--no-serve", "--listen", f"127.0.0.1:{self.port}"),
                env=self.environment,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        async with asyncio.timeout(READY_WITHIN):
            await until(self._answers, AGAIN_AFTER)

    async def kill(self) -> None:
        """Kill the door with `kill -9`."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    def usage(self) -> tuple[float, int]:
        """Return the CPU seconds that the door's process has used, and the bytes of memory that it occupies."""
        assert self.process is not None
        found = psutil.Process(self.process.pid)
        times = found.cpu_times()
        return times.user + times.system, found.memory_info().rss

    async def _answers(self) -> bool:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(b"GET /api/v1/workflows HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
        return False


@asynccontextmanager
async def door_process(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> AsyncGenerator[DoorProcess, None]:
    """Run a door while the block lasts."""
    door = DoorProcess(command, environment, log)
    try:
        await door.start()
        yield door
    finally:
        if door.process is not None:
            await stop(door.process)


class Client(asyncio.Protocol):
    """Reads one stream, and comes back when it is lost; it notes which records came and when."""

    def __init__(self, port: int, path: str, *, reads: bool = True) -> None:
        """Create a client, which may be one that never reads."""
        self.seqs: list[int] = []
        self.times: list[float] = []
        self.connections = 0
        self._port = port
        self._path = path
        self._last = -1
        self._reads = reads
        self._left = b""
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self._again: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Connect until a door accepts the connection."""
        loop = asyncio.get_running_loop()
        while not self._is_closed:
            with suppress(OSError):
                await loop.create_connection(lambda: self, "127.0.0.1", self._port)
                return
            await asyncio.sleep(AGAIN_AFTER)

    def close(self) -> None:
        """Close the stream for good."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._left, self._parser = transport, b"", httptools.HttpResponseParser(self)
        self.connections += 1
        if not self._reads:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            transport.pause_reading()
        transport.write(
            f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: {self._last}\r\n\r\n".encode()
            if self._last >= 0
            else f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        """Try again later if the door has nothing to send yet."""
        if self._parser.get_status_code() != HTTPStatus.OK and self._transport is not None:
            self._transport.close()

    def on_body(self, body: bytes) -> None:
        """Take what the parser found in the body, which comes in chunks."""
        data, now, at = self._left + body, time.monotonic(), 0
        while (begin := data.find(ID, at)) >= 0 and (end := data.find(b"\n\n", begin + 1)) >= 0:
            self._last = int(data[begin + len(ID) : end])
            self.seqs.append(self._last)
            self.times.append(now)
            at = end
        self._left = data[at:]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of the interface
        if self._reads and not self._is_closed:
            self._again = asyncio.get_running_loop().create_task(self._come_back())

    async def _come_back(self) -> None:
        await asyncio.sleep(AGAIN_AFTER)
        await self.connect()


@dataclass(slots=True)
class Appender:
    """Appends records of one workflow that stays open: cancellations of a round that it has not reached."""

    log: EventLog
    workflow_id: str
    written: list[float] = field(default_factory=list)
    """When each record was appended, by seq."""

    @classmethod
    async def opened(cls, log: EventLog) -> "Appender":
        """Open a workflow that is paused, so that no role appends anything to it."""
        identity = RequestIdentity(source=SOURCE, id=uuid4().hex)
        appender = cls(log, workflow_id(identity.source, identity.id))
        opening = WorkflowRequested(round=1, prompt="Wait.", request=identity)
        pause = RoundPaused(round=1, request=RequestIdentity(source=SOURCE, id=uuid4().hex), reason="Wait.")
        await appender._append(opening, pause)
        return appender

    async def append(self, count: int = 1) -> None:
        """Append this many more records."""
        for begin in range(0, count, APPENDED_AT_ONCE):
            await self._append(*(_cancellation() for _ in range(min(APPENDED_AT_ONCE, count - begin))))

    async def _append(self, *events: WorkflowRequested | RoundPaused | CancellationRequested) -> None:
        self.written += [time.monotonic()] * len(events)
        now = rfc3339(datetime.now(UTC))
        envelopes = [envelop(event, workflow_id=self.workflow_id, source=SOURCE, time=now) for event in events]
        messages = [Message(self.workflow_id.encode(), encode(envelope)) for envelope in envelopes]
        await self.log.append(topics.EVENTS.name, messages)

    async def run(self, seconds: float, per_second: float) -> None:
        """Append records at this rate."""
        begin = time.monotonic()
        for number in range(int(seconds * per_second)):
            await asyncio.sleep(begin + number / per_second - time.monotonic())
            await self.append()


def _cancellation() -> CancellationRequested:
    identity = RequestIdentity(source=SOURCE, id=uuid4().hex)
    return CancellationRequested(round=2, request=identity, reason=REASON)


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """What a run of many followers showed."""

    followers: int
    p50_ms: float
    p95_ms: float
    cores: float
    """CPU seconds of the door for each second."""
    kb_per_follower: float


async def measured(
    door: DoorProcess, appender: Appender, *, followers: int, idle: int, seconds: float, per_second: float
) -> LoadFigures:
    """Let clients follow the workflow while records are appended to it; some further clients read nothing.

    Raises:
        Refused: a follower missed a record, or got one twice.
    """
    path = f"/api/v1/workflows/{appender.workflow_id}/stream"
    before = await _warm(door, path)
    async with connected(door.port, path, followers) as clients, connected(door.port, path, idle, reads=False):
        await until_all(clients, len(appender.written) - 1)
        cpu, first, began = door.usage()[0], len(appender.written), time.monotonic()
        await appender.run(seconds, per_second)
        await until_all(clients, len(appender.written) - 1)
        after, took = door.usage(), time.monotonic() - began
        expect_each_once(clients, len(appender.written))
    times = [
        1_000 * (received - appender.written[seq])
        for client in clients
        for seq, received in zip(client.seqs, client.times, strict=True)
        if seq >= first
    ]
    memory = (after[1] - before) / (followers + idle) / 1_000
    return LoadFigures(followers, percentile(times, 50), percentile(times, 95), (after[0] - cpu) / took, memory)


async def _warm(door: DoorProcess, path: str) -> int:
    """Follow once, so that everything is loaded; return the bytes of memory that the door occupies then."""
    async with connected(door.port, path, 1) as clients:
        await until_all(clients, 0)
    return door.usage()[1]


@asynccontextmanager
async def connected(port: int, path: str, count: int, *, reads: bool = True) -> AsyncGenerator[list[Client], None]:
    """Clients that are connected while the block lasts."""
    clients = [Client(port, path, reads=reads) for _ in range(count)]
    try:
        for client in clients:
            await client.connect()
        yield clients
    finally:
        for client in clients:
            client.close()


def expect_each_once(clients: Sequence[Client], records: int) -> None:
    """Refuse a client that has not received each record once and in order."""
    for client in clients:
        if client.seqs != [*range(records)]:
            raise Refused(f"A follower received other records than the {records} that there are: {client.seqs}")


async def until_all(clients: Sequence[Client], last: int) -> None:
    """Wait until each of the clients has the last record."""

    async def have_it() -> bool:
        return all(client.seqs and client.seqs[-1] >= last for client in clients)

    async with asyncio.timeout(RECEIVED_WITHIN):
        await until(have_it, AGAIN_AFTER)
