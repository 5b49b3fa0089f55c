"""A query that all share who wait for its answer: Postgres tells nobody that the rows have changed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from poweron_events.task_cancellation import retrieve_error

QUERY_PERIOD = 0.02  # seconds between two queries while somebody waits for what the rows say

Seen = TypeVar("Seen")


class SharedQuery(Generic[Seen]):
    """A query of the rows, shared by all who ask at the same time."""

    def __init__(self, ask: Callable[[], Awaitable[Seen]]) -> None:
        self._ask = ask
        self._next: asyncio.Task[Seen] | None = None
        self._asked = 0.0

    async def __call__(self) -> Seen:
        """What the rows say, read after the call."""
        if self._next is None:
            self._next = asyncio.create_task(self._query())
            retrieve_error(self._next)  # those who asked have it; maybe all of them have gone
        return await asyncio.shield(self._next)

    async def until(self, holds: Callable[[Seen], bool]) -> Seen:
        """What the rows say once it is as somebody waits for."""
        while not holds(seen := await self()):
            pass
        return seen

    async def _query(self) -> Seen:
        """A query that has not begun yet, so that whoever asks meanwhile may share it."""
        await asyncio.sleep(self._asked + QUERY_PERIOD - asyncio.get_running_loop().time())
        self._next, self._asked = None, asyncio.get_running_loop().time()
        return await self._ask()
