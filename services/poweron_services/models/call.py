"""A recorded model call: the content store holds the prompt and the raw answer before any event refers to them.

Each stage may have a model of its own, and fallbacks for it. An unavailable model is asked again for as long as the
time allows, and every try counts.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

import structlog

from poweron_events.codec import writable
from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.event import AnyCall, FailedCalls, ModelCall
from poweron_events.fold.stage_specs import PromptStage
from poweron_events.fold.state import MAX_REFUSALS, Used, Workflow, rejections
from poweron_events.retry import Backoff, Failure, retry
from poweron_services import telemetry
from poweron_services.decider.rules import Budget, BudgetUsedUp, allowance, check_budget, needed, price_unknown
from poweron_services.fork.manual_answer import EDITED, ManualAnswer, take_manual_answer
from poweron_services.models.answers import Answer, Unacceptable, read
from poweron_services.models.call_reservations import may_begin
from poweron_services.models.chat_model import ChatModel, Completion, NamedModels, TooLong, UnreadableAnswer
from poweron_services.models.context_window import fitted, window_of
from poweron_services.models.normalisation import with_normalised
from poweron_services.models.prompts import Prompt
from poweron_services.models.time_limit import current_limit, failed_calls


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
        await may_begin()
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
            telemetry.count_failure(self.prompt.stage, _code(error))
            _count(error, self._failure_without_usage(_code(error), _since(began)))
            raise
        self.duration_ms = _since(began)
        telemetry.count_answer(partial(_measured, self.prompt.stage, completion, self.duration_ms))
        if completion.refusal is not None:
            telemetry.count_failure(self.prompt.stage, completion.refusal.code)
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


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Called:
    """A model's raw text and the record of the call."""

    text: str
    call: ModelCall
    refusal: Refused | None = None
    """Why there is no usable text; anything that did arrive is stored with the call."""


@dataclass(frozen=True, slots=True)
class Decided(Generic[Answer]):
    """A model's answer in the form that its stage expects, or the reason why it is unusable."""

    answer: Answer | Refused
    call: ModelCall


DayBudgets = Callable[[Sequence[AnyCall]], Sequence[Budget]]
"""Returns what the quotas of a workflow's actor and source leave after these calls, which no event records yet."""
ReadDayBudgets = Callable[[Workflow], Awaitable[DayBudgets]]
"""Reads what was used today; raises Unavailable while Postgres does not answer."""


def no_day_budgets(_: Sequence[AnyCall]) -> Sequence[Budget]:
    """Return no budgets, for a workflow without quotas."""
    return ()


class Caller:
    """Calls a model on behalf of workflows, within their budgets."""

    def __init__(
        self,
        model: ChatModel,
        content: ContentStore,
        unpriced: Sequence[str] = (),
        day_budgets: ReadDayBudgets | None = None,
        named_models: NamedModels | None = None,
    ) -> None:
        """Create a caller.

        Args:
            model: the model.
            content: where prompts and answers are stored.
            unpriced: the models in use without a price, which a budget of money needs.
            day_budgets: reads what the quotas of a workflow's actor and source leave; without it they limit no call.
            named_models: the models that forks may name; without it the given model answers for them, too.
        """
        self._model = model
        self._named_models = named_models
        self._content = content
        self._unpriced = unpriced
        self._day_budgets = day_budgets
        self._secret = secrets.token_bytes(16)

    async def call(self, workflow: Workflow, prompt: Prompt, calls: Sequence[ModelCall] = ()) -> Called:
        """Get one answer from the model, with as many tries as the time limit and the budgets allow.

        Args:
            workflow: the workflow that the call is for; its budgets are checked first.
            prompt: the prompt.
            calls: earlier calls of the current work, which no event records yet.

        Raises:
            BudgetUsedUp: a budget does not allow the call, or another try of it.
            BudgetNeeded: the same, in a round that asks for more.
            GivenUp: the time limit of the current work leaves no room for another try.
            Refused: as `ChatModel.complete` does; or there is a budget of money and a model has no price.
            Unavailable: what was used today is unknown, because Postgres does not answer.
        """
        day = await self._day_budgets(workflow) if self._day_budgets is not None else no_day_budgets
        rejection_count = len(rejections(workflow)) // MAX_REFUSALS
        fork = workflow.current.opening.forked_from
        own_prompt = replace(
            prompt,
            fence=self._fence(workflow),
            passed_over=max(prompt.passed_over, rejection_count),
            model=None if fork is None else fork.model,
        )
        prompt = self._within_budget(workflow, own_prompt, calls, day)
        with telemetry.model_call(prompt.stage, prompt.template.name) as span:
            try:
                reply = await self._call(workflow, prompt, calls, day)
            except BudgetUsedUp as error:
                raise needed(workflow, error) from None
            span.answered(reply.call)
            if (limit := current_limit()) is not None:
                limit.call_answered(reply.call)
            return reply

    def _fence(self, workflow: Workflow) -> str:
        """Return the delimiter of the workflow's prompts."""
        return hashlib.blake2b(workflow.id.encode(), key=self._secret, digest_size=8).hexdigest()

    def _within_budget(self, workflow: Workflow, prompt: Prompt, calls: Sequence[ModelCall], day: DayBudgets) -> Prompt:
        """Attach to the prompt what the budgets leave for its call, or for another try of it."""
        all_calls: Sequence[AnyCall] = (*calls, *failed_calls())
        check_budget(workflow, all_calls)
        left = allowance(workflow, all_calls, day(all_calls))
        if left is None:
            return prompt
        if left.limits_money and (unpriced := self._unpriced_for(prompt)):
            raise Refused(price_unknown(unpriced), code="price_unknown")
        return replace(prompt, allowance=left)

    def _unpriced_for(self, prompt: Prompt) -> Collection[str]:
        """Return the models without a price that may answer the prompt."""
        if prompt.model is None or self._named_models is None:
            return self._unpriced
        return self._named_models.unpriced(prompt.model)

    async def _call(self, workflow: Workflow, prompt: Prompt, calls: Sequence[ModelCall], day: DayBudgets) -> Called:
        if (edited := take_manual_answer()) is not None:
            return await self._edited(workflow, prompt, edited)
        call_tries, completion = await self._complete(workflow, prompt, calls, day)
        prompt_bytes = bytes(call_tries.prompt.render()) if completion.sent is None else completion.sent
        answer = writable(completion.text)
        call = partial(
            ModelCall,
            provider=writable(completion.provider),
            model=writable(completion.model),
            template=prompt.template.name,
            template_sha256=prompt.template.sha256,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
            cached_input_tokens=completion.cached_input_tokens,
            reasoning_tokens=completion.reasoning_tokens,
            cost_nano_usd=completion.cost_nano_usd,
            usage_estimated=completion.usage_estimated,
            duration_ms=call_tries.duration_ms,
            tries=completion.tries,
            finish_reason=completion.finish_reason,
            next_model=next_model(call_tries.model, call_tries.prompt),
            reservations=call_tries.reservations,
        )
        return Called(
            "" if completion.refusal else answer,
            await self._store(workflow.id, prompt.stage, [prompt_bytes, answer.encode()], call),
            _writable(completion.refusal),
        )

    async def _edited(self, workflow: Workflow, prompt: Prompt, edited: ManualAnswer) -> Called:
        """Return a person's answer as that of a call which asked no model and cost nothing."""
        call = partial(
            ModelCall,
            provider=EDITED,
            model=writable(edited.editor) or EDITED,
            template=prompt.template.name,
            template_sha256=prompt.template.sha256,
        )
        texts = [bytes(prompt.render()), writable(edited.text).encode()]
        return Called(texts[1].decode(), await self._store(workflow.id, prompt.stage, texts, call), None)

    async def _store(
        self, workflow_id: str, stage: PromptStage, texts: Sequence[bytes], call: Callable[..., ModelCall]
    ) -> ModelCall:
        """Store prompt and answer, and return the call with references to them.

        An answer that arrived is paid for: if the store is unavailable, wait for it instead of asking the model again.
        """
        trouble = "The content store has not answered."

        def warn(failure: Failure) -> None:
            nonlocal trouble
            trouble = str(failure.error)
            code = getattr(failure.error, "code", None)
            log.warning(telemetry.STAGE_WAITS, workflow_id=workflow_id, stage=stage, code=code, error=trouble)

        try:
            prompt_ref, answer_ref = await retry(partial(self._content.put_all, workflow_id, texts), failed=warn)
        except asyncio.CancelledError:
            if (limit := current_limit()) is not None:
                limit.lost(call(), trouble)
            raise
        return call(prompt_ref=prompt_ref, answer_ref=answer_ref)

    async def _complete(
        self, workflow: Workflow, prompt: Prompt, calls: Sequence[ModelCall], day: DayBudgets
    ) -> tuple[CallTries, Completion]:
        """Return the model's answer to the prompt, or to as much of it as the model takes; every try counts.

        A prompt that cannot be shortened any further goes to the next model.
        """
        tries = 0
        async with self._answering(prompt) as model:
            while True:
                prompt = fitted(prompt, await prompt_tokens(model, prompt))
                call_tries = CallTries(
                    model,
                    prompt,
                    workflow.id,
                    affordable=lambda candidate: self._within_budget(workflow, candidate, calls, day),
                )
                try:
                    completion = await call_tries.answered()
                except TooLong as error:
                    shorter = call_tries.prompt.shorter()
                    if shorter is None and next_model(model, call_tries.prompt) is not None:
                        shorter = replace(call_tries.prompt, share=1, passed_over=call_tries.prompt.passed_over + 1)
                    if shorter is None:
                        raise TooLong(f"{error} {prompt.if_too_long}") from error
                    tries, prompt = tries + call_tries.tries, self._within_budget(workflow, shorter, calls, day)
                else:
                    before = tries + call_tries.tries - 1
                    return call_tries, replace(completion, tries=completion.tries + before) if before else completion

    @asynccontextmanager
    async def _answering(self, prompt: Prompt) -> AsyncGenerator[ChatModel, None]:
        """Open the model that the fork names, for one call; without a name, yield the configured one."""
        if prompt.model is None or self._named_models is None:
            yield self._model
            return
        async with self._named_models.opened(prompt.model) as model:
            yield model

    async def decide(
        self, workflow: Workflow, prompt: Prompt, answer: type[Answer], *, forbidden: frozenset[str] = frozenset()
    ) -> Decided[Answer]:
        """Call the model once and parse its answer; an unacceptable answer is returned, not raised."""
        reply = await self.call(workflow, prompt)
        if reply.refusal:
            return Decided(reply.refusal, reply.call)
        try:
            result = read(reply.text, answer, forbidden=forbidden, prompt=prompt)
        except Unacceptable as error:
            return Decided(error, reply.call)
        return Decided(result.answer, with_normalised(reply.call, *result.normalised, repaired=result.repaired))


def _writable(refusal: PowerOnError | None) -> Refused | None:
    """Return the refusal with a message that fits into an event, whichever characters the model wrote."""
    return None if refusal is None else Refused(writable(str(refusal)), code=refusal.code)


@dataclass(frozen=True, slots=True)
class StagedModel:
    """Passes each prompt to the model of its stage."""

    models: Mapping[PromptStage, ChatModel]

    async def complete(self, prompt: Prompt) -> Completion:
        return await self.models[prompt.stage].complete(prompt)


@dataclass(frozen=True, slots=True)
class FallbackModel:
    """Passes each prompt to the first model that was not passed over for it."""

    models: Mapping[str, ChatModel]
    """The models by name, in the order in which they are asked."""

    async def complete(self, prompt: Prompt) -> Completion:
        return await list(self.models.values())[prompt.passed_over].complete(prompt)


async def prompt_tokens(model: ChatModel, prompt: Prompt) -> int | None:
    """Return the tokens that a prompt may have for the model whose turn it is; None if unknown."""
    match model:
        case StagedModel():
            return await prompt_tokens(model.models[prompt.stage], prompt)
        case FallbackModel():
            return await prompt_tokens(list(model.models.values())[prompt.passed_over], prompt)
    return await window_of(model)


def next_model(model: ChatModel, prompt: Prompt) -> str | None:
    """Return the name of the model to fall back to if the current one cannot answer; None if it is the last."""
    match model:
        case StagedModel():
            return next_model(model.models[prompt.stage], prompt)
        case FallbackModel():
            return next(iter(list(model.models)[prompt.passed_over + 1 :]), None)
    return None


FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two requests; a provider may ask for more


UNREADABLE_ANSWERS = 4  # in one call, after which the model is not asked again


def _measured(stage: PromptStage, completion: Completion, duration_ms: int) -> telemetry.ModelAnswer:
    """Return what is measured of an answer, usable or not: it was paid for."""
    return telemetry.ModelAnswer(
        stage=stage,
        provider=completion.provider,
        model=completion.model,
        seconds=duration_ms / 1000,
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        cached_input_tokens=completion.cached_input_tokens,
        reasoning_tokens=completion.reasoning_tokens,
        cost_nano_usd=completion.cost_nano_usd,
    )


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
