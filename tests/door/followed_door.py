"""A door that plays no roles, records that the test writes itself, and a client that reads a stream frame by frame."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from opened_door import Door
from stream_world import frames

from builders import Told
from poweron_events import topics
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.stream import WorkflowEvent
from poweron_projections.verify import catch_up
from poweron_services.client.connect import Connections, connect
from poweron_services.settings.config import Settings


@dataclass
class Writer:
    """Writes workflows into the log and the rows."""

    connections: Connections
    _written: dict[str, int] = field(default_factory=dict)

    async def write(self, told: Told, *events: WorkflowEvent) -> str:
        """Tell these events too, and write what is not written yet."""
        await self.write_all(told.tell(*events))
        return told.id

    async def write_all(self, *stories: Told) -> None:
        """Write what is not written yet of several workflows."""
        for told in stories:
            await self.connections.log.append(topics.EVENTS.name, told.messages[self._written.get(told.id, 0) :])
            self._written[told.id] = len(told.messages)
        await catch_up(self.connections.log, self.connections.pool)


@asynccontextmanager
async def written(settings: Settings, kafka: KafkaSettings, dsn: str) -> AsyncGenerator[Writer, None]:
    async with connect(settings, kafka=kafka, postgres=dsn) as connections:
        yield Writer(connections)


@dataclass
class Stream:
    """A stream that is open."""

    response: httpx2.Response
    all: list[dict[str, Any]] = field(default_factory=list)
    """The frames so far."""
    _data: bytes = b""
    _told: int = 0

    async def next(self, *kinds: str) -> dict[str, Any]:
        """The next frame of one of these kinds, or of any."""
        while True:
            while self._told < len(self.all):
                self._told += 1
                if not kinds or self.all[self._told - 1].get("event") in kinds:
                    return self.all[self._told - 1]
            await self._read()

    async def rest(self) -> list[dict[str, Any]]:
        """All frames, once the stream has ended."""
        while not self.response.is_closed:
            try:
                await self._read()
            except StopAsyncIteration:
                break
        return self.all

    async def _read(self) -> None:
        self._data += await anext(self._chunks)
        whole, end, self._data = self._data.rpartition(b"\n\n")
        self.all += frames(whole + end)

    def __post_init__(self) -> None:
        self._chunks = self.response.aiter_bytes()


@asynccontextmanager
async def streamed(door: Door, path: str, last: str | int | None = None, **params: Any) -> AsyncGenerator[Stream, None]:
    headers: Mapping[str, str] = {} if last is None else {"Last-Event-ID": str(last)}
    async with door.http.stream("GET", f"/api/v1{path}", headers=headers, params=params) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response)


async def whole(door: Door, path: str, last: str | int | None = None, **params: Any) -> list[dict[str, Any]]:
    """The frames of a stream that ends."""
    async with streamed(door, path, last, **params) as stream:
        return await stream.rest()
