"""Downloads of contents: documents, prompts and answers, as attachments that a browser does not run."""

import re
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from poweron_events.errors import MissingContent
from poweron_projections import record_queries
from poweron_projections.entries import EventEntry
from poweron_projections.record_queries import NamedContent
from poweron_services.client.connect import Connections
from poweron_services.client.erasures import erased_words, erasure_of
from poweron_services.door.access import ContentReader
from poweron_services.door.door_state import Opened
from poweron_services.door.json_responses import cache_headers, is_held
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import WorkflowId
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.workflow_queries import find_workflow

router = APIRouter(tags=["content"], route_class=QueryRoute)

BYTES: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,100}")
_UNSAFE: Final = re.compile(r"[^\w\-. ()\[\]&+,']")
ContentName = Annotated[
    str,
    Path(
        description="The name of a content, as documents and model calls give it.",
        pattern=r"^[0-9a-f]{64}$",
        examples=["0c" * 32],
    ),
]


@router.get(
    "/workflows/{workflow_id}/content/{name}",
    response_class=Response,
    responses={200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (BYTES, "*/*")}}},
)
async def download_content(
    *,
    request: Request,
    workflow_id: WorkflowId,
    name: ContentName,
    connections: Opened,
    _: ContentReader,
    document: Annotated[
        str | None,
        Query(description="The id of the document that names the file, if several have this content.", max_length=100),
    ] = None,
) -> Response:
    """Download a document, a prompt or an answer; 410 if it was erased."""
    await find_workflow(connections, workflow_id)
    named = await record_queries.named_content(connections.pool, workflow_id, name, document)
    if named is None:
        raise Problem("not_found", f"No event of workflow {workflow_id} refers to this content.")
    try:
        size = await connections.content.size(workflow_id, name)
    except MissingContent:
        raise await _gone(connections, workflow_id, named, name) from None
    media_type = named.media_type if _MEDIA_TYPE.fullmatch(named.media_type) else BYTES
    headers = cache_headers(name) | {
        "Content-Length": str(size),
        "Content-Disposition": _attachment(named.name),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    if is_held(request, headers):
        del headers["Content-Length"]
        return Response(status_code=304, headers=headers)

    return StreamingResponse(connections.content.pieces(workflow_id, name), headers=headers, media_type=media_type)


def _attachment(name: str) -> str:
    safe = _UNSAFE.sub("_", name)
    plain = safe.encode("ascii", "replace").decode().replace("?", "_")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='')}"


async def _gone(connections: Connections, workflow_id: str, content: NamedContent, name: str) -> Problem:
    """Say that a content is gone, and why if an event says it."""
    erasure = await erasure_of(connections.pool, workflow_id, name, content.document_id)
    return gone(content.name, erasure)


def gone(name: str, erasure: EventEntry | None) -> Problem:
    """Say that a content is gone, and when and why it was erased if an event says so."""
    if erasure is None or not isinstance(erasure.data, dict):
        sentence = f"The content store no longer holds {name!r}: it was erased, or lost. Its events remain."
        return Problem("document_missing", sentence, status=410)
    facts: dict[str, Any] = {name: erasure.data.get(name, "") for name in ("reason", "legalBasis")}
    sentence = f"{name!r} {erased_words(erasure)}"
    return Problem("document_missing", sentence, status=410, erased=erasure.time, **facts)
