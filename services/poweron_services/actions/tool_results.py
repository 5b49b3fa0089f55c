"""What the tool of a server gave, as the documents of a result: all of it is a stranger's, and none of it our words."""

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
from poweron_services.actions.action import Done
from poweron_services.decider.schema_check import Unfit, check_description, check_values

MAX_DOCUMENTS: Final = 50  # of the contents of one result
UNKNOWN: Final = "application/octet-stream"
NO_FIT: Final = "What it gave does not fit the schema that the server told."

_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9.+-]{1,100}")
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f/\\:]+")


def done(spec: ActionSpec, result: CallToolResult, schema: Mapping[str, Any] | None) -> Done:
    """The documents of a result, or that the tool said that it failed: what it said is a document then, too."""
    links = tuple(_links(result))
    documents = tuple(_documents(spec, result))[:MAX_DOCUMENTS]
    if result.is_error:
        return _failed(spec.name, documents)
    notes = () if _fits(spec, result, schema) else (NO_FIT,)
    return Done(ActionResult(success=True, documents=documents), notes, links=links)


def said_no(action: str, said: str) -> Done:
    """That the server answered with an error."""
    return _failed(action, (_text("error.txt", said),))


def _failed(action: str, documents: tuple[ActionDocument, ...]) -> Done:
    sentence = f"{action} answered that it failed; its own words are in its document."
    return Done(ActionResult(success=False, error=sentence, documents=documents), code="tool_failed")


def _documents(spec: ActionSpec, result: CallToolResult) -> Iterator[ActionDocument]:
    name = "error" if result.is_error else spec.name.partition(".")[2]
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    structured = result.structured_content
    if structured is not None and len(texts) == 1 and _says_the_same(texts[0], structured):
        texts = []
    if texts:
        yield _text(f"{name}.txt", "\n\n".join(texts))
    if structured is not None:
        yield ActionDocument(
            document_name=f"{name}.json", document_data=dumps(structured), mime_type="application/json"
        )
    for number, block in enumerate(result.content, 1):
        match block:
            case ImageContent() | AudioContent():
                yield _binary(f"{block.type}-{number}", block.data, block.mime_type)
            case EmbeddedResource():
                yield _resource(block, number)
    if named := [block for block in result.content if isinstance(block, ResourceLink)]:
        lines = [f"{' '.join(block.name.split())}: {' '.join(block.uri.split())}" for block in named]
        yield _text("resources.txt", "\n".join(lines))


def _says_the_same(text: str, structured: JsonValue) -> bool:
    """Whether a text is the data once more, as servers send it for clients that read texts alone."""
    read = _json(text)
    return structured in (read, {"result": read}, {"result": text})


def _resource(block: EmbeddedResource, number: int) -> ActionDocument:
    found = block.resource
    name = _name(found.uri) or f"resource-{number}"
    if isinstance(found, TextResourceContents):
        return _text(name, found.text, _media_type(found.mime_type, "text/plain"))
    return _binary(name, found.blob, found.mime_type)


def _binary(name: str, data: str, mime_type: str | None) -> ActionDocument:
    media_type = _media_type(mime_type, UNKNOWN)
    try:
        decoded = b64decode(data, validate=True)
    except (NotBase64, ValueError):
        return _text(f"{name}.txt", data)
    named = name if PurePosixPath(name).suffix else f"{name}{guess_extension(media_type) or ''}"
    return ActionDocument(document_name=named[:255], document_data=decoded, mime_type=media_type)


def _text(name: str, text: str, mime_type: str = "text/plain") -> ActionDocument:
    return ActionDocument(document_name=name[:255], document_data=writable(text).encode(), mime_type=mime_type)


def _media_type(told: str | None, otherwise: str) -> str:
    told = (told or "").partition(";")[0].strip().lower()
    return told if _TYPE.fullmatch(told) else otherwise


def _name(uri: str) -> str:
    """The last part of an address, as a name and no path."""
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        return ""
    return writable(_UNFIT.sub("_", PurePosixPath(path).name)).strip(" .")[:200]


def _links(result: CallToolResult) -> Iterator[str]:
    """Addresses of the web that the result names as resources."""
    for block in result.content:
        if isinstance(block, ResourceLink) and block.uri.startswith(("http://", "https://")):
            yield block.uri


def _json(text: str) -> JsonValue:
    try:
        read: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return read


def _fits(spec: ActionSpec, result: CallToolResult, schema: Mapping[str, Any] | None) -> bool:
    """Whether the result is as its server said it would be; a schema that cannot be used says nothing."""
    if schema is None:
        return True
    try:
        told = ActionSpec(spec.name, schema, spec.effect_class, spec.limit_ms)
        check_description(told)
    except UnusableSchema:
        return True
    given = result.structured_content
    try:
        return isinstance(given, dict) and bool(check_values(given, told) or True)
    except Unfit:
        return False
