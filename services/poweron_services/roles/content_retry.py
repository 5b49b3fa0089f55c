"""Retries for a content store that does not answer, within a time limit."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import structlog

from poweron_events.errors import Unavailable
from poweron_events.retry import Failure, retry

log = structlog.get_logger()

SLOWEST = 1_000_000  # bytes per second
STORE_TIMEOUT = 20.0  # seconds to wait for a content store that does not answer

Answer = TypeVar("Answer")


async def retry_content(workflow_id: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask the content store until it answers, and return the answer."""

    def failed(failure: Failure) -> None:
        log.warning("content_store_unavailable", error=str(failure.error), workflow_id=workflow_id)

    return await retry(ask, failed=failed)


@asynccontextmanager
async def content_time_limit(size: int = 0) -> AsyncGenerator[None, None]:
    """Limit how long the content store is asked; the limit grows with the bytes that are transferred.

    Raises:
        Unavailable: the time is over.
    """
    seconds = STORE_TIMEOUT + size / SLOWEST
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(
            f"the content store did not answer for {seconds:g} s", code="content_store_unavailable"
        ) from error
