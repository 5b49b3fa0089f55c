"""The state of a workflow, as it is shown to an assistant: its end, what it wrote, or what it waits for."""

from collections.abc import Iterable

from poweron_events.event import NANO, DocumentRef
from poweron_events.fold.state import is_request_label
from poweron_projections import reader
from poweron_projections.catch_up import catch_up
from poweron_projections.entries import ApprovalEntry, DocumentEntry, WorkflowSummary
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Outcome
from poweron_services.mcp_server.tool_shapes import Status, WaitingApproval, WorkflowState, WrittenDocument

URI = "poweron://workflows/{workflow_id}/documents/{document_id}"
MAX_TOLD = 100  # documents
NEXT = {
    "running": "It goes on by itself: look again with the tool `workflow`. `poweron cancel {id}` cancels it.",
    "waiting_approval": "A person has to decide; show them `waitsFor` in full, and answer with the tool `approve`.",
    "failed": "The tool `history` shows every step.",
}


async def workflow_state(connections: Connections, workflow_id: str) -> WorkflowState:
    """Return the current state of the workflow, from rows caught up with the log.

    Raises:
        UnknownWorkflow: there is no such workflow.
        LogLost: events that the rows were built from are missing.
        Unavailable: a server cannot be reached.
    """
    await catch_up(connections.log, connections.pool)
    summary = await reader.workflow(connections.pool, workflow_id)
    if summary is None:
        raise UnknownWorkflow(workflow_id)
    waiting = await reader.approvals(connections.pool, workflow_id, limit=1)
    documents = await reader.documents(connections.pool, workflow_id)
    return _state(summary, waiting[0] if waiting else None, documents)


def _state(
    summary: WorkflowSummary, waiting: ApprovalEntry | None, documents: Iterable[DocumentEntry]
) -> WorkflowState:
    status: Status = "waiting_approval" if waiting is not None else summary.status
    results = [document for document in documents if not is_request_label(document.label)]
    return WorkflowState(
        workflow_id=summary.workflow_id,
        status=status,
        round=summary.current_round or None,
        code=summary.stopped_by if summary.status in ("failed", "cancelled") else None,
        message=summary.message or "",
        documents=written_documents(summary.workflow_id, results[-MAX_TOLD:]),
        steps=summary.steps,
        tokens=summary.tokens,
        cost_usd=summary.cost_nano_usd / NANO,
        waits_for=None if waiting is None else shown_approval(waiting),
        next=what_next(status, summary.workflow_id),
    )


def ended_state(outcome: Outcome) -> WorkflowState:
    """Return the state after a round that was waited for, or after a refused request."""
    status: Status = "refused" if outcome.refusal else outcome.status
    return WorkflowState(
        workflow_id=outcome.workflow_id,
        status=status,
        round=outcome.round,
        code=outcome.code,
        message=outcome.message,
        documents=written_documents(outcome.workflow_id, outcome.documents),
        steps=outcome.totals.steps,
        tokens=outcome.totals.input_tokens + outcome.totals.output_tokens,
        cost_usd=outcome.totals.cost_nano_usd / NANO,
        next=what_next(status, outcome.workflow_id),
    )


def running_state(workflow_id: str) -> WorkflowState:
    """Return the state of work that is in the log and has not ended."""
    return WorkflowState(workflow_id=workflow_id, status="running", next=what_next("running", workflow_id))


def what_next(status: Status, workflow_id: str) -> str:
    return NEXT.get(status, "").format(id=workflow_id)


def written_documents(workflow_id: str, documents: Iterable[DocumentRef]) -> tuple[WrittenDocument, ...]:
    return tuple(
        WrittenDocument(
            document_id=document.document_id,
            document_name=document.document_name,
            mime_type=document.mime_type,
            size=document.size,
            uri=URI.format(workflow_id=workflow_id, document_id=document.document_id),
        )
        for document in documents
    )


def shown_approval(entry: ApprovalEntry) -> WaitingApproval:
    return WaitingApproval(approval_id=approval_id(entry), **entry.model_dump(include=_SHOWN_FIELDS))


def approval_id(entry: ApprovalEntry) -> str:
    """Return what an answer is bound to: the step, and the hash of its parameters."""
    return f"{entry.round}.{entry.task}.{entry.attempt}.{entry.step}-{entry.parameters_sha256}"


_SHOWN_FIELDS = {"action", "objective", "parameters", "asked", "expires"}
