"""Observing: what a result looks like to the loop.

The observer does it for results that it reads back; an executor that plays the observer too does it at once,
so that result and observation are one append.
"""

from collections.abc import Sequence

from poweron_events.execution import ActionCompleted
from poweron_events.fold.state import Workflow
from poweron_events.observation import (
    MAX_NOTE,
    MAX_NOTES,
    MAX_SNIPPET,
    MAX_SUMMARY,
    Observation,
    ObservationRecorded,
    Omitted,
    Preview,
)

READABLE = ("text/", "application/json", "application/xml")


def text_of(mime_type: str, data: bytes) -> str:
    """What a preview can show of a document; nothing where it is not text."""
    return data.decode("utf-8", errors="replace") if mime_type.startswith(READABLE) else ""


def observe_build(workflow: Workflow, completed: ActionCompleted, texts: Sequence[str]) -> ObservationRecorded:
    """The observation of a completed action; `texts` are those of its first documents (L-04)."""
    shown = [" ".join(text.split()) for text in texts]
    previews = tuple(
        Preview(name=document.document_name, mime=document.mime_type, snippet=_cut(text, MAX_SNIPPET))
        for document, text in zip(completed.documents, shown, strict=False)
    )
    facts = [completed.error] if completed.error else []
    facts += completed.notes
    notes = tuple(_cut(fact, MAX_NOTE) for fact in facts[:MAX_NOTES])
    omitted = Omitted(
        previews=len(completed.documents) - len(previews),
        notes=len(facts) - len(notes),
        characters=sum(_left_out(text, MAX_SNIPPET) for text in shown)
        + sum(_left_out(fact, MAX_NOTE) for fact in facts[:MAX_NOTES]),
    )
    observation = Observation(
        success=completed.success,
        result_label=completed.result_label,
        documents_count=len(completed.documents),
        previews=previews,
        notes=notes,
        truncated=omitted != Omitted(),
        omitted=omitted if omitted != Omitted() else None,
    )
    return ObservationRecorded(
        round=completed.round,
        task=completed.task,
        attempt=completed.attempt,
        step=completed.step,
        observation=observation,
        summary=summarize(workflow, observation),
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _left_out(text: str, limit: int) -> int:
    """How many characters `_cut` leaves out."""
    return len(text) - (limit - 1) if len(text) > limit else 0


def summarize(workflow: Workflow, observation: Observation) -> str:
    """What the step did, in at most 200 characters, from the observation alone (H-02)."""
    selection = workflow.step.selection
    action = selection.action if selection else "The action"
    if not observation.success:
        why = observation.notes[0] if observation.notes else "no reason was given"
        return _cut(f"{action} failed: {why}", MAX_SUMMARY)
    names = ", ".join(preview.name for preview in observation.previews)
    count = observation.documents_count
    made = f"{count} document{'s' if count != 1 else ''}: {names}" if count else "no documents"
    snippet = f" - {observation.previews[0].snippet}" if observation.previews and selection_reads(action) else ""
    return _cut(f"{action} gave {made}{snippet}", MAX_SUMMARY)


def selection_reads(action: str) -> bool:
    """Whether the beginning of the action's result says what came of it."""
    return action.startswith("ai.")
