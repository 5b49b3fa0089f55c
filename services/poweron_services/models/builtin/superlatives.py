"""Questions for the highest or the lowest."""

import re
from dataclasses import dataclass

_HIGHEST = (
    r"highest|largest|biggest|greatest|maximum|max|most expensive|costliest|oldest|longest|latest"
    r"|höchste\w*|größte\w*|maximal\w*|teuerste\w*|älteste\w*|meisten?"
)
_LOWEST = (
    r"lowest|smallest|least|minimum|min|cheapest|youngest|shortest|earliest"
    r"|niedrigste\w*|kleinste\w*|geringste\w*|minimal\w*|günstigste\w*|billigste\w*|jüngste\w*"
)
_SUPERLATIVE = re.compile(rf"\b(?:{_HIGHEST}|(?P<low>{_LOWEST})|most)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Superlative:
    """The question asks for the row where a column is highest or lowest."""

    highest: bool
    word: str


def superlative(question: str) -> Superlative | None:
    """The superlative of a question, if it holds one."""
    match = _SUPERLATIVE.search(question)
    return Superlative(match["low"] is None, match[0].casefold()) if match else None
