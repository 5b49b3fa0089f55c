"""The answer that a person gives instead of the model's, to the first decision of a fork that is not taken over."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

EDITED: Final = "edited"
"""The provider of the model call that records such an answer; its model is the person who wrote it."""


class ManualAnswer(NamedTuple):
    """A text that replaces an answer, and the person who wrote it."""

    text: str
    editor: str


_waiting: ContextVar[list[ManualAnswer]] = ContextVar("poweron_manual_answer")


@contextmanager
def answering(edited: ManualAnswer) -> Generator[None, None, None]:
    """Let the first call within the block take this answer instead of asking a model."""
    token = _waiting.set([edited])
    try:
        yield
    finally:
        _waiting.reset(token)


def take_manual_answer() -> ManualAnswer | None:
    """Return the answer to use instead of asking a model, once; None if there is none."""
    waiting = _waiting.get([])
    return waiting.pop() if waiting else None
