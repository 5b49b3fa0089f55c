"""One call of a model, kept: prompt and raw answer go to the content store before any event names them."""

import time
from dataclasses import dataclass, replace
from typing import Generic

from poweron_events.content import ContentStore
from poweron_events.event import ModelCall
from poweron_services.models.answers import Answer, Unacceptable, parse
from poweron_services.models.model import ChatModel
from poweron_services.models.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Called:
    """A model's raw text and the record of the call."""

    text: str
    call: ModelCall


@dataclass(frozen=True, slots=True)
class Decided(Generic[Answer]):
    """A model's answer as its stage expects it, or the reason why it cannot be used."""

    answer: Answer | None
    refusal: str
    call: ModelCall


class Caller:
    """Calls a model on behalf of one workflow."""

    def __init__(self, model: ChatModel, content: ContentStore) -> None:
        self._model = model
        self._content = content

    async def call(self, workflow_id: str, prompt: Prompt) -> Called:
        """Ask the model once; raises what `ChatModel.complete` and `ContentStore.put` raise."""
        shown = str(prompt.render()).encode()
        began = time.monotonic_ns()
        completion = await self._model.complete(prompt)
        duration_ms = (time.monotonic_ns() - began) // 1_000_000
        answer = completion.text.encode(errors="replace")  # half a surrogate pair fits into no event
        prompt_ref, answer_ref = await self._content.put_all(workflow_id, [shown, answer])
        call = ModelCall(
            provider=completion.provider,
            model=completion.model,
            template=prompt.template.name,
            template_sha256=prompt.template.sha256,
            prompt_ref=prompt_ref,
            answer_ref=answer_ref,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
            cost_nano_usd=completion.cost_nano_usd,
            duration_ms=duration_ms,
        )
        return Called(answer.decode(), call)

    async def decide(
        self, workflow_id: str, prompt: Prompt, answer: type[Answer], *, forbidden: frozenset[str] = frozenset()
    ) -> Decided[Answer]:
        """Ask once and read the answer; an unacceptable one is told, not raised."""
        called = await self.call(workflow_id, prompt)
        try:
            return Decided(parse(called.text, answer, forbidden=forbidden), "", called.call)
        except Unacceptable as error:
            return Decided(None, str(error), called.call)

    async def decide_twice(self, workflow_id: str, prompt: Prompt, answer: type[Answer]) -> Decided[Answer]:
        """Ask again after an unacceptable answer; both calls count."""
        first = await self.decide(workflow_id, prompt, answer)
        if first.answer is not None:
            return first
        second = await self.decide(workflow_id, prompt, answer)
        return replace(second, call=together(first.call, second.call))


def together(first: ModelCall, second: ModelCall) -> ModelCall:
    """Two calls told as the second one: what they used, and their tries, count together."""
    counted = ("input_tokens", "output_tokens", "cost_nano_usd", "duration_ms", "tries")
    return ModelCall(
        **second.model_dump(exclude=set(counted)),
        **{name: getattr(first, name) + getattr(second, name) for name in counted},
    )
