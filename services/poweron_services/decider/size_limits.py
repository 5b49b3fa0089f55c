"""What fits into one event: lists and texts cut to so many bytes, so that an event stays recordable (E-10).

Whoever cuts says what was left out.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TypeVar

from poweron_events.codec import dumps
from poweron_events.event import Model, ModelCall

DOCUMENTS_BUDGET = 20_000  # bytes, as JSON
NOTES_BUDGET = 8_000  # bytes
UNREAD_BUDGET = 8_000  # bytes, as JSON
TEXT_BUDGET = 24_000  # bytes
ERROR_BUDGET = 6_000  # bytes
FINDINGS_BUDGET = 6_000  # bytes, as JSON
COVERAGE_BUDGET = 4_000  # bytes, as JSON
LINKS_BUDGET = 4_000  # bytes
SOURCES_BUDGET = 12_000  # bytes, as JSON, of one document
MAX_CALLS = 20  # model calls told one by one

MAX_IMPROVEMENT = 500  # characters

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


def fitting_improvements(improvements: Iterable[str]) -> tuple[str, ...]:
    """What a model would improve, each as far as an event tells it."""
    return tuple(improvement[:MAX_IMPROVEMENT] for improvement in improvements)


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
    return (*calls[: MAX_CALLS - 1], reduce(_together, calls[MAX_CALLS - 1 :]))


def _together(first: ModelCall, second: ModelCall) -> ModelCall:
    """Two calls told as the second one: what they used, and their tries, count together."""
    tokens = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
    counted = (*tokens, "cost_nano_usd", "duration_ms", "tries")
    return ModelCall(
        **second.model_dump(exclude={*counted, "usage_estimated", "reservations"}),
        usage_estimated=first.usage_estimated or second.usage_estimated,
        reservations=(*first.reservations, *second.reservations),
        **{name: getattr(first, name) + getattr(second, name) for name in counted},
    )


def _size(entry: Model | str) -> int:
    return len(dumps(entry if isinstance(entry, str) else entry.model_dump(mode="json", by_alias=True)))
