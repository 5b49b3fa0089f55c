"""Limits on the parts of one event: lists and texts are cut to a number of bytes, so that it can be recorded (E-10).

The caller reports what was left out.
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
MAX_CALLS = 20  # model calls listed individually

MAX_IMPROVEMENT = 500  # characters

Entry = TypeVar("Entry", bound=Model | str)


def fitting(entries: Sequence[Entry], budget: int) -> tuple[Entry, ...]:
    """Return the first entries that fit into the budget, in bytes."""
    result: list[Entry] = []
    for entry in entries:
        budget -= _size(entry) + 1
        if budget < 0:
            break
        result.append(entry)
    return tuple(result)


def fitting_improvements(improvements: Iterable[str]) -> tuple[str, ...]:
    """The improvements that a model suggests, each truncated to what an event records."""
    return tuple(improvement[:MAX_IMPROVEMENT] for improvement in improvements)


def fitting_text(text: str, budget: int) -> str:
    """Return the text or, if it exceeds the budget in bytes, its beginning and an ellipsis."""
    if _size(text) <= budget:
        return text
    room = budget - len("…".encode()) - 2
    start = text[:room]
    while _size(start) - 2 > room:
        start = start[: len(start) * 9 // 10]
    return f"{start}…"


def fitting_calls(calls: Sequence[ModelCall]) -> tuple[ModelCall, ...]:
    """The calls, with those beyond the limit merged into the last one: their tokens, costs and tries are added up."""
    if len(calls) <= MAX_CALLS:
        return tuple(calls)
    return (*calls[: MAX_CALLS - 1], reduce(_together, calls[MAX_CALLS - 1 :]))


def _together(first: ModelCall, second: ModelCall) -> ModelCall:
    """Merge two calls into the second one and add up their usage and tries."""
    tokens = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
    sums = (*tokens, "cost_nano_usd", "duration_ms", "tries")
    return ModelCall(
        **second.model_dump(exclude={*sums, "usage_estimated", "reservations"}),
        usage_estimated=first.usage_estimated or second.usage_estimated,
        reservations=(*first.reservations, *second.reservations),
        **{name: getattr(first, name) + getattr(second, name) for name in sums},
    )


def _size(entry: Model | str) -> int:
    return len(dumps(entry if isinstance(entry, str) else entry.model_dump(mode="json", by_alias=True)))
