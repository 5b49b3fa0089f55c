"""Judgement of requests beside the work of a workflow: exports, erasure and retention. No clock and no await."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from poweron_events.archive_events import (
    MAX_ERASED,
    ArchiveRequest,
    ContentErased,
    RequestErasure,
    RequestExport,
    RequestRetention,
    WorkflowExported,
    WorkflowRetained,
)
from poweron_events.content_references import content_references, document_references
from poweron_events.envelope import parse_time_ms
from poweron_events.event import Commitment, DocumentRef, Event
from poweron_events.fold.partial import Stub
from poweron_events.fold.retention import Retention, retention_after
from poweron_events.request import MAX_DOCUMENTS, RequestIdentity
from poweron_events.stream import claimed_actor
from poweron_services.intake.judgement import Refusal


def archive_event(
    identity: RequestIdentity, request: ArchiveRequest, retention: Retention
) -> WorkflowExported | ContentErased | WorkflowRetained:
    """Return the answer to the request as an event, or refuse it; an erasure of documents names no contents yet."""
    common: dict[str, Any] = {
        "reason": request.reason,
        "actor": claimed_actor(request, identity.source),
        "request": identity,
    }
    match request:
        case RequestExport():
            return WorkflowExported(format=request.format, with_content=request.with_content, **common)
        case RequestErasure():
            return ContentErased(documents=request.documents, legal_basis=request.legal_basis, **common)
        case RequestRetention():
            _check_retention(request, retention)
            event = WorkflowRetained(until=request.until, hold=request.hold, released=request.released, **common)
            _check_reason(event, retention)
            return event


def check_erasure(stub: Stub, retention: Retention, now_ms: int, *, is_stored: bool) -> None:
    """Refuse to erase what is in use, must be kept, or was erased already, unless a backup has brought it back."""
    if stub.is_open:
        last = len(stub.openings)
        raise Refusal("round_open", f"Round {last} is still running; wait for its end or cancel it.")
    until = "" if retention.is_over(now_ms) else f"The content must be kept until {retention.until}."
    if retention.holds:
        names = ", ".join(map(repr, retention.holds))
        raise Refusal("on_hold", f"The content is on legal hold: {names}. {until}".strip())
    if until:
        raise Refusal("retention_not_over", until)
    if retention.is_erased and not is_stored:
        raise Refusal("nothing_to_erase", "All content of the workflow was erased already.")


def check_not_erased(workflow: str, retention: Retention) -> None:
    """Refuse to go on with a workflow whose content was erased."""
    if retention.is_erased:
        raise Refusal("content_erased", f"The content of workflow {workflow} was erased; start a new workflow.")


def with_contents(
    erased: ContentErased, events: Iterable[Event], listed: Iterable[DocumentRef], before: Collection[Commitment]
) -> ContentErased:
    """Return the event with the contents of its documents, and with the other documents that have these contents.

    Args:
        erased: the erasure of some documents.
        events: the accepted events of the workflow.
        listed: the documents for which these events have no room.
        before: the contents that were erased already.
    """
    own = dict[str, set[Commitment]]()
    names = dict[str, set[Commitment]]()
    for document in (*(each for event in events for each in document_references(event)), *listed):
        own.setdefault(document.document_id, set()).add(document.content)
        names.setdefault(document.document_id, set()).update(ref.name for ref in content_references(document))
    for document_id in erased.documents:
        if document_id not in names:
            raise Refusal("unknown_document", f"The workflow has no document {document_id!r}.")
    contents = {name for document_id in erased.documents for name in names[document_id]}
    if contents <= {*before}:
        raise Refusal("nothing_to_erase", "The content of these documents was erased already.")
    twins = _twins(own, contents, erased.documents)
    documents = (*erased.documents, *twins)
    if len(contents) > MAX_ERASED or len(documents) > MAX_DOCUMENTS:
        raise Refusal("invalid_request", "The request cannot be used: erase fewer documents at once.")
    return erased.model_copy(update={"documents": documents, "contents": tuple(sorted(contents))})


def _twins(
    own: Mapping[str, Collection[Commitment]], contents: Collection[Commitment], documents: Collection[str]
) -> list[str]:
    """Return the other documents whose bytes are among these contents."""
    return [
        document_id
        for document_id, names in own.items()
        if document_id not in documents and not {*names}.isdisjoint(contents)
    ]


def _check_retention(request: RequestRetention, retention: Retention) -> None:
    if sum(change is not None for change in (request.until, request.hold, request.released)) != 1:
        given = "give exactly one of until, hold and released"
        raise Refusal("invalid_request", f"The request cannot be used: {given}.")
    if request.until is not None:
        try:
            parse_time_ms(request.until)
        except (ValueError, OverflowError) as error:
            raise Refusal("invalid_request", f"The request cannot be used: {request.until} is not a time.") from error
    if retention.is_erased and request.released is None:
        raise Refusal("content_erased", "All content of the workflow was erased, so nothing is left to keep.")
    if request.released is not None and request.released not in retention.holds:
        raise Refusal("no_such_hold", f"The workflow is not on the legal hold {request.released!r}.")


def _check_reason(event: WorkflowRetained, before: Retention) -> None:
    """Refuse to end a protection of the content without a reason."""
    if event.reason.strip() or not retention_after(before, event).ends_before(before):
        return
    what = (
        f"the hold {event.released!r} is released" if event.released else f"it is kept no longer until {before.until}"
    )
    raise Refusal("invalid_request", f"The request cannot be used: give a reason why {what}.")
