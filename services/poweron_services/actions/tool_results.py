"""The output of a server's tool, as the documents of a result: all of it is third-party text, none of it ours."""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from mimetypes import guess_extension
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import JsonValue

from poweron_events.catalog import ActionSpec
from poweron_events.codec import dumps, writable
from poweron_events.execution import ActionDocument, ActionResult
from poweron_events.json_schema import UnusableSchema
from poweron_events.observation import MAX_NOTE
from poweron_services.actions.action import Done
from poweron_services.decider.schema_check import Unfit, check_description, check_values

MAX_DOCUMENTS: Final = 50  # made from the contents of one result
MAX_TOLD: Final = 7  # notes that quote the beginning of a text
TOLD: Final = ("text/plain", "application/json")
UNKNOWN: Final = "application/octet-stream"
NO_FIT: Final = "What it gave does not fit the schema that the server told."

_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9.+-]{1,100}")
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f/\\:]+")


def done(spec: ActionSpec, result: CallToolResult, schema: Mapping[str, Any] | None) -> Done:
    """Return the documents of a result, or a failure if the tool reported one, with its words as a document."""
    links = tuple(_links(result))
    documents = tuple(_documents(spec, result))[:MAX_DOCUMENTS]
    if result.is_error:
        return _failure(spec.name, documents)
    notes = () if _fits(spec, result, schema) else (NO_FIT,)
    beginnings = _beginning(documents)
    return Done(ActionResult(success=True, documents=documents), (*notes, *beginnings), links=links)


def _beginning(documents: tuple[ActionDocument, ...]) -> Iterator[str]:
    """Yield the first lines of the first text, so that a list can be chosen from: no prompt shows the document."""
    first = next((document.document_data.decode() for document in documents if document.mime_type in TOLD), "")
    piece = ""
    for line in first[: MAX_TOLD * MAX_NOTE].splitlines():
        if piece and len(piece) + len(line) >= MAX_NOTE:
            yield piece
            piece = ""
        piece = f"{piece}\n{line}" if piece else line
    if piece:
        yield piece


def said_no(action: str, message: str) -> Done:
    """Return the failure for a server that answered with an error."""
    return _failure(action, (_text("error.txt", message),))


def _failure(action: str, documents: tuple[ActionDocument, ...]) -> Done:
    sentence = f"{action} answered that it failed; its own words are in its document."
    return Done(ActionResult(success=False, error=sentence, documents=documents), code="tool_failed")


def _documents(spec: ActionSpec, result: CallToolResult) -> Iterator[ActionDocument]:
    name = "error" if result.is_error else spec.name.partition(".")[2]
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    data = result.structured_content
    if data is not None and len(texts) == 1 and _repeats(texts[0], data):
        texts = []
    if isinstance(data, dict) and [*data.values()] == ["\n".join(texts)]:
        data = None  # the same text again, as the only value of an object
    if texts:
        yield _text(f"{name}.txt", "\n\n".join(texts))
    if data is not None:
        yield ActionDocument(document_name=f"{name}.json", document_data=dumps(data), mime_type="application/json")
    for number, block in enumerate(result.content, 1):
        match block:
            case ImageContent() | AudioContent():
                yield _binary(f"{block.type}-{number}", block.data, block.mime_type)
            case EmbeddedResource():
                yield _resource(block, number)
    if links := [block for block in result.content if isinstance(block, ResourceLink)]:
        lines = [f"{' '.join(block.name.split())}: {' '.join(block.uri.split())}" for block in links]
        yield _text("resources.txt", "\n".join(lines))


def _repeats(text: str, data: JsonValue) -> bool:
    """Return whether a text only repeats the data, as servers send it for clients that read nothing but text."""
    content = _json(text)
    return data in (content, {"result": content}, {"result": text})


def _resource(block: EmbeddedResource, number: int) -> ActionDocument:
    resource = block.resource
    name = _name(resource.uri) or f"resource-{number}"
    if isinstance(resource, TextResourceContents):
        return _text(name, resource.text, _media_type(resource.mime_type, "text/plain"))
    return _binary(name, resource.blob, resource.mime_type)


def _binary(name: str, data: str, mime_type: str | None) -> ActionDocument:
    media_type = _media_type(mime_type, UNKNOWN)
    try:
        content = b64decode(data, validate=True)
    except (NotBase64, ValueError):
        return _text(f"{name}.txt", data)
    file_name = name if PurePosixPath(name).suffix else f"{name}{guess_extension(media_type) or ''}"
    return ActionDocument(document_name=file_name[:255], document_data=content, mime_type=media_type)


def _text(name: str, text: str, mime_type: str = "text/plain") -> ActionDocument:
    return ActionDocument(document_name=name[:255], document_data=writable(text).encode(), mime_type=mime_type)


def _media_type(media_type: str | None, otherwise: str) -> str:
    media_type = (media_type or "").partition(";")[0].strip().lower()
    return media_type if _TYPE.fullmatch(media_type) else otherwise


def _name(uri: str) -> str:
    """Return the last part of an address, as a name without a path."""
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        return ""
    return writable(_UNFIT.sub("_", PurePosixPath(path).name)).strip(" .")[:200]


def _links(result: CallToolResult) -> Iterator[str]:
    """Yield the web addresses that the result names as resources."""
    for block in result.content:
        if isinstance(block, ResourceLink) and block.uri.startswith(("http://", "https://")):
            yield block.uri


def _json(text: str) -> JsonValue:
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value


def _fits(spec: ActionSpec, result: CallToolResult, schema: Mapping[str, Any] | None) -> bool:
    """Return whether the result matches the schema of its server; an unusable schema is ignored."""
    if schema is None:
        return True
    try:
        shape = ActionSpec(spec.name, schema, spec.effect_class, spec.limit_ms)
        check_description(shape)
    except UnusableSchema:
        return True
    content = result.structured_content
    try:
        return isinstance(content, dict) and bool(check_values(content, shape) or True)
    except Unfit:
        return False
