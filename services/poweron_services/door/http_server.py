"""The HTTP server of a door: it listens at once, opens the connections, plays the roles, and stops in order."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

import uvicorn

from poweron_events.errors import PowerOnError, Refused
from poweron_events.task_cancellation import cancel_task
from poweron_services import wiring
from poweron_services.door.application import build
from poweron_services.door.door_state import DoorState
from poweron_services.door.http_guard import LOOPBACK_NAMES
from poweron_services.door.record_feed import RecordFeed
from poweron_services.door.record_rows import PostgresRows
from poweron_services.file_limit import raise_file_limit
from poweron_services.probes.probe_server import QuietServer, probes_served
from poweron_services.settings.config import Settings
from poweron_services.standalone import early_connections

DRAINED_WITHIN: Final = 2  # seconds in which running requests must end once the door stops
CLOSED_WITHIN: Final = 1  # seconds for their connections after that
READY: Final = "PowerOn is ready."
STALLED_MS: Final = 10_000  # in which a client must take what was sent to it, or the kernel drops the connection


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a socket that listens there."""
    try:
        return host in LOOPBACK_NAMES or ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address.

    Raises:
        Refused: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only with this
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_MS)
        sock.bind((host, port))
        sock.listen(2_048)
    except OSError as error:
        sock.close()
        raise Refused(
            f"The door cannot listen at {host}:{port}: {error.strerror or error}. "
            "Name another address with --listen HOST:PORT."
        ) from error
    return sock


async def run(
    settings: Settings,
    sock: socket.socket,
    hosts: frozenset[str],
    *,
    is_local: bool,
    serving: bool,
    progress: Callable[[str], None],
) -> None:
    """Serve at this socket until cancelled, and close it; running requests end first, while it still listens."""
    raise_file_limit()
    door = DoorState(settings, hosts, is_local, wiring.ROLES if serving else ())
    config = uvicorn.Config(
        build(door),
        http="httptools",
        ws="none",
        log_config=None,
        log_level="critical",  # the application logs its errors; a client that is disconnected is none
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=CLOSED_WITHIN,
    )
    server = QuietServer(config)
    async with probes_served(settings.metrics, door.probes):
        served = asyncio.create_task(server.serve(sockets=[sock]))
        working = asyncio.create_task(_work(door, serving=serving, progress=progress))
        try:
            await asyncio.wait({served, working}, return_when=asyncio.FIRST_COMPLETED)
            for task in (working, served):
                if task.done():
                    task.result()
        finally:
            await _drain(door)
            server.should_exit = True
            for work in [*door.working]:
                await cancel_task(work)
            await cancel_task(working)
            await asyncio.wait({served}, timeout=CLOSED_WITHIN + 1)
            await cancel_task(served)
            sock.close()


async def _drain(door: DoorState) -> None:
    """Let running requests end. The door still listens, so that probes see that it stops."""
    door.stopping.set()
    door.probes.drain()
    if door.feed is not None:
        await door.feed.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAINED_WITHIN):
            await door.idle.wait()


async def _work(door: DoorState, *, serving: bool, progress: Callable[[str], None]) -> None:
    """Open the connections and play the roles, or only keep the connections open."""

    def report(sentence: str) -> None:
        door.progress = sentence
        progress(sentence)

    def started() -> None:
        if not door.is_started:
            door.is_started = True
            report(READY)

    async with (
        early_connections(door.settings, report) as (connections, kafka_there, postgres_there),
        door.probes.watching(connections),
    ):
        door.feed = RecordFeed(PostgresRows(connections.pool), connections.progress)
        door.connections = replace(connections, seal=door.keys.seal)
        door.probes.ready()
        await kafka_there()
        door.has_log.set()
        await postgres_there()
        door.has_rows = True
        with suppress(PowerOnError):  # the log stays closed if it lacks events, and every append checks again
            await connections.log.check()
        door.is_compared = True
        if not serving:
            started()
            await asyncio.Event().wait()
        async with wiring.open_model(door.settings) as model:
            await wiring.keep_serving(connections, door.roles, model, started=started, meter=door.probes.meter)
