"""What PowerOn asks of a language model: one prompt in, one text out."""

from dataclasses import dataclass
from typing import Protocol

from poweron_services.models.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's raw answer and what it cost (tokens, nano-USD)."""

    text: str
    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0


class ChatModel(Protocol):
    """A language model.

    It sees only what the prompt renders to, and its answer is text that the caller parses. The same
    prompt may be sent again after a crash. No promise is made that it is answered the same way.
    """

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer the prompt.

        Raises:
            Unavailable: the model cannot be reached or is too busy; later it may answer.
            Refused: it will not answer this prompt.
        """
