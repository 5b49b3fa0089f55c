"""The tries of one call: an unavailable model is asked again for as long as the time allows, and every try counts."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from poweron_events.codes import Code
from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.event import FailedCalls
from poweron_events.fold.state import Used
from poweron_events.retry import Backoff, Failure, retry
from poweron_services import telemetry
from poweron_services.decider.rules import BudgetUsedUp
from poweron_services.models.chat_model import ChatModel, Completion, TooLong, UnreadableAnswer
from poweron_services.models.model_choice import next_model
from poweron_services.models.prompts import Prompt
from poweron_services.models.time_limit import current_limit

log = structlog.get_logger()

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two requests; a provider may ask for more
UNREADABLE_ANSWERS = 4  # in one call, after which the model is not asked again


@dataclass(slots=True)
class CallTries:
    """The requests of one call, until the model answers."""

    model: ChatModel
    prompt: Prompt
    workflow_id: str
    affordable: Callable[[Prompt], Prompt]
    """Returns the prompt with what the budgets still allow: a failed request may have been charged."""
    tries: int = 0
    unreadable: int = 0
    duration_ms: int = 0
    """The duration of the last try."""

    async def answered(self) -> Completion:
        """Return the model's answer, after as many tries as it takes.

        Raises:
            BudgetUsedUp: the tries have used up a budget.
            GivenUp: the time limit of the current work leaves no room for another try.
            Refused: as `ChatModel.complete` does, or several answers were unreadable.
        """
        return await retry(self._try, failed=self._handle_failure, backoff=Backoff(FIRST_PAUSE, LONGEST_PAUSE))

    async def _try(self) -> Completion:
        """Return the answer of the first model that can be reached, starting with the current one."""
        first = self.prompt.passed_over
        while True:
            try:
                return await self._ask()
            except Unavailable as error:
                following = next_model(self.model, self.prompt)
                if following is None:
                    self.prompt = replace(self.prompt, passed_over=first)
                    raise
                self.prompt = replace(self.prompt, passed_over=self.prompt.passed_over + 1)
                log.warning(telemetry.MODEL_PASSED_OVER, **self._log_fields(error), next_model=following)

    async def _ask(self) -> Completion:
        if self.tries:
            self.prompt = self.affordable(self.prompt)
        self.tries += 1
        began = time.monotonic_ns()
        try:
            with telemetry.model_request(self.prompt.stage, self.prompt.template.name):
                completion = await self.model.complete(self.prompt)
        except BudgetUsedUp:  # nothing was sent
            raise
        except (Exception, asyncio.CancelledError) as error:
            _count(error, self._failure_without_usage(_code(error), _since(began)))
            raise
        self.duration_ms = _since(began)
        if isinstance(completion.refusal, Unavailable | TooLong):
            _count(completion.refusal, self._failure_with_usage(completion, completion.refusal.code))
            raise completion.refusal
        return completion

    @property
    def reservations(self) -> tuple[int, ...]:
        """The reservations of the last try."""
        return tuple(self.prompt.allowance.reservations) if self.prompt.allowance else ()

    def _failure_without_usage(self, code: Code, duration_ms: int) -> FailedCalls:
        """Describe a failed request without reported usage; if a budget applies, count the most that it can be."""
        most = self.prompt.allowance.unknown if self.prompt.allowance else Used()
        return FailedCalls(
            code=code,
            count=1,
            input_tokens=most.input_tokens,
            output_tokens=most.output_tokens,
            cost_nano_usd=most.cost_nano_usd,
            duration_ms=duration_ms,
            usage_estimated=any(most),
            reservations=self.reservations,
        )

    def _failure_with_usage(self, completion: Completion, code: Code) -> FailedCalls:
        """Describe a failed request for which the provider reported usage."""
        return FailedCalls(
            code=code,
            count=1,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
            cost_nano_usd=completion.cost_nano_usd,
            duration_ms=self.duration_ms,
            usage_estimated=completion.usage_estimated,
            reservations=self.reservations,
        )

    def _handle_failure(self, failure: Failure) -> None:
        limit, error = current_limit(), failure.error
        self.unreadable += isinstance(error, UnreadableAnswer)
        is_refused = self.unreadable == UNREADABLE_ANSWERS
        goes_on = not is_refused and (limit is None or limit.allows(failure.pause))
        seconds = round(failure.pause, 1) if goes_on else None
        log.warning(telemetry.MODEL_WAITS, **self._log_fields(error), tries=failure.tries, seconds=seconds)
        if is_refused:
            raise Refused(str(error), code=UnreadableAnswer.code) from None
        if not goes_on:
            assert limit is not None
            raise limit.given_up() from None

    def _log_fields(self, error: Exception) -> dict[str, Any]:
        """Return the fields that every log line about a failed request has."""
        code = getattr(error, "code", None)
        return {"workflow_id": self.workflow_id, "stage": self.prompt.stage, "code": code, "error": str(error)}


def _count(error: BaseException, call: FailedCalls) -> None:
    """Report a failed request to the time limit."""
    if (limit := current_limit()) is not None:
        limit.call_failed(call, error if isinstance(error, Unavailable) else None)


def _code(error: BaseException) -> Code:
    if isinstance(error, PowerOnError):
        return error.code
    is_cancelled = isinstance(error, asyncio.CancelledError)  # by a time limit: that of the work, or one within it
    return "model_timeout" if is_cancelled else "unexpected_error"


def _since(began: int) -> int:
    return (time.monotonic_ns() - began) // 1_000_000
