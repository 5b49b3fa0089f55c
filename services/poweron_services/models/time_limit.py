"""A time limit for work that asks models; it tracks failed calls, answers that could not be stored, and the reasons."""

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
    """An answer that arrived and was charged but could not be stored, and why."""

    call: ModelCall
    trouble: str


class AnswersLost(Unavailable):
    """The time ran out while answers were not yet stored; their calls refer to neither prompt nor answer."""

    def __init__(self, answers: list[LostAnswer]) -> None:
        sentence = f"The model answered, but its answer could not be kept in time. {answers[-1].trouble}"
        super().__init__(sentence, code="content_store_unavailable")
        self.calls = tuple(answer.call for answer in answers)


class GivenUp(PowerOnError):
    """There is no further try: the time is over, or will be before the next one."""


class TimeLimit:
    """An asynchronous context that limits the time of work that asks models.

    Raises:
        AnswersLost: the time is over, and an answer was not stored yet.
        GivenUp: the time is over, and something was unavailable.
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
        """Limit all work to `seconds`, and the start of another try to `retry_seconds` if that is less.

        Another try may start within `outage_seconds` of a failure if no model answers in the meantime. `pauses` says
        whether the clock stops while the log does not accept a reservation.
        """
        self._seconds, self._whose, self._outage_seconds = seconds, whose, outage_seconds
        self._failing_since: float | None = None
        self._pauses = pauses
        self._retry_seconds = seconds if retry_seconds is None else min(seconds, retry_seconds)
        self._timeout = asyncio.timeout(seconds)
        self._stops = 0
        self._stopped_at = self._end = 0.0
        self._lost = list[LostAnswer]()
        self._failed: dict[Code, FailedCalls] = {}
        self._trouble: Unavailable | None = None
        self.tries = 0
        """The number of failed tries; each request to a model counts."""
        self.answered = list[ModelCall]()
        """The calls whose answers were stored; only the caller knows whether an event will record them."""

    @property
    def is_over(self) -> bool:
        """Whether the time was over before the context ended."""
        return self._timeout.expired()

    @property
    def failed_calls(self) -> tuple[FailedCalls, ...]:
        """The calls that have failed so far, one entry per code."""
        return tuple(self._failed.values())

    def failed(self, trouble: Unavailable) -> None:
        """Record a failed try."""
        self.tries += 1
        self._trouble = trouble

    def call_answered(self, call: ModelCall) -> None:
        """Record that a model answered, which ends an outage."""
        self.answered.append(call)
        self._trouble = self._failing_since = None

    def call_failed(self, call: FailedCalls, trouble: Unavailable | None) -> None:
        """Record a failed request to a model; `trouble` is the reason if it may pass."""
        self._failed[call.code] = _together(self._failed.get(call.code), call)
        if self._failing_since is None:
            self._failing_since = asyncio.get_running_loop().time()
        self.tries += 1
        self._trouble = trouble or self._trouble

    def answers_unused(self, code: Code) -> None:
        """Count the answers so far as failed calls with this code: no event records them, they are requested again."""
        for call in self.answered:
            usage = call.model_dump(include={*FailedCalls.model_fields} - {"code", "count"})
            self._failed[code] = _together(self._failed.get(code), FailedCalls(code=code, count=1, **usage))
        self.answered.clear()

    def allows(self, pause: float) -> bool:
        """Return whether there is time for another try after a pause in seconds."""
        then = (self._stopped_at or asyncio.get_running_loop().time()) + pause
        is_outage = self._failing_since is not None and then >= self._failing_since + self._outage_seconds
        return then < self._retry_until and not is_outage

    def given_up(self) -> GivenUp:
        """Return the error for a try that no longer fits: the last trouble, and when to retry if it says so."""
        trouble, message = self._trouble, self._in_the_way()
        assert trouble is not None
        delay = trouble.retry_after
        if delay is not None and not self.allows(delay):
            message = f"{message} {_retry_time(delay)}, which is later than {self._whose} may take."
        return GivenUp(message, code=trouble.code)

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Stop the clock if the work can wait: a stage waits for Kafka, but an action has a claim that expires."""
        if not self._pauses:
            yield
            return
        self.stop()
        try:
            yield
        finally:
            self.go_on()

    def stop(self) -> None:
        """Stop the clock, unless the time is over; it goes on after as many calls of `go_on`."""
        self._stops += 1
        end = self._timeout.when()
        if self._stops == 1 and end is not None and not self._timeout.expired():
            self._stopped_at, self._end = asyncio.get_running_loop().time(), end
            self._timeout.reschedule(None)

    def go_on(self) -> None:
        """Let the clock go on."""
        self._stops -= 1
        if self._stops == 0 and self._stopped_at:
            pause = asyncio.get_running_loop().time() - self._stopped_at
            self._retry_until += pause
            self._timeout.reschedule(self._end + pause)
            self._stopped_at = 0.0

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
        """Record an answer that was not stored when the time ran out or another part of the work gave up."""
        self._lost.append(LostAnswer(call, trouble))

    @property
    def lost_calls(self) -> tuple[ModelCall, ...]:
        """The calls whose answers arrived but were not stored."""
        return tuple(answer.call for answer in self._lost)

    def _in_the_way(self) -> str:
        """Return the last trouble, and the number of tries."""
        if self.tries == 1:
            return str(self._trouble)
        within = f"within {self._seconds:g} s, the time limit of {self._whose}"
        if self._outage_seconds < self._seconds:
            within = f"within {self._outage_seconds:g} s, as long as {self._whose} waits for a model"
        return f"It was tried {self.tries} times {within}. The last trouble: {self._trouble}"


_CURRENT: ContextVar[TimeLimit | None] = ContextVar("time_limit", default=None)


def current_limit() -> TimeLimit | None:
    """Return the time limit of the current work; None if it has none."""
    return _CURRENT.get()


def failed_calls() -> tuple[FailedCalls, ...]:
    """Return the failed calls of the current work, which no event records yet."""
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


def _retry_time(seconds: float) -> str:
    """Return when to retry: the time in UTC, to the second, and how long it is until then."""
    at = datetime.now(UTC) + timedelta(seconds=math.ceil(seconds))
    return f"It may be tried again at {at:%Y-%m-%d %H:%M:%S} UTC, in {_in_words(seconds)}"


def _in_words(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {left} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
