"""Reservations of model calls: if a budget applies, the log records the most that a call may use before it is made.

While a round is paused, its stages make no call. The process that works on a workflow binds a `Reserve`; if none is
bound, as in a replay, nothing is reserved.
"""

from contextvars import ContextVar
from typing import Protocol

from poweron_events.fold.state import Used
from poweron_services.decider.rules import Allowance


class ReservedByOthers(Exception):
    """Another process has reserved calls that the allowance does not count yet."""

    def __init__(self, most: Used) -> None:
        super().__init__(f"Another process has reserved {most.tokens:,} tokens.")
        self.most = most


class Reserve(Protocol):
    """Says whether the next call may begin, and records the most that it may use."""

    async def may_begin(self) -> None:
        """Return if a call may begin; if the round is paused, cancel this work, which begins again after the pause."""

    async def __call__(self, most: Used) -> int:
        """Reserve a call; return the number of the reservation once it is read back from the log as accepted.

        It does not return if the work continues in another process: it is cancelled then.

        Raises:
            ReservedByOthers: nothing was reserved; the allowance must be lowered first.
        """


_CURRENT: ContextVar[Reserve | None] = ContextVar("reserve", default=None)


def bind_reserve(reserve: Reserve) -> None:
    """From now on in this task, use `reserve` to reserve calls."""
    _CURRENT.set(reserve)


async def may_begin() -> None:
    """Return if a call may begin now; while the round is paused, it never returns."""
    if (reserve := _CURRENT.get()) is not None:
        await reserve.may_begin()


async def reserve_call(allowance: Allowance, most: Used) -> bool:
    """Reserve a call; return False if the allowance was lowered instead and may no longer allow the call."""
    reserve = _CURRENT.get()
    if reserve is None:
        return True
    try:
        allowance.reservations.append(await reserve(most))
    except ReservedByOthers as error:
        allowance.take(error.most)
        return False
    return True
