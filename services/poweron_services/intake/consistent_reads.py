"""Reads of the rows that are never older than the rows that this process relied on before."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from poweron_events import topics
from poweron_events.errors import Unavailable
from poweron_events.fold.partial import Stub
from poweron_events.log import EventLog
from poweron_events.policy import AppliedPolicy
from poweron_events.request import POLICY_ID
from poweron_services.intake.intake_ports import IntakeQueries
from poweron_services.row_query import SharedQuery

Found = TypeVar("Found")

REACH_TIMEOUT = 10.0  # seconds until a request waits for its next try, and the log says so


class ConsistentReads:
    """Wait for the projector and remember its position: rows that are being rebuilt must not answer."""

    def __init__(self, event_log: EventLog, queries: IntakeQueries) -> None:
        self._log = event_log
        self._queries = queries
        self._positions = SharedQuery(queries.positions)
        self._floors: dict[int, int] = {}  # by partition, the position of the rows that were relied on
        self._policy: AppliedPolicy | None = None
        self._policies_reached = False

    async def reach_end(self, workflow: str) -> None:
        """Wait until the projector has passed everything that is in the workflow's partition now."""
        ends = await self._log.ends(topics.EVENTS.name)
        await self.reach(workflow, ends[self._partition(workflow)])

    async def reach_again(self, workflow: str) -> None:
        """Wait until the rows are at the position that was relied on before or, if there is none, at the end."""
        floor = self._floors.get(self._partition(workflow))
        await (self.reach_end(workflow) if floor is None else self.reach(workflow, floor))

    async def reach(self, workflow: str, offset: int) -> None:
        """Wait until the projector's next offset in the workflow's partition is at least this.

        Raises:
            Unavailable: the offset is not reached within `REACH_TIMEOUT`.
        """
        await self._reach(self._partition(workflow), offset)

    async def reach_all_ends(self) -> None:
        """Wait until the projector has passed everything that is in the log now.

        Raises:
            Unavailable: it does not get there within `REACH_TIMEOUT`.
        """
        for partition, end in (await self._log.ends(topics.EVENTS.name)).items():
            await self._reach(partition, end)

    async def _reach(self, partition: int, offset: int) -> None:
        try:
            async with asyncio.timeout(REACH_TIMEOUT):
                await self._positions.until(lambda positions: positions.get(partition, 0) >= offset)
        except TimeoutError as error:
            raise Unavailable(
                f"After {REACH_TIMEOUT:g} s the rows are not at offset {offset} of partition {partition}; "
                "a projector may be missing"
            ) from error
        self._floors[partition] = max(self._floors.get(partition, 0), offset)

    async def stub(self, workflow: str) -> Stub | None:
        """Return the stub of the workflow, or None if there is none.

        Raises:
            Unavailable: the rows are behind the position that was relied on before.
        """
        partition = self._partition(workflow)
        projected, stubs = await self._queries.look_up(partition, [workflow])
        if projected < self._floors.get(partition, 0):
            raise _rebuilt(projected)
        return stubs.get(workflow)

    async def checked(self, query: Awaitable[Found]) -> Found:
        """Return the answer of a query.

        Raises:
            Unavailable: the rows are behind a position that was relied on before.
        """
        floors = self.floors
        found = await query
        self.check_not_older(await self._queries.positions(), floors)
        return found

    async def policy(self) -> AppliedPolicy | None:
        """Return the newest policy, never an older one than before; None if none was applied.

        Raises:
            Unavailable: the rows are behind the position that was relied on before.
        """
        if not self._policies_reached:
            await self.reach_end(POLICY_ID)
            self._policies_reached = True
        partition = self._partition(POLICY_ID)
        known = self._policy.number if self._policy else 0
        projected, newer = await self._queries.policy_after(partition, known)
        if projected < self._floors.get(partition, 0):
            raise _rebuilt(projected)
        if newer is not None and (self._policy is None or newer.number > self._policy.number):
            self._policy = newer
        return self._policy

    @property
    def floors(self) -> Mapping[int, int]:
        """By partition, the position of the rows that were relied on so far."""
        return dict(self._floors)

    def check_not_older(self, positions: Mapping[int, int], than: Mapping[int, int]) -> None:
        """Compare the positions of rows with those of rows that were relied on before.

        Raises:
            Unavailable: they are older.
        """
        for partition, floor in than.items():
            if positions.get(partition, 0) < floor:
                raise _rebuilt(positions.get(partition, 0))

    def weight(self, source: str) -> int:
        """Return how many turns a source takes at a time, by the newest policy that was read."""
        return self._policy.policy.source_quota(source).weight if self._policy else 1

    def _partition(self, workflow: str) -> int:
        return self._log.partition_of(topics.EVENTS.name, workflow.encode())


def _rebuilt(projected: int) -> Unavailable:
    return Unavailable(f"Postgres was rebuilt and has come to {projected} only; it was further before")
