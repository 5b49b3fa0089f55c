"""What the requests of one door share: its settings, the connections once they are open, and whether it is stopping."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Request

from poweron_events.errors import Unavailable
from poweron_projections.connection import Pool
from poweron_services.client.connect import Connections
from poweron_services.door.answer_cache import AnswerCache
from poweron_services.door.door_secret import DoorSecret
from poweron_services.door.key_cache import KeyCache
from poweron_services.door.rate_limits import RateLimits
from poweron_services.door.record_feed import RecordFeed
from poweron_services.probes.process_probes import ProcessProbes
from poweron_services.settings.config import Settings

API: Final = "/api/v1"
AT_A_TIME: Final = 2  # queries that take much processor time
STARTING: Final = "PowerOn is starting"


@dataclass(slots=True)
class DoorState:
    """The state of a door."""

    settings: Settings
    hosts: frozenset[str]
    """The names that `Host` may have, without ports, beside the address at which a request arrives."""
    is_local: bool
    """Whether only this machine can connect, so that its user acts without a key, unless a proxy passes requests on."""
    roles: Collection[str] = ()
    """The roles that this process plays beside the door."""
    connections: Connections | None = None
    """None until the servers of this machine have started, or at once with others, which may not answer yet."""
    has_log: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once Kafka has answered."""
    has_rows: bool = False
    """Whether Postgres has answered."""
    is_started: bool = False
    """Whether the door has started: both servers have answered, and the roles that it plays work."""
    progress: str = ""
    """What was last said about the start."""
    is_compared: bool = False
    """Whether the log was compared with the rows, which needs an answer of both servers."""
    feed: RecordFeed | None = None
    """New records for all streams; opened with the connections."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a document is in memory, on its way into the content store."""
    working: set["asyncio.Task[Any]"] = field(default_factory=set)
    """What goes on after its request was answered; cancelled when the door stops."""
    busy: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_A_TIME))
    """Held by queries that take much processor time, so that they leave some to the others."""
    searching: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Held by the process that searches large documents for the sources of an answer."""
    answers: AnswerCache[Any] = field(init=False)
    keys: KeyCache = field(default_factory=KeyCache)
    limits: RateLimits = field(init=False)
    secret: DoorSecret = field(init=False)
    probes: ProcessProbes = field(init=False)
    """What metrics and probes show."""
    running: int = 0
    """The requests that are being answered."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no request is being answered."""

    def __post_init__(self) -> None:
        """Create what depends on the settings, and the probes, which count the followers of the feed."""
        self.limits = RateLimits(self.settings)
        self.secret = DoorSecret(self.settings.home)
        self.answers = AnswerCache(self.working)
        self.probes = ProcessProbes(self.roles, lambda: self.feed.followers if self.feed is not None else 0)
        self.idle.set()

    @property
    def parts(self) -> list[tuple[str, bool]]:
        """What the door needs to have started, and whether it is there."""
        parts = [("Kafka", self.has_log.is_set()), ("Postgres", self.has_rows)]
        return [*parts, ("The roles that do the work", self.is_started)] if self.roles else parts

    @property
    def pool(self) -> "Pool | None":
        """Postgres; None until the connections are open."""
        return None if self.connections is None else self.connections.pool

    def begin_request(self) -> None:
        """Count a request that is being answered."""
        self.running += 1
        self.idle.clear()

    def end_request(self) -> None:
        """Count it no longer."""
        self.running -= 1
        if not self.running:
            self.idle.set()

    @property
    def opened(self) -> Connections:
        """The connections; raises Unavailable while they are being opened."""
        if self.connections is None:
            raise Unavailable(STARTING, retry_after=1)
        return self.connections

    @property
    def for_requests(self) -> Connections:
        """The connections with a log that takes new requests even before Postgres has answered."""
        connections = self.opened
        return connections if self.is_compared else replace(connections, log=connections.log.uncompared())


def state_of(request: Request) -> DoorState:
    """Return the state of the door that received the request."""
    return cast("DoorState", request.app.state.door)


async def _state(request: Request) -> DoorState:
    """Return the same; a dependency that is no coroutine would wait for a thread."""
    return state_of(request)


async def _connections(request: Request) -> Connections:
    return state_of(request).opened


DoorOf = Annotated[DoorState, Depends(_state)]
Opened = Annotated[Connections, Depends(_connections)]
"""The open connections; the request gets 503 while they are being opened."""
