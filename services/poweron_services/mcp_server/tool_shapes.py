"""The arguments and results of the tools: each class is a schema that is shown to the assistant.

The state of a workflow is shown as its end, what it wrote, or what it waits for.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from poweron_events.codes import Code
from poweron_events.event import NANO, DocumentRef, Model
from poweron_events.fold.state import is_request_label
from poweron_events.request import MAX_DOCUMENTS, MAX_PROMPT, MAX_REASON, MAX_STEPS
from poweron_projections import open_questions, reader, workflow_excerpts
from poweron_projections.entries import ApprovalEntry, DocumentEntry, HistoryEntry, WorkflowSummary
from poweron_projections.verify import catch_up
from poweron_services.client.approve import AnswerStatus, Decision
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Outcome

MAX_GIVEN_TEXT = 10_000_000  # characters of a document that is passed in the call itself

WorkflowId = Annotated[str, Field(description="The id of a workflow, as `ask` gave it.")]
Format = Literal["markdown", "text", "html", "json", "csv", "docx", "pdf", "xlsx"]


class DocumentByPath(Model):
    """A file on this machine, below an allowed folder."""

    path: str = Field(min_length=1, max_length=4_000, description="Below a folder that the server was allowed.")


class DocumentAsText(Model):
    """A document passed as text."""

    name: str = Field(min_length=1, max_length=200, description="Its file name, such as `notes.md`.")
    text: str = Field(max_length=MAX_GIVEN_TEXT)


class DocumentAsBytes(Model):
    """A document passed as bytes."""

    name: str = Field(min_length=1, max_length=200, description="Its file name, such as `offer.pdf`.")
    base64: str = Field(max_length=MAX_GIVEN_TEXT)


class AskArguments(Model):
    prompt: str = Field(min_length=1, max_length=MAX_PROMPT, pattern=r"\S", description="What is asked for.")
    documents: tuple[DocumentByPath | DocumentAsText | DocumentAsBytes, ...] = Field(
        default=(), max_length=MAX_DOCUMENTS, description="What is to be read, by path or by value."
    )
    workflow_id: str | None = Field(default=None, description="Follow up on this workflow, whose round has ended.")
    wait_seconds: int = Field(
        default=300, ge=0, le=3_600, description="How long to wait for the end; 0 returns at once. The work goes on."
    )
    formats: tuple[Format, ...] = Field(default=(), max_length=8, description="The formats that the result is to have.")
    language: str | None = Field(default=None, max_length=35, description="Of the answer, such as `de`.")
    max_steps: int = Field(default=5, ge=1, le=MAX_STEPS, description="Steps of a task.")
    max_tokens: int | None = Field(default=None, ge=1, le=2**31 - 1, description="Of models, for this request.")
    max_cost_usd: float | None = Field(default=None, ge=0, le=10_000, description="For models, for this request.")


class WorkflowArguments(Model):
    workflow_id: WorkflowId


class HistoryArguments(Model):
    workflow_id: WorkflowId
    limit: int = Field(default=20, ge=1, le=100, description="Entries of the page.")
    before: int | None = Field(default=None, ge=0, le=2**31 - 1, description="`older` of the page before.")


class ApproveArguments(Model):
    workflow_id: WorkflowId
    approval_id: str = Field(max_length=200, description="As `waitsFor.approvalId` says: the step and its parameters.")
    decision: Decision
    reason: str = Field(default="", max_length=MAX_REASON, description="Why; a denial needs one.")


class WrittenDocument(Model):
    """A document that the work produced."""

    document_id: str
    document_name: str
    mime_type: str
    size: int
    uri: str = Field(description="The resource by which it can be read.")


class WaitingApproval(Model):
    """The action that waits for a person, with everything there is to decide on."""

    approval_id: str
    action: str
    objective: str
    parameters: JsonValue
    asked: str
    expires: str


Status = Literal["running", "paused", "waiting_approval", "completed", "failed", "cancelled", "refused", "never_opened"]


class WorkflowState(Model):
    """The state of a workflow."""

    workflow_id: str
    status: Status
    round: int | None = None
    code: Code | None = Field(default=None, description="Why it failed or was refused.")
    message: str = ""
    documents: tuple[WrittenDocument, ...] = ()
    steps: int = 0
    tokens: int = 0
    cost_usd: float = 0
    waits_for: WaitingApproval | None = None
    next: str = Field(default="", description="What can be done now.")


class HistoryPage(Model):
    """A page of the audit trail, newest first."""

    workflow_id: str
    entries: tuple[HistoryEntry, ...]
    older: int | None = Field(description="`before` of the next page; null where there is none.")


class ApprovalState(Model):
    """The outcome of an answer."""

    workflow_id: str
    status: AnswerStatus
    code: Code | None
    detail: str


URI = "poweron://workflows/{workflow_id}/documents/{document_id}"
MAX_TOLD = 100  # documents
NEXT = {
    "running": "It goes on by itself: look again with the tool `workflow`. `poweron cancel {id}` cancels it.",
    "paused": "Nothing new begins until a person resumes it: `poweron resume {id}`.",
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
    waiting = await open_questions.approvals(connections.pool, workflow_id, limit=1)
    documents = await workflow_excerpts.documents(connections.pool, workflow_id)
    return _state(summary, waiting[0] if waiting else None, documents)


def _state(
    summary: WorkflowSummary, waiting: ApprovalEntry | None, documents: Iterable[DocumentEntry]
) -> WorkflowState:
    is_waiting = waiting is not None and summary.status != "paused"
    status: Status = "waiting_approval" if is_waiting else summary.status
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
