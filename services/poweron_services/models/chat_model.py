"""What PowerOn asks of a language model: one prompt in, one text out."""

from dataclasses import dataclass
from typing import Protocol

from poweron_events.errors import Refused, Unavailable
from poweron_services.models.prompts import Prompt


class TooLong(Refused):
    """The prompt is longer than what the model takes; a shorter one may be answered."""

    code = "prompt_too_long"


class UnreadableAnswer(Unavailable):
    """What came is no answer that a provider should send: something between may be in trouble, or set up wrongly."""

    code = "model_misconfigured"


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's raw answer and what it cost (tokens, nano-USD), after how many tries."""

    text: str
    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    tries: int = 1
    refusal: Refused | Unavailable | None = None
    """Why there is no answer although the model was paid: one line; the text is then empty."""


class ChatModel(Protocol):
    """A language model.

    One call is one request: whoever wants an answer for certain asks again (`CallTries`).
    It sees only what the prompt renders to, and its answer is text that the caller parses. The same
    prompt may be sent again after a crash. No promise is made that it is answered the same way.
    """

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer the prompt.

        Raises:
            Unavailable: the model cannot be reached or is too busy; later it may answer, `retry_after` says when.
            TooLong: the prompt has to be shortened; a kind of `Refused`.
            Refused: it will not answer this prompt.
        """
