"""A recorded model call: the content store holds the prompt and the raw answer before any event refers to them."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic

import structlog

from poweron_events.codec import writable
from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError, Refused
from poweron_events.event import AnyCall, ModelCall
from poweron_events.fold.stage_specs import PromptStage
from poweron_events.fold.state import MAX_REFUSALS, Workflow, rejections
from poweron_events.retry import Failure, retry
from poweron_services import telemetry
from poweron_services.decider.rules import allowance, check_budget, price_unknown
from poweron_services.models.answers import Answer, Unacceptable, read
from poweron_services.models.call_tries import CallTries
from poweron_services.models.chat_model import ChatModel, Completion, TooLong
from poweron_services.models.context_window import fitted
from poweron_services.models.model_choice import next_model, prompt_tokens
from poweron_services.models.normalisation import with_normalised
from poweron_services.models.prompts import Prompt
from poweron_services.models.time_limit import current_limit, failed_calls

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


class Caller:
    """Calls a model on behalf of workflows, within their budgets."""

    def __init__(self, model: ChatModel, content: ContentStore, unpriced: Sequence[str] = ()) -> None:
        """Create a caller; `unpriced` are the models in use without a price, which a budget of money needs."""
        self._model = model
        self._content = content
        self._unpriced = unpriced
        self._secret = secrets.token_bytes(16)

    async def call(self, workflow: Workflow, prompt: Prompt, calls: Sequence[ModelCall] = ()) -> Called:
        """Ask the model once.

        Args:
            workflow: the workflow that the call is for; its budgets are checked first.
            prompt: the prompt.
            calls: earlier calls of the current work, which no event records yet.

        Raises:
            BudgetUsedUp: a budget does not allow the call, or another try of it.
            GivenUp: the time limit of the current work leaves no room for another try.
            Refused: as `ChatModel.complete` does; or there is a budget of money and a model has no price.
        """
        rejection_count = len(rejections(workflow)) // MAX_REFUSALS
        fenced_prompt = replace(
            prompt, fence=self._fence(workflow), passed_over=max(prompt.passed_over, rejection_count)
        )
        prompt = self._within_budget(workflow, fenced_prompt, calls)
        with telemetry.model_call(prompt.stage, prompt.template.name) as span:
            reply = await self._call(workflow, prompt, calls)
            span.answered(reply.call)
            if (limit := current_limit()) is not None:
                limit.call_answered(reply.call)
            return reply

    def _fence(self, workflow: Workflow) -> str:
        """Return the delimiter of the workflow's prompts."""
        return hashlib.blake2b(workflow.id.encode(), key=self._secret, digest_size=8).hexdigest()

    def _within_budget(self, workflow: Workflow, prompt: Prompt, calls: Sequence[ModelCall]) -> Prompt:
        """Attach to the prompt what the budgets leave for its call, or for another try of it."""
        all_calls: Sequence[AnyCall] = (*calls, *failed_calls())
        check_budget(workflow, all_calls)
        left = allowance(workflow, all_calls)
        if left is None:
            return prompt
        if left.limits_money and self._unpriced:
            raise Refused(price_unknown(self._unpriced), code="price_unknown")
        return replace(prompt, allowance=left)

    async def _call(self, workflow: Workflow, prompt: Prompt, calls: Sequence[ModelCall]) -> Called:
        call_tries, completion = await self._complete(workflow, prompt, calls)
        prompt_bytes = str(call_tries.prompt.render()).encode() if completion.sent is None else completion.sent
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
            next_model=next_model(self._model, call_tries.prompt),
            reservations=call_tries.reservations,
        )
        return Called(
            "" if completion.refusal else answer,
            await self._store(workflow.id, prompt.stage, [prompt_bytes, answer.encode()], call),
            _writable(completion.refusal),
        )

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
        self, workflow: Workflow, prompt: Prompt, calls: Sequence[ModelCall]
    ) -> tuple[CallTries, Completion]:
        """Return the model's answer to the prompt, or to as much of it as the model takes; every try counts.

        A prompt that cannot be shortened any further goes to the next model.
        """
        tries = 0
        while True:
            prompt = fitted(prompt, await prompt_tokens(self._model, prompt))
            call_tries = CallTries(
                self._model,
                prompt,
                workflow.id,
                affordable=lambda candidate: self._within_budget(workflow, candidate, calls),
            )
            try:
                completion = await call_tries.answered()
            except TooLong as error:
                shorter = call_tries.prompt.shorter()
                if shorter is None and next_model(self._model, call_tries.prompt) is not None:
                    shorter = replace(call_tries.prompt, share=1, passed_over=call_tries.prompt.passed_over + 1)
                if shorter is None:
                    raise TooLong(f"{error} {prompt.if_too_long}") from error
                tries, prompt = tries + call_tries.tries, self._within_budget(workflow, shorter, calls)
            else:
                before = tries + call_tries.tries - 1
                return call_tries, replace(completion, tries=completion.tries + before) if before else completion

    async def decide(
        self, workflow: Workflow, prompt: Prompt, answer: type[Answer], *, forbidden: frozenset[str] = frozenset()
    ) -> Decided[Answer]:
        """Ask once and parse the answer; an unacceptable answer is returned, not raised."""
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
