"""The small HTTP server for metrics and probes at `POWERON_METRICS`, beside the work of the process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from poweron_events.errors import Refused
from poweron_events.task_cancellation import cancel_task
from poweron_services.probes.process_probes import ProcessProbes
from poweron_services.settings.setting_types import host_and_port

CLOSED_WITHIN: Final = 1  # seconds for running scrapes once the process has ended its work


class QuietServer(uvicorn.Server):
    """An HTTP server that leaves the signals to `shutdown`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def probes_served(place: str | None, probes: ProcessProbes) -> AsyncGenerator[None, None]:
    """Answer `/metrics`, `/livez` and `/readyz` at this address, if there is one, while the block runs.

    Raises:
        Refused: the address cannot be used.
    """
    if place is None:
        yield
        return
    sock = _listening(place)
    routes = [
        Route("/metrics", probes.metrics),
        Route("/livez", probes.livez),
        Route("/readyz", probes.readyz),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=CLOSED_WITHIN,
    )
    server = QuietServer(config)
    served = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({served}, timeout=CLOSED_WITHIN + 1)
        await cancel_task(served)


def _listening(place: str) -> socket.socket:
    host, port = host_and_port(place)
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise Refused(
            f"Metrics and probes cannot be served at {place}, as POWERON_METRICS says: {error.strerror or error}. "
            "Name another address, or unset it."
        ) from error
