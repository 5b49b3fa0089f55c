"""The limit of open workflows: while it is reached, openings wait (docs/decisions/0008)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from poweron_events.codec import ReceivedRequest
from poweron_services.fair_slots import SenderTurns
from poweron_services.intake.consistent_reads import SharedQuery
from poweron_services.intake.intake_ports import IntakeQueries

NextCancellation = Callable[[], Awaitable[ReceivedRequest | None]]
"""Finds the first unanswered cancellation that arrived while an opening waits; None if there is none."""


async def no_cancellation() -> ReceivedRequest | None:
    """Return None, for a request that opens nothing."""
    return None


@dataclass(slots=True)
class _Capacity:
    """How many more workflows may be opened, according to one query of the rows."""

    free: int


class OpenLimit:
    """Allow at most `max_open` workflows with an open round that does not wait for a person."""

    def __init__(self, queries: IntakeQueries, max_open: int) -> None:
        self._queries = queries
        self._max_open = max_open
        self._capacity = SharedQuery(self._read_capacity)
        self._waiting = SenderTurns[asyncio.Event]()

    async def admit(self, sender: str, next_cancellation: NextCancellation) -> None:
        """Wait while the limit is reached, until the opening is cancelled; senders take turns."""
        admitted = asyncio.Event()
        self._waiting.add(sender, admitted)
        try:
            while not admitted.is_set() and await next_cancellation() is None:
                self._let_in(await self._capacity())
        finally:
            self._waiting.remove(sender, admitted)  # an opening that no longer waits must not take a turn

    def _let_in(self, capacity: _Capacity) -> None:
        while capacity.free > 0 and (admitted := self._waiting.next()) is not None:
            capacity.free -= 1
            admitted.set()

    async def _read_capacity(self) -> _Capacity:
        return _Capacity(self._max_open - await self._queries.count_open(self._max_open))
