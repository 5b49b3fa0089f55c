"""What PowerOn asks of a language model: one prompt in, one text out."""

from dataclasses import dataclass
from typing import Literal, Protocol

from poweron_events.errors import Refused, Unavailable
from poweron_services.models.prompts import Prompt


class TooLong(Refused):
    """The prompt is longer than what the model takes; a shorter one may be answered."""

    code = "prompt_too_long"


FinishReason = Literal["stop", "length", "content_filter", "tool_call", "error"]
"""Why a provider's model wrote no more."""


class UnreadableAnswer(Unavailable):
    """What came is no answer that a provider should send: something between may be in trouble, or set up wrongly."""

    code = "model_misconfigured"


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's raw answer and what it cost (tokens, nano-USD), after how many tries.

    Cached tokens are among those read, tokens of thought among those written.
    """

    text: str
    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    tries: int = 1
    refusal: Refused | Unavailable | None = None
    """Why the answer is none although the model was paid: one line; the text is then what came, as far as it came."""
    sent: bytes | None = None
    """What was sent to a provider, as it was sent; None where the model saw the rendering of the prompt."""
    finish_reason: FinishReason | None = None
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    usage_estimated: bool = False
    """Whether tokens and cost are an estimate, never too low, since the provider reported none that are plausible."""


class ChatModel(Protocol):
    """A language model.

    One call is one request: whoever wants an answer for certain asks again (`CallTries`).
    It sees only what the prompt renders to, and its answer is text that the caller parses. The same
    prompt may be sent again after a crash. No promise is made that it is answered the same way.
    """

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer the prompt, taking no more than its allowance leaves: tokens and money, tries that failed included.

        Raises:
            BudgetUsedUp: nothing was sent, since it might take more.
            Unavailable: the model cannot be reached or is too busy; later it may answer, `retry_after` says when.
            TooLong: the prompt has to be shortened; a kind of `Refused`.
            Refused: it will not answer this prompt.
        """


def free(prompt: int, answer: int) -> int:  # noqa: ARG001 - it has the form of every cost
    """The cost of a model that costs nothing."""
    return 0
