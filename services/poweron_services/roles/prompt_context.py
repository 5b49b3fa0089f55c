"""What prompts show of a workflow: its documents, its catalog, its history. Templates cut them to their budgets."""

from collections.abc import Mapping
from typing import Any, TypeVar

from poweron_events.catalog import ActionSpec
from poweron_events.fold.history import item_reference, reverse_chronological
from poweron_events.fold.state import ChatMessage, Workflow, rejections
from poweron_services.decider.defaults import language
from poweron_services.decider.references import documents_at_hand, earlier_rounds
from poweron_services.decider.validation import allowed_actions
from poweron_services.models.prompts import CatalogLine, DocumentLine, TaskPrompt
from poweron_services.roles.criteria_progress import progress
from poweron_services.roles.rejections import shown

Chosen = TypeVar("Chosen", bound=TaskPrompt)


def catalog_lines(specs: Mapping[str, ActionSpec]) -> tuple[CatalogLine, ...]:
    """The tiny catalog: names and parameter names."""
    return tuple(CatalogLine(name, spec.parameter_names) for name, spec in sorted(specs.items()))


def document_lines(workflow: Workflow) -> tuple[DocumentLine, ...]:
    """The index of documents, those of this round first, each newest first."""
    return tuple(
        DocumentLine(
            reference=item_reference(document.document_id, document.document_name),
            label=label,
            name=document.document_name,
            mime_type=document.mime_type,
            size=document.size,
        )
        for label, documents in reversed(documents_at_hand(workflow).items())
        for document in documents
    )


def history(workflow: Workflow) -> tuple[ChatMessage, ...]:
    """The messages of the round, newest first."""
    return tuple(reverse_chronological(workflow.current.messages))


def earlier_history(workflow: Workflow) -> str:
    """The compact history of earlier rounds, as the opening of this round holds it."""
    earlier = earlier_rounds(workflow)
    return earlier.history if earlier else ""


def refusal(workflow: Workflow) -> str | None:
    """Why the last answer to this very question was refused, as far as a model is told (S8)."""
    rejected = rejections(workflow)
    return shown(rejected[-1]) if rejected else None


def task_prompt(kind: type[Chosen], workflow: Workflow, catalog: Mapping[str, ActionSpec], **more: Any) -> Chosen:
    """A prompt by which actions are chosen: what both modes show of the task at hand, and `more` of its own."""
    task, opening = workflow.task, workflow.current.opening
    return kind(
        user_prompt=opening.prompt,
        language=language(workflow),
        objective=task.plan.objective,
        progress=progress(workflow),
        task_type=task.plan.task_type,
        expected_formats=task.plan.expected_formats,
        catalog=catalog_lines(allowed_actions(workflow, catalog)),
        documents=document_lines(workflow),
        connections=opening.connections,
        history=history(workflow),
        earlier=earlier_history(workflow),
        improvements=task.improvements,
        refusal=refusal(workflow),
        **more,
    )
