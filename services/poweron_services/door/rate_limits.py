"""The limits of a key: requests and uploads a minute, and streams at a time. The user of the machine has none."""

import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import MovingWindowRateLimiter

from poweron_services.door.problems import Problem
from poweron_services.settings.config import Settings

TRIES: Final = RateLimitItemPerMinute(20, namespace="tries")
"""How many unknown keys, and how many entries at /login, one address may send."""
STREAM_RETRY: Final = 10.0  # seconds


class RateLimits:
    """Counts what keys do, in the memory of this door."""

    def __init__(self, settings: Settings) -> None:
        self._requests = RateLimitItemPerMinute(settings.door_requests, namespace="requests")
        self._uploads = RateLimitItemPerMinute(settings.door_uploads, namespace="uploads")
        self._most_streams = settings.door_streams
        self._streams = Counter[str]()
        self._window = MovingWindowRateLimiter(MemoryStorage())

    async def count_request(self, key_id: str) -> None:
        """Count a request of a key; raises Problem if that is one too many, as the next functions do."""
        await self._count(self._requests, key_id, "requests a minute")

    async def count_calls(self, key_id: str, calls: int) -> None:
        """Count calls of models that a request makes at once: each is a request, and all are allowed or none."""
        await self._count(self._requests, key_id, "requests and calls of models a minute", cost=calls)

    async def count_upload(self, key_id: str) -> None:
        """Count a request with files."""
        await self._count(self._uploads, key_id, "uploads a minute")

    async def check_tries(self, address: str) -> None:
        """Refuse further unknown keys of an address that has sent too many."""
        if not await self._window.test(TRIES, address):
            raise await self._exceeded(TRIES, address, "unknown keys a minute from one address")

    async def count_try(self, address: str) -> None:
        """Count an unknown key."""
        await self._window.hit(TRIES, address)

    @contextmanager
    def stream(self, key_id: str) -> Generator[None, None, None]:
        """Count a stream while it is open."""
        if self._streams[key_id] >= self._most_streams:
            raise Problem(
                "too_many_requests",
                f"The key may have {self._most_streams:,} streams at a time.",
                retry_after=STREAM_RETRY,
            )
        self._streams[key_id] += 1
        try:
            yield
        finally:
            self._streams[key_id] -= 1
            if not self._streams[key_id]:
                del self._streams[key_id]

    async def _count(self, limit: RateLimitItem, who: str, what: str, *, cost: int = 1) -> None:
        if not await self._window.hit(limit, who, cost=cost):
            raise await self._exceeded(limit, who, what)

    async def _exceeded(self, limit: RateLimitItem, who: str, what: str) -> Problem:
        window = await self._window.get_window_stats(limit, who)
        wait = max(1.0, window.reset_time - time.time())
        return Problem("too_many_requests", f"At most {limit.amount:,} {what} are allowed.", retry_after=wait)
