"""Another model for every stage: the prompt's stage says which is asked."""

from collections.abc import Mapping
from dataclasses import dataclass

from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.prompts import Prompt, PromptStage


@dataclass(frozen=True, slots=True)
class StagedModel:
    """Hands each prompt to the model of its stage."""

    models: Mapping[PromptStage, ChatModel]

    async def complete(self, prompt: Prompt) -> Completion:
        return await self.models[prompt.stage].complete(prompt)
