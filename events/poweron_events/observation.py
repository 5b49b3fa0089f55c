"""Observe: the compact view of a result that the model may see."""

from typing import Annotated

from pydantic import Field

from poweron_events.codes import Code
from poweron_events.event import Count, FreeText, Model, StepEvent, UnreadDocument

MAX_PREVIEWS = 5
MAX_SNIPPET = 300  # characters
MAX_NOTES = 8
MAX_NOTE = 200  # characters
MAX_LINKS = 20
MAX_SUMMARY = 200  # characters


class Preview(Model):
    """The beginning of one document, with findings about it."""

    name: FreeText = Field(max_length=255)
    mime: str = Field(max_length=255)
    snippet: FreeText = Field(max_length=MAX_SNIPPET)
    url: str | None = None
    relevance_score: int | None = Field(default=None, ge=0, le=1000)
    key_points: tuple[FreeText, ...] = ()
    entities: tuple[FreeText, ...] = ()


class Omitted(Model):
    """How much was cut; the full result stays in the content store."""

    previews: Count = 0
    notes: Count = 0
    characters: Count = 0


class Observation(Model):
    """The result of an action, small enough for a prompt (M-03)."""

    success: bool
    result_label: str
    documents_count: Count
    previews: tuple[Preview, ...] = Field(default=(), max_length=MAX_PREVIEWS)
    code: Code | None = None
    """Why the action did not succeed; None if it did."""
    unread: tuple[UnreadDocument, ...] = Field(default=(), max_length=MAX_NOTES)
    """At most 8, together with the notes."""
    notes: tuple[Annotated[FreeText, Field(max_length=MAX_NOTE)], ...] = Field(default=(), max_length=MAX_NOTES)
    links: tuple[str, ...] = Field(default=(), max_length=MAX_LINKS)
    truncated: bool = False
    omitted: Omitted | None = None


class ObservationRecorded(StepEvent):
    """The observer summarised the action's result."""

    observation: Observation
    summary: FreeText = Field(max_length=MAX_SUMMARY)
