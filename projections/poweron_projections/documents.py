"""The documents of a workflow as rows: those of its requests and those that its actions produced."""

from typing import NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.event import DocumentRef
from poweron_events.execution import ActionCompleted
from poweron_events.fold.state import Workflow, request_label
from poweron_events.request import RoundRequested, WorkflowRequested
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
    match recorded.envelope.event:
        case WorkflowRequested() | RoundRequested() as event:
            return _rows(recorded, after, request_label(event.round), event.documents)
        case ActionCompleted() as event:
            return _rows(recorded, after, event.result_label, event.documents)
        case _:
            return []


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
