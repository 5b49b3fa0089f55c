"""The context window of a model, which prompt and answer share, and prompts shortened to fit it."""

from typing import Any, Final, Protocol

from poweron_services.models.prompts import Prompt

WRITTEN: Final = 4  # the largest share of the window that is reserved for an answer, as a divisor
CHARACTERS_PER_TOKEN: Final = 3  # of a text; prose has more, tables of numbers have fewer: the prompt is then cut again


class Windowed(Protocol):
    """A model with a limited context window."""

    async def prompt_tokens(self) -> int | None:
        """Return the most tokens that a prompt may have, with room left for its answer; None if unknown."""


async def window_of(model: Any) -> int | None:
    """Return the most tokens that a prompt may have for a model; None if unknown, or if it is not `Windowed`."""
    windowed: Windowed | None = model if hasattr(model, "prompt_tokens") else None  # isinstance takes 20 µs
    return await windowed.prompt_tokens() if windowed else None


def answer_limit(window: int | None, most: int) -> int:
    """Return the most tokens that an answer may have, given the window of the model and a maximum."""
    return most if window is None else min(most, window // WRITTEN)


def fitted(prompt: Prompt, tokens: int | None) -> Prompt:
    """Shorten the history and the indexes of a prompt until it fits a number of tokens.

    It may still be too long; the model then says so.
    """
    room = None if tokens is None else tokens * CHARACTERS_PER_TOKEN
    while room is not None and len(str(prompt.render())) > room and (shorter := prompt.shorter()) is not None:
        prompt = shorter
    return prompt
