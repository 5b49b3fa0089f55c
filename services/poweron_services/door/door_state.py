"""What the requests of one door share: its settings, the connections once they are open, and whether it is stopping."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated, Final, cast

from fastapi import Depends, Request

from poweron_events.errors import Unavailable
from poweron_services.client.connect import Connections
from poweron_services.door.record_feed import RecordFeed
from poweron_services.probes.process_probes import ProcessProbes
from poweron_services.settings.config import Settings

API: Final = "/api/v1"
STARTING: Final = "PowerOn is starting: Kafka or Postgres does not answer yet"


@dataclass(slots=True)
class DoorState:
    """The state of a door."""

    settings: Settings
    hosts: frozenset[str]
    """The values of the header `Host` that are accepted, without ports."""
    is_local: bool
    """Whether only this machine can connect, so that its user acts without a key."""
    roles: Collection[str] = ()
    """The roles that this process plays beside the door."""
    connections: Connections | None = None
    """None until Kafka and Postgres have answered."""
    feed: RecordFeed | None = None
    """New records for all streams; opened with the connections."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    probes: ProcessProbes = field(init=False)
    """What metrics and probes show."""
    running: int = 0
    """The requests that are being answered."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no request is being answered."""

    def __post_init__(self) -> None:
        """Create the probes, which count the followers of the feed."""
        self.probes = ProcessProbes(self.roles, lambda: self.feed.followers if self.feed is not None else 0)
        self.idle.set()

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


def state_of(request: Request) -> DoorState:
    """Return the state of the door that received the request."""
    return cast("DoorState", request.app.state.door)


def _connections(request: Request) -> Connections:
    return state_of(request).opened


DoorOf = Annotated[DoorState, Depends(state_of)]
Opened = Annotated[Connections, Depends(_connections)]
"""The open connections; the request gets 503 while they are being opened."""
