"""Reservations of model calls: where a budget applies, the log holds the most that a call may use before it is made.

Whoever works on a workflow binds what reserves; where nothing is bound, as in a replay, nothing is reserved.
"""

from collections.abc import Generator
from contextlib import contextmanager
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
    """Records what the next call may use."""

    async def __call__(self, most: Used) -> int:
        """The number of the reservation, once it was read back from the log as accepted.

        It does not return where the work goes on in another process: it is cancelled then.

        Raises:
            ReservedByOthers: nothing was reserved; the allowance must be lowered first.
        """


_CURRENT: ContextVar[Reserve | None] = ContextVar("reserve", default=None)


@contextmanager
def reserving(reserve: Reserve) -> Generator[None, None, None]:
    """Reserve the calls of this context by `reserve`."""
    token = _CURRENT.set(reserve)
    try:
        yield
    finally:
        _CURRENT.reset(token)


async def reserve_call(allowance: Allowance, most: Used) -> bool:
    """Reserve a call; False where the allowance was lowered instead, so that it may not hold the call any more."""
    reserve = _CURRENT.get()
    if reserve is None:
        return True
    try:
        allowance.reservations.append(await reserve(most))
    except ReservedByOthers as others:
        allowance.take(others.most)
        return False
    return True
