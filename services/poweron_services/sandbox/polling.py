"""Waits for what nobody tells: whoever waits sets the deadline."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(question: Callable[[], Awaitable[bool]], period: float) -> None:
    """Ask again and again, so many seconds apart, until the answer is yes."""
    while not await question():  # noqa: ASYNC110 - Kafka and Postgres tell nobody
        await asyncio.sleep(period)


async def stopped(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait for so long; true, at once, when told to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return False
    return True
