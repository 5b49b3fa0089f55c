"""Judgement of requests beside the work of a workflow: exports, erasure and retention. No clock and no await."""

from typing import Any

from poweron_events.archive_events import (
    ArchiveRequest,
    ContentErased,
    RequestErasure,
    RequestExport,
    RequestRetention,
    WorkflowExported,
    WorkflowRetained,
)
from poweron_events.fold.partial import Stub
from poweron_events.request import RequestIdentity
from poweron_events.stream import claimed_actor
from poweron_services.intake.judgement import Refusal


def archive_event(
    identity: RequestIdentity, request: ArchiveRequest, stub: Stub
) -> WorkflowExported | ContentErased | WorkflowRetained:
    """Return the answer to the request as an event, or refuse it."""
    common: dict[str, Any] = {
        "reason": request.reason,
        "actor": claimed_actor(request, identity.source),
        "request": identity,
    }
    match request:
        case RequestExport():
            return WorkflowExported(format=request.format, with_content=request.with_content, **common)
        case RequestErasure():
            if stub.is_open:
                last = len(stub.openings)
                raise Refusal("round_open", f"Round {last} is still running; wait for its end or cancel it.")
            return ContentErased(documents=request.documents, legal_basis=request.legal_basis, **common)
        case RequestRetention():
            if sum(change is not None for change in (request.until, request.hold, request.released)) != 1:
                given = "give exactly one of until, hold and released"
                raise Refusal("invalid_request", f"The request cannot be used: {given}.")
            return WorkflowRetained(until=request.until, hold=request.hold, released=request.released, **common)
