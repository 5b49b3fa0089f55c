"""What fits into one event: lists and texts cut to so many bytes, so that an event stays recordable (E-10).

Whoever cuts says what was left out.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

from poweron_events.codec import dumps
from poweron_events.event import Model, ModelCall
from poweron_services.models.call import together

DOCUMENTS_BUDGET = 20_000  # bytes, as JSON
NOTES_BUDGET = 8_000  # bytes
TEXT_BUDGET = 24_000  # bytes
ERROR_BUDGET = 6_000  # bytes
MAX_CALLS = 20  # model calls told one by one

Entry = TypeVar("Entry", bound=Model | str)


def fitting(entries: Sequence[Entry], budget: int) -> tuple[Entry, ...]:
    """The first entries that fit into so many bytes."""
    kept: list[Entry] = []
    for entry in entries:
        budget -= _size(entry) + 1
        if budget < 0:
            break
        kept.append(entry)
    return tuple(kept)


def fitting_text(text: str, budget: int) -> str:
    """The text, or its beginning and an ellipsis, in so many bytes."""
    if _size(text) <= budget:
        return text
    room = budget - len("…".encode()) - 2
    cut = text[:room]
    while _size(cut) - 2 > room:
        cut = cut[: len(cut) * 9 // 10]
    return f"{cut}…"


def fitting_calls(calls: Sequence[ModelCall]) -> tuple[ModelCall, ...]:
    """The calls, the last one standing for all that would be too many: their tokens, costs and tries count."""
    if len(calls) <= MAX_CALLS:
        return tuple(calls)
    return (*calls[: MAX_CALLS - 1], reduce(together, calls[MAX_CALLS - 1 :]))


def _size(entry: Model | str) -> int:
    return len(dumps(entry if isinstance(entry, str) else entry.model_dump(mode="json", by_alias=True)))
