"""The limit of open workflows: while as many are open as may be, openings wait (docs/decisions/0008)."""

from dataclasses import dataclass

from poweron_services.intake.intake_ports import IntakeQueries
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

    async def admit(self) -> None:
        """Wait while as many workflows are open as may be; who asked first opens first."""
        capacity = await self._capacity.until(lambda capacity: capacity.free > 0)
        capacity.free -= 1

    async def _left(self) -> _Capacity:
        return _Capacity(self._max_open - await self._queries.count_open(self._max_open))
