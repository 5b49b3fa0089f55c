"""A time limit for what asks models: it knows of the calls that failed, of answers that could not be kept, and why."""

import asyncio
import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType

from poweron_events.codes import Code
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.event import MAX_NANO_USD, MAX_TOKENS, FailedCalls, ModelCall


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """An answer that came and is paid for, but that could not be kept, and why."""

    call: ModelCall
    trouble: str


class AnswersLost(Unavailable):
    """The time is over, and answers were still in hand; their calls name neither prompt nor answer."""

    def __init__(self, lost: list[LostAnswer]) -> None:
        sentence = f"The model answered, but its answer could not be kept in time. {lost[-1].trouble}"
        super().__init__(sentence, code="content_store_unavailable")
        self.calls = tuple(each.call for each in lost)


class GivenUp(PowerOnError):
    """What was unavailable is not tried again: the time is over, or will be before the next try."""


class TimeLimit:
    """Limits what asks models, as an asynchronous context.

    Raises:
        AnswersLost: the time is over, and an answer was in hand.
        GivenUp: the time is over, and something was in the way.
        TimeoutError: the time is over.
    """

    def __init__(
        self,
        seconds: float,
        whose: str = "a stage",
        *,
        retry_seconds: float | None = None,
        outage_seconds: float = math.inf,
        pauses: bool = False,
    ) -> None:
        """Limit everything to `seconds`, and the beginning of another try to `retry_seconds` if those are fewer.

        `outage_seconds` are those from a failure on in which another try may begin, if no model answers meanwhile;
        `pauses` says whether the time stands still while the log does not take a reservation.
        """
        self._seconds, self._whose, self._outage_seconds = seconds, whose, outage_seconds
        self._failing_since: float | None = None
        self._pauses = pauses
        self._retry_seconds = seconds if retry_seconds is None else min(seconds, retry_seconds)
        self._timeout = asyncio.timeout(seconds)
        self._lost = list[LostAnswer]()
        self._failed: dict[Code, FailedCalls] = {}
        self._trouble: Unavailable | None = None
        self.tries = 0
        """How often something was tried in vain: each request to a model counts."""
        self.answered = list[ModelCall]()
        """The calls whose answers came and were kept; only who asked knows whether an event will tell of them."""

    @property
    def is_over(self) -> bool:
        """Whether the time was over before the context ended."""
        return self._timeout.expired()

    @property
    def failed_calls(self) -> tuple[FailedCalls, ...]:
        """The calls that failed until now, one entry for each code."""
        return tuple(self._failed.values())

    def failed(self, trouble: Unavailable) -> None:
        """Something was tried in vain."""
        self.tries += 1
        self._trouble = trouble

    def call_answered(self, call: ModelCall) -> None:
        """A model answered: nothing is in the way any more."""
        self.answered.append(call)
        self._trouble = self._failing_since = None

    def call_failed(self, call: FailedCalls, trouble: Unavailable | None) -> None:
        """A request to a model failed; `trouble` is why, where that may pass."""
        self._failed[call.code] = _together(self._failed.get(call.code), call)
        if self._failing_since is None:
            self._failing_since = asyncio.get_running_loop().time()
        self.tries += 1
        self._trouble = trouble or self._trouble

    def answers_unused(self, code: Code) -> None:
        """What was answered until now is told by no event: it will be asked for again, for this reason."""
        for call in self.answered:
            used = call.model_dump(include={*FailedCalls.model_fields} - {"code", "count"})
            self._failed[code] = _together(self._failed.get(code), FailedCalls(code=code, count=1, **used))
        self.answered.clear()

    def allows(self, pause: float) -> bool:
        """Whether the time holds another try after so many seconds."""
        then = asyncio.get_running_loop().time() + pause
        is_outage = self._failing_since is not None and then >= self._failing_since + self._outage_seconds
        return then < self._retry_until and not is_outage

    def given_up(self) -> GivenUp:
        """That the time does not hold another try: what was in the way, and when it may be tried again if that said."""
        trouble, said = self._trouble, self._in_the_way()
        assert trouble is not None
        asked = trouble.retry_after
        if asked is not None and not self.allows(asked):
            said = f"{said} {_may_be_tried(asked)}, which is later than {self._whose} may take."
        return GivenUp(said, code=trouble.code)

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Stop the clock, where the work can wait: a stage does for Kafka, an action has a claim that ends."""
        end, loop = self._timeout.when(), asyncio.get_running_loop()
        if not self._pauses or end is None:
            yield
            return
        began = loop.time()
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            waited = loop.time() - began
            self._retry_until += waited
            self._timeout.reschedule(end + waited)

    async def __aenter__(self) -> None:
        self._token: Token[TimeLimit | None] = _CURRENT.set(self)
        await self._timeout.__aenter__()
        self._retry_until = asyncio.get_running_loop().time() + self._retry_seconds

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CURRENT.reset(self._token)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as over:
            if self._lost:
                raise AnswersLost(self._lost) from over
            if self._trouble is not None:
                raise GivenUp(self._in_the_way(), code=self._trouble.code) from over
            raise

    def lost(self, call: ModelCall, trouble: str) -> None:
        """An answer was in hand when the time was over, or when somebody else gave up."""
        self._lost.append(LostAnswer(call, trouble))

    @property
    def lost_calls(self) -> tuple[ModelCall, ...]:
        """The calls whose answers came and were not kept."""
        return tuple(each.call for each in self._lost)

    def _in_the_way(self) -> str:
        """The last trouble, and how often there was any."""
        if self.tries == 1:
            return str(self._trouble)
        within = f"within {self._seconds:g} s, the time limit of {self._whose}"
        if self._outage_seconds < self._seconds:
            within = f"within {self._outage_seconds:g} s, as long as {self._whose} waits for a model"
        return f"It was tried {self.tries} times {within}. The last trouble: {self._trouble}"


_CURRENT: ContextVar[TimeLimit | None] = ContextVar("time_limit", default=None)


def current_limit() -> TimeLimit | None:
    """The time limit of the work at hand; None where it has none."""
    return _CURRENT.get()


def failed_calls() -> tuple[FailedCalls, ...]:
    """The calls that failed in the work at hand, which no event tells of yet."""
    limit = _CURRENT.get()
    return () if limit is None else limit.failed_calls


def _together(first: FailedCalls | None, second: FailedCalls) -> FailedCalls:
    if first is None:
        return second
    return FailedCalls(
        code=first.code,
        count=first.count + second.count,
        input_tokens=min(first.input_tokens + second.input_tokens, MAX_TOKENS),
        output_tokens=min(first.output_tokens + second.output_tokens, MAX_TOKENS),
        cost_nano_usd=min(first.cost_nano_usd + second.cost_nano_usd, MAX_NANO_USD),
        duration_ms=first.duration_ms + second.duration_ms,
        usage_estimated=first.usage_estimated or second.usage_estimated,
        reservations=(*first.reservations, *second.reservations),
    )


def _may_be_tried(seconds: float) -> str:
    """When it may be tried again: the second in UTC, and in how long."""
    at = datetime.now(UTC) + timedelta(seconds=math.ceil(seconds))
    return f"It may be tried again at {at:%Y-%m-%d %H:%M:%S} UTC, in {_in_words(seconds)}"


def _in_words(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {left} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
