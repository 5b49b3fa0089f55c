"""The results of actions: what is stored of them, with retries within a time limit, and the event that records them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain, repeat, takewhile
from typing import Final, NamedTuple, TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError

from poweron_events.catalog import READING
from poweron_events.codec import dumps, writable
from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_events.event import MAX_SOURCES, DocumentRef, FailedCalls, ModelCall, UnreadDocument, Url
from poweron_events.fold.state import Workflow, result_label, step_place
from poweron_events.retry import Failure, retry
from poweron_events.step_events import (
    MAX_COVERED,
    MAX_LINKS,
    MAX_PREVIEWS,
    MAX_UNREAD,
    ActionCompleted,
    ActionDocument,
    ActionResult,
    Outcome,
    PageFindings,
)
from poweron_services.actions.action import Done, Origin
from poweron_services.decider.size_limits import (
    COVERAGE_BUDGET,
    DOCUMENTS_BUDGET,
    ERROR_BUDGET,
    FINDINGS_BUDGET,
    LINKS_BUDGET,
    MAX_CALLS,
    NOTES_BUDGET,
    SOURCES_BUDGET,
    UNREAD_BUDGET,
    fitting,
    fitting_calls,
    fitting_text,
)
from poweron_services.text.provenance import document_id

log = structlog.get_logger()

SLOWEST = 1_000_000  # bytes per second
STORE_TIMEOUT = 20.0  # seconds to wait for a content store that does not answer

Answer = TypeVar("Answer")


async def retry_content(workflow_id: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask the content store until it answers, and return the answer."""

    def failed(failure: Failure) -> None:
        log.warning("content_store_unavailable", error=str(failure.error), workflow_id=workflow_id)

    return await retry(ask, failed=failed)


@asynccontextmanager
async def content_time_limit(size: int = 0) -> AsyncGenerator[None, None]:
    """Limit how long the content store is asked; the limit grows with the bytes that are transferred.

    Raises:
        Unavailable: the time is over.
    """
    seconds = STORE_TIMEOUT + size / SLOWEST
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(
            f"the content store did not answer for {seconds:g} s", code="content_store_unavailable"
        ) from error


MAX_DOCUMENTS = 99  # documents of one result that its event names; if there are more, `ALL_DOCUMENTS` lists all
ALL_DOCUMENTS = "documents.json"
MAX_NOTES = 20
MAX_NOTE = 500  # characters
MAX_ERROR, MAX_DETAIL = 4_000, 2_000  # characters
NOWHERE: Final = Origin()
_URL: Final = TypeAdapter[str](Url)


def failed(
    error: str, code: Code, *, detail: str = "", notes: tuple[str, ...] = (), unread: tuple[UnreadDocument, ...] = ()
) -> Done:
    """An unsuccessful result, with the reason."""
    return Done(ActionResult(success=False, error=error), notes, unread, code, detail)


def without_result(workflow: Workflow, outcome: Outcome, error: str, code: Code) -> ActionCompleted:
    """The end of an action that produced nothing."""
    return completed(workflow, failed(error, code), outcome=outcome)


def completed(
    workflow: Workflow,
    done: Done,
    *,
    outcome: Outcome,
    documents: tuple[DocumentRef, ...] = (),
    notes: tuple[str, ...] = (),
    documents_left_out: int = 0,
    duration_ms: int = 0,
    model_calls: tuple[ModelCall, ...] = (),
    all_calls: str | None = None,
    failed_calls: tuple[FailedCalls, ...] = (),
) -> ActionCompleted:
    """The end of an action, cut to fit into its event. `documents` and `notes` are what was stored."""
    selection = workflow.step.selection
    kept_notes = fitting([writable(note)[:MAX_NOTE] for note in notes[:MAX_NOTES]], NOTES_BUDGET)
    error, unread = done.result.error, fitting(done.unread[:MAX_UNREAD], UNREAD_BUDGET)
    coverage = fitting(done.coverage[:MAX_COVERED], COVERAGE_BUDGET)
    assert selection is not None
    return ActionCompleted(
        **step_place(workflow),
        try_=workflow.step.newest_try,
        success=outcome == "done",
        outcome=outcome,
        error=fitting_text(writable(error)[:MAX_ERROR], ERROR_BUDGET) if error else None,
        detail=writable(done.detail)[:MAX_DETAIL],
        code=None if outcome == "done" else done.code or "action_failed",
        unread=unread,
        unread_left_out=len(done.unread) - len(unread),
        documents=documents,
        documents_left_out=documents_left_out,
        findings=_findings(done),
        coverage=coverage,
        coverage_left_out=len(done.coverage) - len(coverage),
        links=_links(done.links),
        result_label=result_label(workflow, selection.action),
        notes=kept_notes,
        notes_left_out=len(notes) - len(kept_notes),
        duration_ms=duration_ms,
        model_calls=fitting_calls(model_calls),
        all_calls=all_calls,
        failed_calls=failed_calls,
    )


class Stored(NamedTuple):
    """The documents and notes of a result as its event names them."""

    documents: tuple[DocumentRef, ...]
    notes: tuple[str, ...]
    documents_left_out: int = 0
    all_calls: str | None = None
    """The reference to the stored list of all calls, if the event has no room for them."""


async def store_result(
    content: ContentStore, workflow: Workflow, done: Done, calls: Sequence[ModelCall] = ()
) -> Stored:
    """Store the result's documents and calls before the event that names them is written (E-10).

    Raises:
        Unavailable: the content store does not answer.
    """
    if not done.result.documents and len(calls) <= MAX_CALLS:
        return Stored((), done.notes)
    origins = chain(done.origins, repeat(NOWHERE))
    async with content_time_limit(sum(len(document.document_data) for document in done.result.documents)):
        documents = [
            await _store(content, workflow, number, document, origin)
            for number, (document, origin) in enumerate(zip(done.result.documents, origins, strict=False), start=1)
        ]
        first_documents = fitting(documents[:MAX_DOCUMENTS], DOCUMENTS_BUDGET)
        left_out, all_calls = len(documents) - len(first_documents), await _store_calls(content, workflow, calls)
        if not left_out:
            return Stored(first_documents, done.notes, all_calls=all_calls)
        everything = dumps([document.model_dump(mode="json", by_alias=True) for document in documents])
        listing = ActionDocument(document_name=ALL_DOCUMENTS, document_data=everything, mime_type="application/json")
        index = await _store(content, workflow, len(documents) + 1, listing)
    note = f"{left_out} more documents are named in {ALL_DOCUMENTS!r} only."
    return Stored((*first_documents, index), (note, *done.notes), left_out, all_calls)


async def _store_calls(content: ContentStore, workflow: Workflow, calls: Sequence[ModelCall]) -> str | None:
    """Store the calls individually if there are more than an event lists."""
    if len(calls) <= MAX_CALLS:
        return None
    listing = dumps([call.model_dump(mode="json", by_alias=True) for call in calls])
    return await retry_content(workflow.id, partial(content.put, workflow.id, listing))


def step_name(workflow: Workflow) -> str:
    """Return how the ids of the documents begin that the current step writes."""
    return f"r{workflow.current.number}t{workflow.task.number}a{workflow.task.actions}"


async def _store(
    content: ContentStore, workflow: Workflow, number: int, document: ActionDocument, origin: Origin = NOWHERE
) -> DocumentRef:
    selection = workflow.step.selection
    assert selection is not None
    return DocumentRef(
        document_id=document_id(step_name(workflow), number),
        document_name=document.document_name,
        mime_type=document.mime_type,
        size=len(document.document_data),
        content=await retry_content(workflow.id, partial(content.put, workflow.id, document.document_data)),
        page=origin.page,
        sources=fitting(origin.sources[:MAX_SOURCES], SOURCES_BUDGET),
        by_model=origin.by_model or selection.action not in READING,
    )


def _findings(done: Done) -> tuple[PageFindings, ...]:
    """The findings for the first documents that are shown, up to the first document without any."""
    entries = takewhile(lambda entry: entry is not None, (origin.findings for origin in done.origins[:MAX_PREVIEWS]))
    return fitting([entry for entry in entries if entry is not None], FINDINGS_BUDGET)


def _links(links: Sequence[str]) -> tuple[str, ...]:
    """The first addresses that fit into an event, each once."""
    return fitting([link for link in dict.fromkeys(links) if _is_url(link)][:MAX_LINKS], LINKS_BUDGET)


def _is_url(link: str) -> bool:
    try:
        _URL.validate_python(link)
    except ValidationError:
        return False
    return True
