"""The built-in model: deterministic, offline, extractive.

It reads only the fields of a stage's prompt and answers as a language model would: with JSON in the stages of the loop,
with plain text for users.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from poweron_events.errors import Refused
from poweron_services.models.builtin import action_choice, process, task_judgement, task_plan
from poweron_services.models.chat_model import Completion, free
from poweron_services.models.embedding.embedder import Embedder, Watched
from poweron_services.models.prompts import (
    ActionsPrompt,
    MessagePrompt,
    ParametersPrompt,
    PlanningPrompt,
    ProcessPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)

PROVIDER: Final = "builtin"
MODEL: Final = "extractive-1"
CHARACTERS_PER_TOKEN = 4
BIG = 20_000  # characters; a longer prompt is read in a thread, so that it does not block the event loop


class BuiltinModel:
    """A `ChatModel` that needs no key and no network. The same prompt always gets the same answer.

    Tokens are an estimate: the characters of the prompt, and of the answer, divided by four.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        """Create a model; without an embedder it compares words alone, and its answers say so."""
        self._embedder = embedder

    async def complete(self, prompt: Prompt) -> Completion:
        prompt_text = str(prompt.render())
        embedder = Watched(self._embedder) if self._embedder and isinstance(prompt, ProcessPrompt) else None
        ask = partial(answer, prompt, embedder)
        text = await asyncio.to_thread(ask) if embedder or len(prompt_text) > BIG else ask()
        name = f"{MODEL}+{embedder.name}" if embedder and embedder.was_asked else MODEL
        completion = Completion(
            text, PROVIDER, name, _tokens(len(prompt_text)), _tokens(len(text)), sent=prompt_text.encode()
        )
        return _within_allowance(prompt, completion)


def _within_allowance(prompt: Prompt, completion: Completion) -> Completion:
    """Return the answer, truncated to what the budgets leave; a truncated answer is a refusal."""
    most = completion.output_tokens
    if prompt.allowance is None:
        return completion
    longest = prompt.allowance.longest_answer(completion.input_tokens, most, free)
    if longest >= most:
        return completion
    refusal = Refused(f"The answer was cut off after {longest} tokens, what the budget leaves.", code="answer_cut_off")
    text = completion.text[: longest * CHARACTERS_PER_TOKEN]
    return replace(completion, text=text, output_tokens=longest, refusal=refusal, finish_reason="length")


def answer(prompt: Prompt, embedder: Embedder | None = None) -> str:
    """Answer a prompt of any stage."""
    if isinstance(prompt, ProcessPrompt):
        return process.process(prompt, embedder)
    stage = _STAGES.get(type(prompt))
    if stage is None:
        raise Refused(f"The built-in model does not know the prompt {type(prompt).__name__!r}.")
    return stage(prompt)


_STAGES: Final[dict[type[Prompt], Callable[[Any], str]]] = {
    PlanningPrompt: task_plan.plan,
    ActionsPrompt: action_choice.plan_actions,
    SelectionPrompt: action_choice.select,
    ParametersPrompt: action_choice.fill,
    RefinementPrompt: task_judgement.refine,
    ReviewPrompt: task_judgement.review,
    MessagePrompt: task_plan.message,
}


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
