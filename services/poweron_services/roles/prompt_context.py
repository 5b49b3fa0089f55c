"""What prompts show of a workflow: its documents, its catalog and its history. Templates cut them to their budgets."""

from collections.abc import Mapping
from typing import Any, TypeVar

from poweron_events.catalog import ActionSpec
from poweron_events.fold.history import item_reference, reverse_chronological
from poweron_events.fold.state import ChatMessage, Workflow, is_request_label, rejections
from poweron_services.decider.answer_schemas import planning_schema
from poweron_services.decider.defaults import language
from poweron_services.decider.references import documents_at_hand, earlier_rounds
from poweron_services.decider.validation import allowed_actions, plannable_actions
from poweron_services.models.prompts import CatalogLine, DocumentLine, ListLine, PlanningPrompt, TaskPrompt, Template
from poweron_services.roles.criteria_progress import progress
from poweron_services.roles.rejections import shown

Chosen = TypeVar("Chosen", bound=TaskPrompt)


def catalog_lines(specs: Mapping[str, ActionSpec]) -> tuple[CatalogLine, ...]:
    """The minimal catalog: names and parameter names."""
    return tuple(CatalogLine(name, spec.parameter_names) for name, spec in sorted(specs.items()))


def list_lines(workflow: Workflow) -> tuple[ListLine, ...]:
    """The labels of all documents, including those that the index does not name; labels of requests come first."""
    earlier = earlier_rounds(workflow)
    lines = [ListLine(label, len(documents)) for label, documents in reversed(documents_at_hand(workflow).items())]
    other_lines = [ListLine(entry.label, entry.count) for entry in (earlier.lists_left_out if earlier else ())]
    return tuple(sorted((*lines, *other_lines), key=lambda line: not is_request_label(line.label)))


def document_lines(workflow: Workflow) -> tuple[DocumentLine, ...]:
    """The index of documents: this round's first, then earlier ones, newest first."""
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


def refusal(workflow: Workflow) -> str | None:
    """Return why the last answer to this question was refused, in words for models (S8)."""
    refusals = rejections(workflow)
    return shown(refusals[-1]) if refusals else None


def _known(workflow: Workflow) -> dict[str, Any]:
    """What prompts for planning and for choosing actions both show: the fields of `KnownPrompt`."""
    opening, earlier = workflow.current.opening, earlier_rounds(workflow)
    return {
        "user_prompt": opening.prompt,
        "language": language(workflow),
        "lists": list_lines(workflow),
        "documents": document_lines(workflow),
        "documents_left_out": earlier.documents_left_out if earlier else 0,
        "connections": opening.connections,
        "earlier": earlier.history if earlier else "",
        "earlier_left_out": earlier.history_left_out if earlier else 0,
    }


def planning_prompt(workflow: Workflow, catalog: Mapping[str, ActionSpec], template: Template) -> PlanningPrompt:
    """The prompt for planning tasks, with the actions that some of them may use."""
    return PlanningPrompt(
        template=template,
        actions=catalog_lines(plannable_actions(workflow, catalog)),
        max_steps=workflow.current.opening.max_steps,
        refusal=refusal(workflow),
        answer_schema=planning_schema(workflow, catalog),
        **_known(workflow),
    )


def task_prompt(kind: type[Chosen], workflow: Workflow, catalog: Mapping[str, ActionSpec], **more: Any) -> Chosen:
    """The prompt for choosing actions: what both modes show of the current task, and `more` fields of its own."""
    task = workflow.task
    return kind(
        **_known(workflow),
        objective=task.plan.objective,
        attempt=task.attempt,
        progress=progress(workflow),
        task_type=task.plan.task_type,
        expected_formats=task.plan.expected_formats,
        catalog=catalog_lines(allowed_actions(workflow, catalog)),
        history=history(workflow),
        improvements=task.improvements,
        refusal=refusal(workflow),
        **more,
    )
