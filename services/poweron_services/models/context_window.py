"""How much a model takes at once, prompt and answer together, and prompts that fit it."""

from typing import Final, Protocol, runtime_checkable

from poweron_services.models.prompts import Prompt

WRITTEN: Final = 4  # the share of its window, as a divisor, that an answer is left at least
CHARACTERS_PER_TOKEN: Final = (
    3  # of a text; prose has more, tables of numbers have fewer: then it is told and cut again
)


@runtime_checkable
class Windowed(Protocol):
    """A model that takes only so much at once."""

    async def prompt_tokens(self) -> int | None:
        """The tokens that a prompt may have, with room left for its answer; None if unknown."""


def answer_limit(window: int | None, most: int) -> int:
    """How many tokens an answer may have, of a model that takes so many and may write at most so many."""
    return most if window is None else min(most, window // WRITTEN)


def fitted(prompt: Prompt, tokens: int | None) -> Prompt:
    """The prompt with as much of its history and its indexes as so many tokens hold.

    It may still be too long: then the model says so.
    """
    room = None if tokens is None else tokens * CHARACTERS_PER_TOKEN
    while room is not None and len(str(prompt.render())) > room and (shorter := prompt.shorter()) is not None:
        prompt = shorter
    return prompt
