"""Detection of answers that only repeat their question: a placeholder, or words of the instructions."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

OWN_WORDS: Final = frozenset({"objective", "successCriteria", "actionObjective", "reason", "hint"})
"""The fields that a model must fill in its own words."""
LEAST: Final = 20  # characters; a shorter text may match by chance
_PLACEHOLDER: Final = re.compile(r"[\W_]{1,10}|<[^<>]*>|string|text|value|name|description", re.IGNORECASE)


def echo(answer: Mapping[str, Any], instructions: str) -> tuple[str, str] | None:
    """Return the first field that repeats a placeholder or the instructions, and its text; None if none does.

    Args:
        answer: the model's answer.
        instructions: the instructions of the prompt, the same for every prompt of its stage.
    """
    told = _folded(instructions)
    for field, text in _own_words(answer):
        said = _folded(text)
        if _PLACEHOLDER.fullmatch(text.strip()) or (len(said) >= LEAST and said in told):
            return field, text
    return None


def _own_words(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of the fields that need own words; an action's parameters may hold anything."""
    match value:
        case dict():
            for name, inner in value.items():
                if name != "parameters":
                    yield from _own_words(inner, name)
        case list():
            for each in value:
                yield from _own_words(each, field)
        case str() if field in OWN_WORDS:
            yield field, value


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".;")
