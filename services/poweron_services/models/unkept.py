"""A time limit that knows, once it is over, of the answers that came and could not be kept until then."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from poweron_events.errors import Unavailable
from poweron_events.event import ModelCall


@dataclass(frozen=True, slots=True)
class Lost:
    """An answer that came and is paid for, but that could not be kept, and why."""

    call: ModelCall
    trouble: str


_LOST: ContextVar[list[Lost] | None] = ContextVar("lost", default=None)


class Unkept(Unavailable):
    """The time is over, and answers were still in hand; their calls name neither prompt nor answer."""

    def __init__(self, lost: list[Lost]) -> None:
        super().__init__(f"The model answered, but its answer could not be kept in time. {lost[-1].trouble}")
        self.calls = tuple(each.call for each in lost)


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncGenerator[None, None]:
    """Limit what asks models.

    Raises:
        Unkept: the time is over, and an answer was in hand.
        TimeoutError: the time is over.
    """
    lost = list[Lost]()
    token = _LOST.set(lost)
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        if lost:
            raise Unkept(lost) from error
        raise
    finally:
        _LOST.reset(token)


def lose(call: ModelCall, trouble: str) -> None:
    """Tell the time limit, whose end is the reason, of an answer that was still in hand."""
    if (lost := _LOST.get()) is not None:
        lost.append(Lost(call, trouble))
