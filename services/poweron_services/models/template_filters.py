"""The filters that show untrusted text in a template: as separate entries, within a budget of characters (P-09).

An entry begins at the margin and continues indented, so that no text can pass for two entries.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from poweron_events.event import CriterionProgress
from poweron_events.fold.history import render
from poweron_events.fold.state import ChatMessage
from poweron_events.step_events import Preview, SchemaField

_NEXT_MESSAGE: Final = re.compile(r"\n(?=\S)")  # only the first line of a message begins at the margin
LONGEST: Final = 1_000  # characters of one entry


def cut(text: str, budget: int) -> str:
    """Truncate a text to the budget, and say how much is left out."""
    if len(text) <= budget:
        return text
    return f"{text[:budget]}… ({len(text) - budget} more characters are left out.)"


def entries(things: Sequence[object], budget: int, longest: int = LONGEST) -> str:
    """Show the first things that fit, and say how many are left out; things come newest first."""
    lines, left_out = _fitting(things, budget, longest)
    if left_out:
        lines.append(f"({left_out} more {'is' if left_out == 1 else 'are'} left out.)")
    return "\n".join(lines) or "none"


def as_they_came(things: Sequence[object], budget: int, longest: int = LONGEST) -> str:
    """Show the first things that fit, oldest first, so that entries already shown keep their place.

    The prompts of a task then begin alike, however many things are added.
    """
    lines, left_out = _fitting(things, budget, longest)
    if left_out:
        lines.append(f"({left_out} older {'is' if left_out == 1 else 'are'} left out.)")
    return "\n".join(reversed(lines)) or "none"


def _fitting(things: Sequence[object], budget: int, longest: int) -> tuple[list[str], int]:
    """Return the first things that fit, as entries, and the number of those left out."""
    lines: list[str] = []
    for thing in things:
        entry = cut(_entry(thing), min(longest, budget))
        budget -= len(entry) + 1
        if budget < 0 and lines:
            break
        lines.append(entry)
    return lines, len(things) - len(lines)


def criteria(progress: Sequence[CriterionProgress], budget: int) -> str:
    """Show the criteria by number. Each is shown, truncated if necessary: answers refer to all of them by number."""
    longest = budget // max(1, len(progress))
    return "\n".join(
        f"{number}. " + "\n   ".join(cut(criterion.criterion, longest).splitlines())
        for number, criterion in enumerate(progress, start=1)
    )


def reached(progress: Sequence[CriterionProgress]) -> str:
    """Show how far each criterion is met, by number."""
    return "; ".join(
        f"{number}: {'met' if criterion.met else 'not met'}, {criterion.progress} of 1000"
        for number, criterion in enumerate(progress, start=1)
    )


def messages(history: str, budget: int, left_out: int = 0) -> str:
    """Show the first messages of a rendered history that fit, and say how many are left out.

    Args:
        history: messages as `render` writes them, newest first.
        budget: characters.
        left_out: older messages that the history itself leaves out.
    """
    parts = _NEXT_MESSAGE.split(history)
    lines: list[str] = []
    for part in parts:
        budget -= len(part) + 1
        if budget < 0 and lines:
            break
        lines.append(part if budget >= 0 else f"{part[: budget - 1]}…")
    if left_out := left_out + len(parts) - len(lines):
        lines.append(f"({left_out} older {'message is' if left_out == 1 else 'messages are'} left out.)")
    return "\n".join(lines)


def _entry(thing: object) -> str:
    """Render a thing as an entry; a message appears as in the history (H-03)."""
    match thing:
        case str():
            text = thing
        case ChatMessage():
            return render(thing)
        case CriterionProgress():
            text = f"[{'met' if thing.met else 'not met'}, {thing.progress} of 1000] {thing.criterion}"
        case SchemaField():
            text = f"[{thing.type}{', required' if thing.required else ''}] {thing.name}"
            text += f": {thing.description}" if thing.description else ""
        case Preview():
            text = _preview(thing)
        case _:
            text = str(thing)
    return "- " + "\n  ".join(text.splitlines())


def _preview(preview: Preview) -> str:
    """Show the beginning of a document; for a web page, also its address and what is worth knowing about it."""
    known = [preview.mime, *([preview.url] if preview.url else [])]
    if preview.relevance_score is not None:
        known.append(f"relevance {preview.relevance_score} of 1000")
    points = [f"key point: {point}" for point in preview.key_points]
    entities = [f"names, dates, amounts: {'; '.join(preview.entities)}"] if preview.entities else []
    return "\n".join([f"{preview.name} ({', '.join(known)}): {preview.snippet}", *points, *entities])


FILTERS: Final[dict[str, Any]] = {
    "as_they_came": as_they_came,
    "criteria": criteria,
    "cut": cut,
    "entries": entries,
    "messages": messages,
    "reached": reached,
}
