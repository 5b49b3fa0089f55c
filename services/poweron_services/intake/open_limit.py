"""The limit of open workflows: while as many are open as may be, openings wait (docs/decisions/0008)."""

import asyncio
from dataclasses import dataclass

from poweron_services.fair_slots import SenderTurns
from poweron_services.intake.intake_ports import IntakeQueries
from poweron_services.intake.priority import NextCancellation
from poweron_services.intake.shared_query import SharedQuery


@dataclass(slots=True)
class _Capacity:
    """How many more workflows may be opened, as one query of the rows has it."""

    free: int


class OpenLimit:
    """At most `max_open` workflows have an open round that waits for no person."""

    def __init__(self, queries: IntakeQueries, max_open: int) -> None:
        self._queries = queries
        self._max_open = max_open
        self._capacity = SharedQuery(self._left)
        self._waiting = SenderTurns[asyncio.Event]()

    async def admit(self, sender: str, next_cancellation: NextCancellation) -> None:
        """Wait while as many workflows are open as may be, until the opening is cancelled; senders take turns."""
        admitted = asyncio.Event()
        self._waiting.add(sender, admitted)
        try:
            while not admitted.is_set() and await next_cancellation() is None:
                self._let_in(await self._capacity())
        finally:
            self._waiting.remove(sender, admitted)  # who waits no longer takes nobody's turn

    def _let_in(self, capacity: _Capacity) -> None:
        while capacity.free > 0 and (admitted := self._waiting.next()) is not None:
            capacity.free -= 1
            admitted.set()

    async def _left(self) -> _Capacity:
        return _Capacity(self._max_open - await self._queries.count_open(self._max_open))
