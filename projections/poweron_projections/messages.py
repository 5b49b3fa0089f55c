"""The history as rows: one message for every event that a person would want to know about (H-03).

`fold.history` writes the text of a message, also for the prompts.
"""

from typing import NamedTuple

from poweron_events.fold.state import ChatMessage
from poweron_projections.table_spec import Json, Table, Uuid, json, optional_text, text


class MessageRow(NamedTuple):
    """One message of a workflow, identified by the `seq` of its record."""

    workflow_id: Uuid
    seq: int
    round: int
    task: int
    attempt: int
    step: int
    kind: str
    status: str
    action: str | None
    success: bool | None
    message: str
    summary: str
    documents_label: str | None
    documents: Json
    error: str
    told: str | None
    findings: Json
    links: Json
    unread: Json
    unread_left_out: int
    learnings: Json
    actor: Json | None
    time_ms: int


MESSAGES = Table("messages", MessageRow, key=("workflow_id", "seq"), keeps="newest")


def message_row(workflow_id: str, message: ChatMessage) -> MessageRow:
    """Return the row of a message of the history."""
    return MessageRow(
        workflow_id=workflow_id,
        seq=message.seq,
        round=message.round,
        task=message.task,
        attempt=message.attempt,
        step=message.step,
        kind=message.kind,
        status=message.status,
        action=message.action,
        success=message.success,
        message=text(message.message),
        summary=text(message.summary),
        documents_label=optional_text(message.documents_label),
        documents=json(message.documents),
        error=text(message.error),
        told=optional_text(message.told),
        findings=json(message.findings),
        links=json(message.links),
        unread=json(message.unread),
        unread_left_out=message.unread_left_out,
        learnings=json(message.learnings),
        actor=None if message.actor is None else json(message.actor),
        time_ms=message.time_ms,
    )
