"""What becomes of a workflow beside its work: exports, erasure, retention and legal holds.

Intake writes these events on request. They are accepted in every state of a workflow and change nothing of its work.
"""

from typing import Annotated

from pydantic import Field

from poweron_events.actor import Actor
from poweron_events.event import Commitment, DocumentId, Event, FreeText, UtcTime, is_empty, is_none
from poweron_events.request import MAX_DOCUMENTS, MAX_REASON, RequestIdentity

MAX_ERASED = 1_000  # contents that one event names
HoldName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=100)]
"""The name of a legal hold, such as the number of a case."""
DocumentIds = Annotated[tuple[DocumentId, ...], Field(max_length=MAX_DOCUMENTS, exclude_if=is_empty)]


class _Retention(Event):
    """One change of how long the content of a workflow is kept: one of the fields says which."""

    until: UtcTime | None = Field(default=None, exclude_if=is_none)
    """The content is kept until then, and may be erased from then on."""
    hold: HoldName | None = Field(default=None, exclude_if=is_none)
    """The content is kept until this hold is released."""
    released: HoldName | None = Field(default=None, exclude_if=is_none)


# --- what a sender writes to `poweron.requests` ---------------------------------------------------


class RequestExport(Event):
    """A sender is about to export a workflow, and has its export recorded."""

    workflow_id: str = Field(max_length=64)
    format: str = Field(min_length=1, max_length=50)
    with_content: bool = True
    reason: FreeText = Field(default="", max_length=MAX_REASON)
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class RequestErasure(Event):
    """A sender asks for content of a workflow that has ended to be erased: that of these documents, or all of it."""

    workflow_id: str = Field(max_length=64)
    documents: DocumentIds = ()
    reason: FreeText = Field(min_length=1, max_length=MAX_REASON, pattern=r"\S")
    legal_basis: FreeText = Field(default="", max_length=MAX_REASON)
    actor: Actor | None = Field(default=None, exclude_if=is_none)


class RequestRetention(_Retention):
    """A sender asks for the content of a workflow to be kept: until a time, or until a legal hold is released."""

    workflow_id: str = Field(max_length=64)
    reason: FreeText = Field(default="", max_length=MAX_REASON)
    actor: Actor | None = Field(default=None, exclude_if=is_none)


ArchiveRequest = RequestExport | RequestErasure | RequestRetention


# --- what intake writes to `poweron.events` --------------------------------------------------------


class ArchiveEvent(Event):
    """An event beside the work of a workflow: by whom, and in answer to which request."""

    reason: FreeText = ""
    actor: Actor
    request: RequestIdentity


class WorkflowExported(ArchiveEvent):
    """The workflow was exported: its records and, `with_content`, its documents, prompts and answers."""

    format: str
    with_content: bool


class ContentErased(ArchiveEvent):
    """Content of the workflow was erased from the content store; the events that name it remain."""

    documents: DocumentIds = ()
    """The documents whose content was erased; empty if all content was, with the key of the workflow."""
    contents: tuple[Commitment, ...] = Field(default=(), max_length=MAX_ERASED, exclude_if=is_empty)
    """The names of the erased contents of these documents; not written if all content was erased."""
    legal_basis: FreeText = ""


class WorkflowRetained(ArchiveEvent, _Retention):
    """It was changed how long the content of the workflow is kept."""
