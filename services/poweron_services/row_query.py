"""A query that all callers who ask at the same time share."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from poweron_events.task_cancellation import retrieve_error

QUERY_PERIOD = 0.02  # seconds between two queries while a caller waits for the rows to change

Seen = TypeVar("Seen")


class SharedQuery(Generic[Seen]):
    """A query of the rows, shared by all callers that ask at the same time."""

    def __init__(self, ask: Callable[[], Awaitable[Seen]]) -> None:
        self._ask = ask
        self._next: asyncio.Task[Seen] | None = None
        self._asked = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> Seen:
        """Return what the rows say, read after the call."""
        if self._next is None:
            self._next = asyncio.create_task(self._query())
            retrieve_error(self._next)  # callers get it themselves, but all of them may be gone
        return await asyncio.shield(self._next)

    async def until(self, holds: Callable[[Seen], bool]) -> Seen:
        """Query the rows until the condition holds, and return what they say."""
        while not holds(rows := await self()):
            pass
        return rows

    async def _query(self) -> Seen:
        """Delay the query, so that callers that ask meanwhile can share it."""
        await asyncio.sleep(self._asked + QUERY_PERIOD - asyncio.get_running_loop().time())
        async with self._one_at_a_time:  # an older answer must not come after a newer one
            self._next, self._asked = None, asyncio.get_running_loop().time()
            return await self._ask()
