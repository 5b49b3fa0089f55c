"""The documents of a workflow as rows: those of its requests and those that its actions produced."""

from typing import NamedTuple, assert_never

from poweron_events.archive_events import ArchiveEvent
from poweron_events.envelope import Recorded
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Workflow, request_label
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    PolicyApplied,
    RequestRefused,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    WorkflowRequested,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    DeadlinePassed,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_projections.table_spec import Json, Table, Uuid, json, text


class DocumentRow(NamedTuple):
    """A document under the label that names it, in the order of its event."""

    workflow_id: Uuid
    seq: int
    position: int
    round: int
    label: str
    document_id: str
    document_name: str
    mime_type: str
    size: int
    content: str
    page: Json | None
    sources: Json
    by_model: bool
    time_ms: int


DOCUMENTS = Table("documents", DocumentRow, key=("workflow_id", "seq", "position"))


def document_rows(recorded: Recorded, after: Workflow) -> list[DocumentRow]:
    """Return the documents that an accepted event adds."""
    event = recorded.envelope.event
    match event:
        case WorkflowRequested() | RoundRequested():
            return _rows(recorded, after, request_label(event.round), event.documents)
        case ActionCompleted():
            return _rows(recorded, after, event.result_label, event.documents)
        case (
            ActionSelected()  # those of every step first: most events are compared with few classes
            | ParametersSet()
            | ActionStarted()
            | ObservationRecorded()
            | RefinementDecided()
            | None
            | CancellationRequested()
            | RoundPaused()
            | RoundResumed()
            | RulesChanged()
            | PolicyApplied()
            | InstanceStarted()
            | InstanceEnded()
            | RequestRefused()
            | DocumentErased()
            | ArchiveEvent()
            | CallReserved()
            | TasksPlanned()
            | ActionsPlanned()
            | SelectionRejected()
            | ParametersRejected()
            | ApprovalRequested()
            | ApprovalGranted()
            | ApprovalDenied()
            | ApprovalEscalated()
            | ParametersChanged()
            | TaskReviewed()
            | AnswerRejected()
            | StageFailed()
            | BudgetRequested()
            | BudgetGranted()
            | BudgetDenied()
            | DeadlinePassed()
            | RoundCompleted()
            | RoundFailed()
            | RoundCancelled()
        ):
            return []
        case _:
            assert_never(event)


def _rows(recorded: Recorded, after: Workflow, label: str, documents: tuple[DocumentRef, ...]) -> list[DocumentRow]:
    return [
        DocumentRow(
            workflow_id=after.id,
            seq=after.seq - 1,
            position=position,
            round=after.current.number,
            label=text(label),
            document_id=text(document.document_id),
            document_name=text(document.document_name),
            mime_type=text(document.mime_type),
            size=document.size,
            content=document.content,
            page=json(document.page) if document.page else None,
            sources=json(document.sources),
            by_model=document.by_model,
            time_ms=recorded.time_ms,
        )
        for position, document in enumerate(documents)
    ]
