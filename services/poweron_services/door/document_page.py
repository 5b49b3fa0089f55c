"""The page behind a statement: the text of a document at one place, with the words that the statement takes from it."""

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import HTMLResponse

from poweron_events.errors import MissingContent
from poweron_projections import workflow_excerpts
from poweron_services.client.document_text import DocumentText
from poweron_services.client.erasures import erasure_of
from poweron_services.client.source_check import MARKDOWN
from poweron_services.connectors.document_reader import text_reader
from poweron_services.door.access import ContentReader
from poweron_services.door.answer_html import marked_html
from poweron_services.door.content_downloads import gone
from poweron_services.door.door_state import DoorOf, Opened
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import Problem
from poweron_services.door.query_parameters import WorkflowId
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.workflow_queries import find_workflow
from poweron_services.text.provenance import without_mark

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

MOST: Final = 60_000  # characters of a place that the page shows
PLACES: Final = 200  # links to other places


@router.get("/w/{workflow_id}/text/{document_id}")
async def document_page(
    *,
    request: Request,
    workflow_id: WorkflowId,
    document_id: Annotated[str, Path(max_length=100)],
    connections: Opened,
    door: DoorOf,
    _: ContentReader,
    place: Annotated[str, Query(max_length=300)] = "",
    mark: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006 - never changed
) -> Response:
    """Show the text of a document at a place, such as a page."""
    await find_workflow(connections, workflow_id)
    entry = await workflow_excerpts.document(connections.pool, workflow_id, document_id)
    if entry is None:
        raise Problem("not_found", f"Workflow {workflow_id} has no document {document_id!r}.", status=404)
    try:
        data = await connections.content.get(workflow_id, entry.content)
    except MissingContent:
        erasure = await erasure_of(connections.pool, workflow_id, entry.content, entry.document_id)
        raise gone(entry.document_name, erasure) from None
    async with door.busy:
        if entry.mime_type == MARKDOWN:
            markdown = without_mark(data.decode("utf-8", errors="replace"))
        else:
            markdown = await text_reader(door.settings.ocr_command)(data, entry.document_name)
        parts = await asyncio.to_thread(lambda: DocumentText.of(markdown).parts)
        text = parts.get(place, "") if place else "\n".join(parts.values())
        shown, marks = await asyncio.to_thread(marked_html, text, mark, MOST)
    return rendered(
        request,
        "document.html",
        workflow_id=workflow_id,
        document=entry,
        places=[name for name in parts if name][:PLACES],
        place=place,
        text=shown,
        marks=marks,
        wanted=mark,
        is_cut=len(text) > MOST,
    )
