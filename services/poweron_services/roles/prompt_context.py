"""What prompts show of a workflow: its documents, its catalog, its history and the progress of its criteria.

Templates cut them to their budgets. An unusable answer is recorded and shown to the model with the reason; once no
model may be asked again, the stage fails or code decides.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar

from poweron_events.catalog import ActionSpec
from poweron_events.codes import FOR_PEOPLE, Code
from poweron_events.errors import Refused
from poweron_events.event import CriterionProgress, ModelCall
from poweron_events.fold.history import item_reference, reverse_chronological
from poweron_events.fold.state import (
    ChatMessage,
    Rejection,
    Workflow,
    is_request_label,
    may_ask_again,
    rejections,
    step_place,
)
from poweron_events.round_events import AnswerRejected
from poweron_services.decider.answer_schemas import planning_schema
from poweron_services.decider.defaults import language
from poweron_services.decider.model_reasons import reason_for_models
from poweron_services.decider.references import documents_at_hand, earlier_rounds
from poweron_services.decider.validation import allowed_actions, plannable_actions
from poweron_services.models.prompts import CatalogLine, DocumentLine, ListLine, PlanningPrompt, TaskPrompt, Template

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


def progress(workflow: Workflow) -> tuple[CriterionProgress, ...]:
    """How far the task's criteria are met so far."""
    known = {criterion.criterion: criterion for criterion in workflow.task.progress}
    return tuple(
        known.get(criterion) or CriterionProgress(criterion=criterion, met=False)
        for criterion in workflow.task.plan.success_criteria
    )


def updated_progress(workflow: Workflow, answered: Sequence[CriterionProgress]) -> tuple[CriterionProgress, ...]:
    """The task's criteria, updated by the answer, which cannot add or rename criteria."""
    by_name = {criterion.criterion: criterion for criterion in answered}
    return tuple(by_name.get(criterion.criterion, criterion) for criterion in progress(workflow))


MAX_REASON = 2_000  # characters


NOT_AS_IT_MUST: Final = "The model did not answer as it must."


class Reasons(TypedDict):
    """The fields of a rejection that say why."""

    reason: str
    detail: str
    code: Code


def reasons(refusal: Refused) -> Reasons:
    """Say why an answer cannot be used, as the fields of its rejection."""
    return {"reason": str(refusal)[:MAX_REASON], "detail": refusal.detail[:MAX_REASON], "code": refusal.code}


def answer_rejected(workflow: Workflow, refusal: Refused, call: ModelCall) -> AnswerRejected:
    """The rejection of the answer to the current stage."""
    return AnswerRejected(
        **step_place(workflow),
        try_=len(rejections(workflow)) + 1,
        stage=workflow.phase,  # type: ignore[arg-type] # the stages that ask are those of this event
        **reasons(refusal),
        model_call=call,
    )


def shown(rejection: Rejection) -> str:
    """What a model sees of a rejection (S8)."""
    return reason_for_models(rejection.reason, rejection.code)


def final_rejection(workflow: Workflow) -> str | None:
    """Return why the last answer could not be used if the model is not asked again, in words for models (S8).

    The text enters the history, which later prompts show; `rejected_in_full` gives users more detail.
    """
    refusals = rejections(workflow)
    return None if may_ask_again(refusals) else f"{NOT_AS_IT_MUST} {shown(refusals[-1])}"


def rejected_in_full(workflow: Workflow) -> str:
    """Tell users which model gave the round's last unusable answer, and why it could not be used."""
    task = workflow.current.task
    refusals = [*workflow.current.rejected, *([task.refused] if task and task.refused else [])]
    if not refusals or (call := refusals[-1].model_call) is None:
        return ""
    reason, code = refusals[-1].reason, refusals[-1].code
    detail = f" {reason}" if code in FOR_PEOPLE else ""
    return f"The answer came from the model {call.provider}:{call.model}.{detail}"
