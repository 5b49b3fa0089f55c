"""Reservations of a process: each is appended, and read back as accepted, before its call is made.

They are numbered within the round, and the first with a number wins: two processes that work on the same workflow
cannot both reserve what is left of a budget.
"""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NoReturn

from poweron_events.errors import Unavailable
from poweron_events.event import Role
from poweron_events.fold.costs import most_of, reserve
from poweron_events.fold.state import Round, Used, Workflow, step_place
from poweron_events.step_events import CallReserved
from poweron_services.models.call_reservations import ReservedByOthers
from poweron_services.models.time_limit import current_limit
from poweron_services.runtime.append import Appended
from poweron_services.runtime.partitions import Partition
from poweron_services.runtime.work import Work

Put = Callable[[Workflow, CallReserved], tuple[str, Appended]]
"""Appends a reservation; returns the SHA-256 of its record, and a future that is done once the log has it."""


@dataclass(slots=True)
class Reservations:
    """The reservations that this process has written and not read back."""

    put: Put
    _verdicts: dict[str, bool | None] = field(default_factory=dict)

    @property
    def awaited(self) -> bool:
        """Whether the verdict on a reservation is pending."""
        return bool(self._verdicts)

    def read_back(self, sha256: str, *, accepted: bool) -> None:
        """Take the verdict on a record of any kind; the first verdict on the same bytes counts."""
        if sha256 in self._verdicts and self._verdicts[sha256] is None:
            self._verdicts[sha256] = accepted

    async def accepted(self, partition: Partition, workflow: Workflow, event: CallReserved) -> bool:
        """Append a reservation and return whether it was accepted; False if the partition was lost before."""
        sha256, appended = self.put(workflow, event)
        self._verdicts[sha256] = None
        try:
            await appended
            while partition.ours and self._verdicts[sha256] is None:
                await partition.moved.wait()
            return bool(self._verdicts[sha256])
        finally:
            del self._verdicts[sha256]


@dataclass(frozen=True, slots=True)
class TurnReservations:
    """Reserve the calls of one turn. Its workflow may not have been read back yet (E-17)."""

    reservations: Reservations
    work: Work
    workflow: Workflow
    role: Role
    is_paused: Callable[[], bool]
    """Whether the process has read that the workflow is paused."""

    async def may_begin(self) -> None:
        if self.role != "executor" and self.is_paused():  # a running action is finished
            await self._begin_again()

    async def __call__(self, most: Used) -> int:
        self._count_others()
        event = CallReserved(
            **step_place(self.workflow),
            reservation=self._round().reserved + 1,
            input_tokens=most.input_tokens,
            output_tokens=most.output_tokens,
            cost_nano_usd=most.cost_nano_usd,
        )
        if not await self._is_accepted(event):
            self._count_others()
            await self.may_begin()
            if self.work.partition.ours and reserve(self._current(), event) is not None:
                raise ReservedByOthers(Used())  # it was superseded by a pause that has ended since
            await self._end()
        self.work.reservations.add(event.reservation)
        return event.reservation

    def _current(self) -> Workflow:
        """The workflow as this process has read it."""
        return self.work.partition.fold.workflows[self.workflow.id]

    def _round(self) -> Round:
        return self._current().current

    def _count_others(self) -> None:
        """Raise ReservedByOthers if the round has reservations that this work did not know of."""
        unknown = [
            reservation
            for reservation in self._round().reservations
            if reservation.number not in self.work.reservations
        ]
        if unknown:
            self.work.reservations.update(reservation.number for reservation in unknown)
            raise ReservedByOthers(most_of(unknown))

    async def _is_accepted(self, event: CallReserved) -> bool:
        limit = current_limit()
        try:
            with nullcontext() if limit is None else limit.paused():
                return await self.reservations.accepted(self.work.partition, self.workflow, event)
        except asyncio.CancelledError:
            if limit is not None:
                limit.failed(Unavailable("Kafka has not taken the reservation of the call, so nothing was sent."))
            raise

    async def _begin_again(self) -> NoReturn:
        """End this work, to begin it again once the round is resumed."""
        self.work.begin_again()
        await self._end()

    async def _end(self) -> NoReturn:
        """End this work: the workflow has moved on, or another process has its partition."""
        assert self.work.task is not None
        self.work.task.cancel()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")
