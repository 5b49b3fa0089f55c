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
        return _failed(spec.name, documents)
    notes = () if _fits(spec, result, schema) else (NO_FIT,)
    told = _beginning(documents)
    return Done(ActionResult(success=True, documents=documents), (*notes, *told), links=links)


def _beginning(documents: tuple[ActionDocument, ...]) -> Iterator[str]:
    """Yield the first lines of the first text, so that a list can be chosen from: no prompt shows the document."""
    first = next((one.document_data.decode() for one in documents if one.mime_type in TOLD), "")
    told = ""
    for line in first[: MAX_TOLD * MAX_NOTE].splitlines():
        if told and len(told) + len(line) >= MAX_NOTE:
            yield told
            told = ""
        told = f"{told}\n{line}" if told else line
    if told:
        yield told


def said_no(action: str, said: str) -> Done:
    """Return the failure for a server that answered with an error."""
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
    if isinstance(structured, dict) and [*structured.values()] == ["\n".join(texts)]:
        structured = None  # the same text again, as the only value of an object
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
    """Return whether a text only repeats the data, as servers send it for clients that read nothing but text."""
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
        read: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return read


def _fits(spec: ActionSpec, result: CallToolResult, schema: Mapping[str, Any] | None) -> bool:
    """Return whether the result matches the schema of its server; an unusable schema is ignored."""
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
