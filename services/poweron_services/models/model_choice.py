"""The routing of prompts to models: each stage may have a model of its own, and fallbacks for it."""

from collections.abc import Mapping
from dataclasses import dataclass

from poweron_events.fold.stage_specs import PromptStage
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.context_window import window_of
from poweron_services.models.prompts import Prompt


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
