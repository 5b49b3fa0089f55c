"""What is sent over the protocol: results as text and structure, documents as resources, errors with codes."""

import base64
from collections.abc import Sequence
from typing import Final

import mcp_types as types
from mcp import MCPError

from poweron_events.codec import is_uuid
from poweron_events.errors import MissingContent
from poweron_events.event import Model
from poweron_projections import reader
from poweron_projections.entries import DocumentEntry
from poweron_services.client.connect import Connections
from poweron_services.mcp_server.tool_shapes import WrittenDocument
from poweron_services.mcp_server.workflow_state import URI

MAX_EMBEDDED: Final = 64_000  # bytes of a text that is embedded in a result
MAX_EMBEDDED_ALL: Final = 200_000  # bytes of all embedded texts
MAX_READ: Final = 10_000_000  # bytes of a document that can be read as a resource
_TEXT: Final = frozenset({"application/json", "application/xml"})
_BEGIN, _, _REST = URI.partition("{workflow_id}")
_MIDDLE, _, _ = _REST.partition("{document_id}")


def result(
    content: Model, documents: Sequence[types.ContentBlock] = (), *, is_error: bool = False
) -> types.CallToolResult:
    """Build the result of a tool, which is also JSON in a text, for clients without support for structure."""
    return types.CallToolResult(
        content=[types.TextContent(text=content.model_dump_json(by_alias=True)), *documents],
        structured_content=content.model_dump(mode="json", by_alias=True),
        is_error=is_error,
    )


def error_result(sentence: str, code: str | None) -> types.CallToolResult:
    """Build the error of a tool, as the commands print it with `--json`."""
    content = {"error": sentence} | ({"code": code} if code else {})
    return types.CallToolResult(
        content=[types.TextContent(text=_json(content))], structured_content=content, is_error=True
    )


def _json(content: dict[str, str]) -> str:
    import orjson  # noqa: PLC0415 - only where something is wrong

    return orjson.dumps(content).decode()


async def document_blocks(
    connections: Connections, workflow_id: str, documents: Sequence[WrittenDocument]
) -> list[types.ContentBlock]:
    """Return the documents: short texts embedded, the others as links by which they can be read."""
    known = {item.document_id: item for item in await reader.documents(connections.pool, workflow_id)}
    room, blocks = MAX_EMBEDDED_ALL, list[types.ContentBlock]()
    for document in documents:
        entry = known.get(document.document_id)
        if entry is not None and _is_text(document.mime_type) and document.size <= min(room, MAX_EMBEDDED):
            room -= document.size
            blocks.append(await _embed(connections, workflow_id, document, entry))
        else:
            blocks.append(_link(document))
    return blocks


async def _embed(
    connections: Connections, workflow_id: str, document: WrittenDocument, entry: DocumentEntry
) -> types.ContentBlock:
    try:
        data = await connections.content.get(workflow_id, entry.content)
    except MissingContent:
        return _link(document)
    return types.EmbeddedResource(resource=_contents(document.uri, document.mime_type, data))


def _link(document: WrittenDocument) -> types.ResourceLink:
    return types.ResourceLink(
        name=document.document_name, uri=document.uri, mime_type=document.mime_type, size=document.size
    )


async def read_document(connections: Connections, uri: str) -> types.ReadResourceResult:
    """Read a document by its address.

    Raises:
        MCPError: there is no such document, it is gone, or it is too large.
    """
    workflow_id, _, document_id = uri.removeprefix(_BEGIN).partition(_MIDDLE)
    known = await reader.documents(connections.pool, workflow_id) if is_address(uri) else []
    entry = next((entry for entry in known if entry.document_id == document_id), None)
    if entry is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no document {uri[:300]!r}.", {"code": "unknown_reference"})
    if entry.size > MAX_READ:
        larger = f"{entry.document_name!r} has {entry.size:,} bytes, {MAX_READ:,} can be read here. "
        advice = f"`poweron documents {workflow_id} --output DIR` writes it to a folder."
        raise MCPError(types.INVALID_PARAMS, larger + advice, {"code": "document_too_large"})
    try:
        data = await connections.content.get(workflow_id, entry.content)
    except MissingContent as error:
        message = f"{entry.document_name!r} is not in the content store any more."
        raise MCPError(types.INVALID_PARAMS, message, {"code": error.code}) from error
    return types.ReadResourceResult(contents=[_contents(uri, entry.mime_type, data)])


def is_address(uri: str) -> bool:
    """Return whether this is the address of one of our documents, written as we write it."""
    workflow_id, _, document_id = uri.removeprefix(_BEGIN).partition(_MIDDLE)
    return is_uuid(workflow_id) and uri == URI.format(workflow_id=workflow_id, document_id=document_id)


def _contents(uri: str, mime_type: str, data: bytes) -> types.TextResourceContents | types.BlobResourceContents:
    if _is_text(mime_type):
        return types.TextResourceContents(uri=uri, mime_type=mime_type, text=data.decode(errors="replace"))
    return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=base64.b64encode(data).decode())


def _is_text(mime_type: str) -> bool:
    return mime_type.startswith("text/") or mime_type.partition(";")[0] in _TEXT
