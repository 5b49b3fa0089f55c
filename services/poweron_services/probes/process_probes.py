"""The answers of one process to `/metrics`, `/livez` and `/readyz`.

They are given by the event loop that does the work, so a process whose loop is blocked does not answer.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Literal, TypeVar

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from poweron_events.task_cancellation import cancel_task
from poweron_services.client.connect import Connections
from poweron_services.probes.server_figures import ServerFigures
from poweron_services.telemetry.prometheus import GaugeValue, PrometheusMeter

SILENT_AFTER: Final = 60.0  # seconds without a poll, after which Kafka gives the work of a process to others
STARTING: Final = "Starting: Kafka or Postgres has not answered yet, or tool servers are being started."
DRAINING: Final = "Stopping: running work is being finished. Send nothing more to this process."

Result = TypeVar("Result")


class ProcessProbes:
    """The state of a process, as probes and metrics show it."""

    def __init__(self, roles: Collection[str] = (), followers: Callable[[], int] | None = None) -> None:
        """`roles` are those that it plays; `followers` counts the clients that follow its streams, if it has any."""
        self.meter = PrometheusMeter(roles)
        self._roles = roles
        self._followers = followers
        self._state: Literal["starting", "ready", "draining"] = "starting"
        self._servers: ServerFigures | None = None

    @asynccontextmanager
    async def watching(self, connections: Connections) -> AsyncGenerator[None, None]:
        """Show the figures of these servers while the block runs."""
        self._servers = servers = ServerFigures(connections, self._roles)
        try:
            yield
        finally:
            self._servers = None
            await servers.close()

    def ready(self) -> None:
        """Note that the process has started."""
        if self._state == "starting":
            self._state = "ready"

    def drain(self) -> None:
        """Note that the process stops."""
        self._state = "draining"

    async def until_stopped(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work; as soon as it is cancelled, say that the process stops."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task})
            return task.result()
        except asyncio.CancelledError:
            self.drain()
            raise
        finally:
            await cancel_task(task)

    async def metrics(self, request: Request) -> Response:
        """Return all metrics."""
        figures = [] if self._servers is None else await self._servers.figures()
        figures.append(GaugeValue("poweron_ready", self._state == "ready"))
        if self._followers is not None:
            figures.append(GaugeValue("poweron_stream_followers", self._followers()))
        content, media_type = self.meter.exposition(figures, request.headers.get("accept", ""))
        return Response(content, headers={"Content-Type": media_type, "Cache-Control": "no-store"})

    async def livez(self, _: Request) -> Response:
        """Say whether the process works: its event loop answers, and polls Kafka."""
        group, seconds = max(self.meter.since_polls.items(), key=lambda item: item[1], default=("", 0.0))
        if seconds > SILENT_AFTER:
            return _sentence(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"Stuck: the process has not polled Kafka as {group} for {seconds:.0f} s. Restart it.",
            )
        polled = f", and Kafka was polled {seconds:.1f} s ago at most" if group else ""
        return _sentence(HTTPStatus.OK, f"Alive: the event loop answers{polled}.")

    async def readyz(self, _: Request) -> Response:
        """Say whether the process takes work; it does while servers are unavailable, since it waits for them."""
        if self._state != "ready":
            return _sentence(HTTPStatus.SERVICE_UNAVAILABLE, STARTING if self._state == "starting" else DRAINING)
        names = [] if self._servers is None else await self._servers.unavailable()
        if not names:
            return _sentence(HTTPStatus.OK, "Ready.")
        waits = "which does not answer" if len(names) == 1 else "which do not answer"
        return _sentence(HTTPStatus.OK, f"Ready, but work waits for {' and '.join(names)}, {waits}.")


def _sentence(status: HTTPStatus, sentence: str) -> Response:
    return PlainTextResponse(sentence + "\n", status, {"Cache-Control": "no-store"})
