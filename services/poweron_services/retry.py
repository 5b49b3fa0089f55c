"""Patience: what is away is asked again, after longer and longer pauses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from poweron_events.errors import Unavailable

log = structlog.get_logger()

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # seconds

Answer = TypeVar("Answer")


class Backoff:
    """Longer and longer pauses while something is away."""

    def __init__(self, longest: float = LONGEST_PAUSE) -> None:
        self._next = FIRST_PAUSE
        self._longest = longest

    @property
    def long(self) -> bool:
        """Whether it has been away for longer than a start takes."""
        return self._next >= LONGEST_PAUSE

    async def pause(self) -> None:
        await asyncio.sleep(self._next)
        self._next = min(2 * self._next, self._longest)


async def answered(ask: Callable[[], Awaitable[Answer]], waiting: str, **fields: object) -> Answer:
    """What `ask` answers, asked again until it does; `waiting` is logged meanwhile."""
    backoff = Backoff()
    while True:
        try:
            return await ask()
        except Unavailable as error:
            log.warning(waiting, error=str(error), **fields)
            await backoff.pause()
