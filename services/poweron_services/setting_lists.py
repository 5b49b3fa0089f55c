"""Lists in settings: one line with commas between its entries."""

from typing import Final

from pydantic import TypeAdapter, ValidationError

from poweron_events.request import ActionPattern

_PATTERN: Final = TypeAdapter[str](ActionPattern)


def listed(entries: str) -> tuple[str, ...]:
    """The entries, without the blanks around them and without empty ones."""
    return tuple(entry.strip() for entry in entries.split(",") if entry.strip())


def action_patterns(patterns: str) -> tuple[str, ...]:
    """The patterns of actions that are listed.

    Raises:
        ValueError: one is none; which actions there are is known only where they are opened.
    """
    found = listed(patterns)
    for pattern in found:
        try:
            _PATTERN.validate_python(pattern)
        except ValidationError as error:
            raise ValueError(f"{pattern!r} is no pattern; write `web.*`, `ai.process`, or `*` for all") from error
    return found
