"""The arguments and results of the tools: each class is a schema that is shown to the assistant."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from poweron_events.codes import Code
from poweron_events.event import Model
from poweron_events.request import MAX_DOCUMENTS, MAX_PROMPT, MAX_REASON, MAX_STEPS
from poweron_projections.entries import HistoryEntry
from poweron_services.client.approve import Decision

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


Status = Literal["running", "waiting_approval", "completed", "failed", "cancelled", "refused", "never_opened"]


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
    status: Literal["approved", "denied", "refused"]
    code: Code | None
    detail: str
