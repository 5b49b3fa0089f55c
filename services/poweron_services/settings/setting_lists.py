"""Lists in settings: one line with its entries separated by commas."""

from typing import Final

from pydantic import TypeAdapter, ValidationError

from poweron_events.request import ActionPattern

_PATTERN: Final = TypeAdapter[str](ActionPattern)


def listed(entries: str) -> tuple[str, ...]:
    """Return the entries, without surrounding blanks and without empty ones."""
    return tuple(entry.strip() for entry in entries.split(",") if entry.strip())


def action_patterns(patterns: str) -> tuple[str, ...]:
    """Return the action patterns in a list.

    Raises:
        ValueError: an entry is not a pattern; whether its actions exist is known only once they are opened.
    """
    result = listed(patterns)
    for pattern in result:
        try:
            _PATTERN.validate_python(pattern)
        except ValidationError as error:
            raise ValueError(f"{pattern!r} is no pattern; write `web.*`, `ai.process`, or `*` for all") from error
    return result
