"""Which contents of a workflow were erased, when and why, and how long the others are kept, in words."""

from collections.abc import Sequence
from typing import Any

from poweron_events.archive_events import ContentErased
from poweron_events.event import UtcTime
from poweron_events.fold.retention import Retention
from poweron_events.request import DocumentErased
from poweron_projections import workflow_lifetimes
from poweron_projections.connection import Pool
from poweron_projections.entries import EventEntry


async def erasure_of(pool: Pool, workflow_id: str, content: str, document_id: str | None) -> EventEntry | None:
    """Return the newest event that says that a content was erased; None if none does.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    events = await workflow_lifetimes.lifetime_events(pool, workflow_id)
    return newest_erasure(events, content, document_id)


def newest_erasure(events: Sequence[EventEntry], content: str, document_id: str | None) -> EventEntry | None:
    """Return the newest of these events that erases a content; None if none does."""
    erasing = [event for event in events if _erases(event, content, document_id)]
    return erasing[-1] if erasing else None


def _erases(event: EventEntry, content: str, document_id: str | None) -> bool:
    data = _data(event)
    documents = data.get("documents") or ()
    if event.type == ContentErased.TYPE:
        return not documents or content in data.get("contents", ())
    return event.type == DocumentErased.TYPE and document_id in documents


def erased_words(event: EventEntry) -> str:
    """Return when and why content was erased, as the end of a sentence."""
    data = _data(event)
    basis = f" ({data['legalBasis']})" if data.get("legalBasis") else ""
    time = event.time[:19].replace("T", " ")
    return f"was erased at {time} (UTC): {data.get('reason', '')}{basis}"


async def lifetime(pool: Pool, workflow_id: str) -> str:
    """Return in one line what was erased of a workflow, and how long its content is kept; empty if nothing says so.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    events = await workflow_lifetimes.lifetime_events(pool, workflow_id)
    if not events:
        return ""
    state = await workflow_lifetimes.workflow_retention(pool, workflow_id)
    erasures = [event for event in events if event.type in workflow_lifetimes.ERASURES]
    parts = [_ended(f"{_erased_what(event)} {erased_words(event)}") for event in reversed(erasures)]
    return " ".join([*parts, *([] if state.is_erased else _retention_parts(state))])


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def retention_words(state: Retention) -> str:
    """Return how long content is kept, as sentences."""
    if state.is_erased:
        return "All content was erased."
    return " ".join(_retention_parts(state)) or "No date and no legal hold: content may be erased at any time."


def _retention_parts(state: Retention) -> list[str]:
    parts = [f"On legal hold: {', '.join(state.holds)}."] if state.holds else []
    return parts + (
        [f"Content is kept until {_utc(state.until)}, and may be erased from then on."] if state.until else []
    )


def changed_retention_words(before: Retention, after: Retention) -> str:
    """Return how long content is kept after a change, and until when it was kept before."""
    earlier = f" Before: until {_utc(before.until)}." if before.until not in (None, after.until) else ""
    return f"{retention_words(after)}{earlier}"


def _utc(time: UtcTime | None) -> str:
    return f"{(time or '').replace('T', ' ').rstrip('Z')} (UTC)"


def _erased_what(event: EventEntry) -> str:
    documents = _data(event).get("documents") or ()
    return f"Content of {', '.join(documents)}" if documents else "All content"


def _data(event: EventEntry) -> dict[str, Any]:
    return event.data if isinstance(event.data, dict) else {}
