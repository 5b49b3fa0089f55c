"""A time limit that knows, once it is over, of the answers that came and could not be kept until then."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType

from poweron_events.errors import Unavailable
from poweron_events.event import ModelCall


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """An answer that came and is paid for, but that could not be kept, and why."""

    call: ModelCall
    trouble: str


_LOST: ContextVar[list[LostAnswer] | None] = ContextVar("lost", default=None)


class AnswersLost(Unavailable):
    """The time is over, and answers were still in hand; their calls name neither prompt nor answer."""

    def __init__(self, lost: list[LostAnswer]) -> None:
        sentence = f"The model answered, but its answer could not be kept in time. {lost[-1].trouble}"
        super().__init__(sentence, code="content_store_unavailable")
        self.calls = tuple(each.call for each in lost)


class TimeLimit:
    """Limits what asks models, as an asynchronous context.

    Raises:
        AnswersLost: the time is over, and an answer was in hand.
        TimeoutError: the time is over.
    """

    def __init__(self, seconds: float) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._lost = list[LostAnswer]()

    @property
    def is_over(self) -> bool:
        """Whether the time was over before the context ended."""
        return self._timeout.expired()

    async def __aenter__(self) -> None:
        self._token = _LOST.set(self._lost)
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _LOST.reset(self._token)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as over:
            if self._lost:
                raise AnswersLost(self._lost) from over
            raise


def report_lost(call: ModelCall, trouble: str) -> None:
    """Tell the time limit, whose end is the reason, of an answer that was still in hand."""
    if (lost := _LOST.get()) is not None:
        lost.append(LostAnswer(call, trouble))
