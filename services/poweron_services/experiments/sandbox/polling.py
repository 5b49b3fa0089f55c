"""Polling for a condition; the caller sets the deadline."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(question: Callable[[], Awaitable[bool]], period: float) -> None:
    """Poll a condition every `period` seconds until it is true."""
    while not await question():  # noqa: ASYNC110 - Kafka and Postgres send no notification
        await asyncio.sleep(period)


async def stopped(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait for this many seconds and return False; return True at once if `stopping` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return False
    return True
