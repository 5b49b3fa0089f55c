"""Formats that were requested and that no document has; the end of a round says so (L-08)."""

from collections.abc import Sequence
from typing import Final

from poweron_events.fold.state import Workflow
from poweron_services.decider.defaults import own_language
from poweron_services.text.format_wishes import Kind, asked_formats

MAX_NAMED = 5  # documents
_ENDINGS: Final[dict[Kind, str]] = {"PDF": ".pdf", "Word": ".docx", "Excel": ".xlsx", "PowerPoint": ".pptx"}
_WORDS: Final = {
    "en": (
        " and ",
        "You asked for {formats}, which this release cannot make",
        "You asked for {formats}, which was not made",
        "; it made {documents} instead",
    ),
    "de": (
        " und ",
        "Gewünscht war {formats}, was diese Version nicht erstellen kann",
        "Gewünscht war {formats}, was nicht erstellt wurde",
        "; stattdessen liegt vor: {documents}",
    ),
}


def missing_formats(workflow: Workflow, documents: Sequence[str]) -> str:
    """The sentence about the formats that none of the round's documents has; empty if nothing is missing."""
    names = tuple(name.casefold() for name in documents)
    missing = [kind for kind in asked_formats(workflow) if not any(name.endswith(_ENDINGS[kind]) for name in names)]
    if not missing:
        return ""
    both, cannot, was_not, instead = _WORDS[own_language(workflow)]
    beside = instead.format(documents=", ".join(documents[-MAX_NAMED:])) if documents else ""
    sentence = cannot if missing == ["PowerPoint"] else was_not
    return f"{sentence.format(formats=both.join(missing))}{beside}."
