"""The route of a query: it answers in JSON, and at once if Postgres does not answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from poweron_events.errors import PowerOnError, Unavailable
from poweron_projections.connection import Pool, acquire
from poweron_services.door.door_state import state_of
from poweron_services.door.http_guard import SAFE_METHODS
from poweron_services.door.problems import Problem

PROBED_AFTER: Final = 0.8  # seconds of a query after which Postgres is asked whether it is there
PROBED_WITHIN: Final = 0.8  # seconds in which it must answer
LATE: Final = 0.2  # seconds by which a wait may end late before this process counts as busy
log = structlog.get_logger()
_abandoned = set[asyncio.Task[Any]]()
"""Queries that nothing waits for any more; each ends when its connection does."""


class QueryRoute(APIRoute):
    """A query: it needs the rows only. Forms of the same router are ordinary routes."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, response_class = super().get_route_handler(), getattr(self.response_class, "value", self.response_class)
        if not SAFE_METHODS.issuperset(self.methods or ()):
            return handle

        async def checked(request: Request) -> Response:
            if response_class is JSONResponse:
                expect_accepted(request, "application/json")
            connections = state_of(request).connections
            return await (handle(request) if connections is None else _answered(handle(request), connections.pool))

        return checked


def expect_accepted(request: Request, *offered: str) -> str:
    """Return the first of the offered media types that the client accepts.

    Raises:
        Problem: it accepts none of them.
    """
    accepted = dict(map(_range, (request.headers.get("accept") or "*/*").split(",")))

    def quality(media_type: str) -> float:
        kind = media_type.partition("/")[0]
        return next((accepted[name] for name in (media_type, f"{kind}/*", "*/*") if name in accepted), 0)

    best = max(offered, key=quality)
    if not quality(best):
        raise Problem("not_acceptable", f"The answer is {' or '.join(offered)}.")
    return best


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = 1.0
    for parameter in parameters:
        if parameter.startswith("q="):
            with suppress(ValueError):
                weight = float(parameter[2:])
    return name, weight


async def _answered(answer: Awaitable[Response], pool: Pool) -> Response:
    """Wait for the answer; if it takes long because Postgres does not answer at all, give up.

    Raises:
        Unavailable: Postgres does not answer.
    """
    working = asyncio.ensure_future(answer)
    try:
        await asyncio.wait({working}, timeout=PROBED_AFTER)
        while not working.done():
            await _expect_answer(pool)
            await asyncio.wait({working}, timeout=PROBED_AFTER)
        return working.result()
    finally:
        if not working.done():
            working.cancel()
            _abandoned.add(working)
            working.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


async def _expect_answer(pool: Pool) -> None:
    """Raise Unavailable if Postgres does not answer in time; time in which this process did nothing does not count."""
    probe = asyncio.ensure_future(_ask(pool))
    while not probe.done():
        began = time.monotonic()
        await asyncio.wait({probe}, timeout=PROBED_WITHIN)
        if not probe.done() and time.monotonic() - began < PROBED_WITHIN + LATE:
            probe.cancel()
            _abandoned.add(probe)
            probe.add_done_callback(_forget)
            log.warning("postgres_silent", seconds=PROBED_WITHIN)
            raise Unavailable("Postgres does not answer", retry_after=1)
    with suppress(PowerOnError):  # the query itself says what is wrong
        probe.result()


async def _ask(pool: Pool) -> None:
    async with acquire(pool) as connection:
        await connection.fetchval("SELECT 1")
