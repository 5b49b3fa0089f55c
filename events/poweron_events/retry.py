"""Retry: call an unavailable service again, after longer and longer pauses, for as long as the result is needed.

If the service says when to retry, `retry` does not call it before that.
The number of tries is unlimited: to set a limit, put a timeout around the call or raise from `failed`.
A full disk, or a server that stays unavailable, is logged as an error: an operator has to act.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar, overload

from poweron_events.codes import Code
from poweron_events.errors import DiskFull, Unavailable

log = logging.getLogger(__name__)

LONG_OUTAGE: Final = 60.0  # seconds; restarts and elections take less
OF_SERVERS: Final[frozenset[Code]] = frozenset({"unavailable", "content_store_unavailable"})
"""The codes of errors of Kafka, Postgres and the content store; a model that does not answer has other codes."""


class Outage:
    """The failures of one piece of work, from its first failure until it succeeds."""

    def __init__(self) -> None:
        self._since: float | None = None

    def failed(self, error: Exception) -> None:
        """Log an error line if the disk is full, or the server has been unavailable for a minute."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if isinstance(error, DiskFull):
            log.error("disk_full", extra={"error": str(error)})
        elif isinstance(error, Unavailable) and error.code in OF_SERVERS and now - self._since >= LONG_OUTAGE:
            log.error("server_outage", extra={"error": str(error), "seconds": round(now - self._since)})

    def ended(self) -> None:
        """Forget the failures: the work succeeded."""
        self._since = None


FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # seconds

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed try: its number, and the pause that follows, in seconds."""

    error: Exception
    tries: int
    pause: float

    @property
    def lasts(self) -> bool:
        """Whether it has been failing for longer than a service takes to start."""
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
    """Call `attempt` until it succeeds and return its result, or None if it is no longer needed before that.

    Args:
        attempt: the call to try.
        failed: called with each failure, before the pause, inside its `except`; it raises to give up.
        on: the errors that lead to another try; others are raised.
        backoff: the pauses, by default up to 5 s.
        needed: called before each try; returns whether the result is still needed.
    """
    tries, outage = 0, None
    while needed is None or needed():
        tries += 1
        try:
            return await attempt()
        except on as error:
            backoff, outage = backoff or Backoff(), outage or Outage()
            pause = max(backoff.next(), _asked_pause(error))
            failed(Failure(error, tries, pause))
            outage.failed(error)
        await asyncio.sleep(pause)
    return None


def _asked_pause(error: Exception) -> float:
    return (error.retry_after if isinstance(error, Unavailable) else None) or 0.0
