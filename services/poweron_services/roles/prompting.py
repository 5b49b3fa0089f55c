"""What prompts show of a workflow: its documents, its catalog, its history cut to a budget."""

from collections.abc import Iterable, Mapping

from poweron_events.catalog import ActionSpec
from poweron_events.fold.history import item_reference, render, reverse_chronological
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_services.decider.references import labelled_documents
from poweron_services.models.prompts import CatalogLine, DocumentLine

HISTORY_BUDGET = 12_000  # characters
INDEX_BUDGET = 60  # documents


def catalog_lines(specs: Mapping[str, ActionSpec]) -> tuple[CatalogLine, ...]:
    """The tiny catalog: names and parameter names."""
    return tuple(CatalogLine(name, spec.parameter_names) for name, spec in sorted(specs.items()))


def document_lines(messages: Iterable[ChatMessage]) -> tuple[DocumentLine, ...]:
    """The index of documents, newest first, cut to its budget."""
    lines = [
        DocumentLine(
            reference=item_reference(document.document_id, document.document_name),
            label=label,
            name=document.document_name,
            mime_type=document.mime_type,
            size=document.size,
        )
        for label, documents in reversed(labelled_documents(messages).items())
        for document in documents
    ]
    return tuple(lines[:INDEX_BUDGET])


def history(workflow: Workflow) -> tuple[ChatMessage, ...]:
    """The messages of the round, newest first."""
    return tuple(reverse_chronological(workflow.current.messages))


def history_text(messages: Iterable[ChatMessage], earlier: str = "", budget: int = HISTORY_BUDGET) -> str:
    """The history as a prompt shows it: newest first, cut to the budget, saying what was left out (P-09)."""
    shown: list[str] = []
    entries = [*map(render, messages), *([earlier] if earlier else [])]
    for position, entry in enumerate(entries):
        budget -= len(entry) + 1
        if budget < 0:
            shown.append(f"({len(entries) - position} older entries are left out.)")
            break
        shown.append(entry)
    return "\n".join(shown)


def earlier_history(workflow: Workflow) -> str:
    """The compact history of earlier rounds, as the opening of this round holds it."""
    earlier = getattr(workflow.current.opening, "earlier", None)
    return earlier.history if earlier else ""
