"""The interface of a language model: one prompt in, one text out."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from poweron_events.errors import Refused, Unavailable
from poweron_services.models.prompts import Prompt


class TooLong(Refused):
    """The prompt is longer than the model accepts; a shorter one may be answered."""

    code = "prompt_too_long"


FinishReason = Literal["stop", "length", "content_filter", "tool_call", "error"]
"""Why a provider's model stopped writing."""


class UnreadableAnswer(Unavailable):
    """The response is not one that a provider should send: a system in between may be failing or misconfigured."""

    code = "model_misconfigured"


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's raw answer, its usage and its cost (tokens, nano-USD), and the number of tries.

    Input tokens include cached tokens; output tokens include reasoning tokens.
    """

    text: str
    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    tries: int = 1
    refusal: Refused | Unavailable | None = None
    """Why the answer is unusable although it was charged, in one line; `text` then holds as much as arrived."""
    sent: bytes | None = None
    """The exact body sent to a provider; None if the model saw the rendered prompt."""
    finish_reason: FinishReason | None = None
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    usage_estimated: bool = False
    """Whether tokens and cost are estimates, never too low, because the provider reported no plausible usage."""


class ChatModel(Protocol):
    """A language model.

    One call is one request; `CallTries` retries until there is an answer. The model sees only the rendered prompt, and
    its answer is text that the caller parses. The same prompt may be sent again after a crash; there is no promise of
    the same answer.
    """

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer the prompt within its allowance of tokens and money, failed tries included.

        Raises:
            BudgetUsedUp: nothing was sent, since it might exceed the allowance.
            Unavailable: the model cannot be reached or is too busy; it may answer later, `retry_after` says when.
            TooLong: the prompt must be shortened; a subclass of `Refused`.
            Refused: the model will not answer this prompt.
        """


class NamedModels(Protocol):
    """The models that a fork may name instead of the configured ones."""

    async def check(self, name: str) -> None:
        """Raise Refused if a fork may not name the model."""

    def unpriced(self, name: str) -> Collection[str]:
        """Return the model if it has no price, which a budget of money needs."""

    def opened(self, name: str) -> AbstractAsyncContextManager[ChatModel]:
        """Open the model, and close it at the end; raise Refused as `check` does."""


def free(prompt: int, answer: int) -> int:  # noqa: ARG001 - every cost function has this signature
    """Return the cost of a model that is free of charge."""
    return 0
