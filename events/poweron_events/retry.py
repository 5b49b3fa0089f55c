"""Retry: what is unavailable is tried again after longer and longer pauses, for as long as somebody needs it.

Whoever is unavailable and says for how long is not asked before.
There is no limit to the tries: whoever has one sets a time limit around it, or raises from `failed`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, overload

from poweron_events.errors import Unavailable
from poweron_events.outages import Outage

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # seconds

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that failed: the how manyth it was, and the pause that follows, in seconds."""

    error: Exception
    tries: int
    pause: float

    @property
    def lasts(self) -> bool:
        """Whether it has been failing for longer than a start takes."""
        return self.pause >= LONGEST_PAUSE


class Backoff:
    """Pauses in seconds, each twice as long as the one before."""

    def __init__(self, first: float | None = None, longest: float | None = None) -> None:
        self._next = FIRST_PAUSE if first is None else first
        self._longest = LONGEST_PAUSE if longest is None else longest

    def next(self) -> float:
        pause = self._next
        self._next = min(2 * pause, self._longest)
        return pause


@overload
async def retry(
    attempt: Callable[[], Awaitable[Answer]],
    *,
    failed: Callable[[Failure], None],
    on: type[Exception] | tuple[type[Exception], ...] = ...,
    backoff: Backoff | None = ...,
) -> Answer: ...


@overload
async def retry(
    attempt: Callable[[], Awaitable[Answer]],
    *,
    failed: Callable[[Failure], None],
    on: type[Exception] | tuple[type[Exception], ...] = ...,
    backoff: Backoff | None = ...,
    needed: Callable[[], bool],
) -> Answer | None: ...


async def retry(
    attempt: Callable[[], Awaitable[Answer]],
    *,
    failed: Callable[[Failure], None],
    on: type[Exception] | tuple[type[Exception], ...] = Unavailable,
    backoff: Backoff | None = None,
    needed: Callable[[], bool] | None = None,
) -> Answer | None:
    """What `attempt` returns, tried until it does; None where it is no longer needed before.

    Args:
        attempt: what is tried.
        failed: told of each failure, before the pause, inside its `except`; to give up, it raises.
        on: the errors after which it is tried again; others are raised.
        backoff: the pauses, by default up to 5 s.
        needed: asked before each try.
    """
    tries, outage = 0, Outage()
    while needed is None or needed():
        tries += 1
        try:
            return await attempt()
        except on as error:
            backoff = backoff or Backoff()
            pause = max(backoff.next(), _asked_pause(error))
            failed(Failure(error, tries, pause))
            outage.failed(error)
        await asyncio.sleep(pause)
    return None


def _asked_pause(error: Exception) -> float:
    return (error.retry_after if isinstance(error, Unavailable) else None) or 0.0
