"""A tool of a third-party server as an action: called as it was approved, with its results as documents.

All of its output is third-party text.
"""

import asyncio
import math
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from mimetypes import guess_extension
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from pydantic import JsonValue

from poweron_events.catalog import ActionSpec
from poweron_events.codec import dumps, writable
from poweron_events.errors import Unavailable
from poweron_events.json_schema import UnusableSchema
from poweron_events.step_events import MAX_NOTE, ActionDocument, ActionResult
from poweron_services.actions.action import Done, Failed, Order, TellProgress
from poweron_services.connectors.mcp.tool_catalog import ApprovedTool
from poweron_services.connectors.mcp.tool_server import NotCalled
from poweron_services.decider.schema_check import Unfit, check_description, check_values

if TYPE_CHECKING:
    from mcp_types import CallToolResult, EmbeddedResource

MAX_UNASKED: Final = 1_000  # unsolicited messages during a call; from this many on, a note reports them


MAX_STEPS: Final = 10**9


CALLS: Final = 2  # calls of a tool that may run again, if its server ends meanwhile


@dataclass(frozen=True, slots=True)
class ServerTool:
    """An approved tool, as an action."""

    tool: ApprovedTool
    spec: ActionSpec

    @classmethod
    def of(cls, tool: ApprovedTool) -> "ServerTool":
        """Create the action.

        Raises:
            UnusableSchema: the parameters of the tool have no usable schema.
        """
        description = tool.description
        spec = ActionSpec(
            tool.action,
            description.input_schema,
            description.effect_class,
            int(tool.server.entry.timeout * 1000),
            needs_approval=tool.needs_approval,
            digest=description.digest,
        )
        return cls(tool, spec)

    async def __call__(self, order: Order) -> Done:
        from mcp import MCPError  # noqa: PLC0415 - the SDK takes a second to import

        try:
            result, unasked = await self._call(order)
        except NotCalled as error:
            raise Failed(str(error), code=error.code) from error
        except MCPError as error:
            return self.tool.server.redaction.redacted_in(said_no(self.spec.name, error.error.message))
        outcome = await asyncio.to_thread(self._finish, result)
        flood = f"The server sent {unasked} messages that were not asked for; they were left out."
        return replace(outcome, notes=(flood, *outcome.notes)) if unasked >= MAX_UNASKED else outcome

    def _finish(self, result: "CallToolResult") -> Done:
        """Return the result as documents, without secrets; this takes time for megabytes."""
        return self.tool.server.redaction.redacted_in(done(self.spec, result, self.tool.description.output_schema))

    async def _call(self, order: Order) -> "tuple[CallToolResult, int]":
        """Call the tool, and return its result; a tool that may run again is called again if its server ended."""
        on_progress = partial(_progress, order.tell_progress)
        calls = 1 if self.spec.effect_class == "at_most_once" else CALLS
        while True:
            calls -= 1
            try:
                return await self.tool.server.call(self.tool.description, order.parameters, on_progress)
            except NotCalled:
                raise
            except Unavailable as error:
                if not calls or error.code != "tool_server_ended":
                    raise


def _progress(tell: TellProgress, done: float, total: float | None) -> None:
    """Report progress in whole steps, and ignore numbers of a server that are not finite or out of bounds."""
    if math.isfinite(done) and 0 <= done <= MAX_STEPS:
        known = total is not None and math.isfinite(total) and done <= total <= MAX_STEPS
        tell("tool_steps", int(done), int(total) if known and total is not None else None)


MAX_DOCUMENTS: Final = 50  # made from the contents of one result


MAX_TOLD: Final = 7  # notes that quote the beginning of a text


TOLD: Final = ("text/plain", "application/json")


UNKNOWN: Final = "application/octet-stream"


NO_FIT: Final = "What it gave does not fit the schema that the server told."


_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9.+-]{1,100}")


_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f/\\:]+")


def done(spec: ActionSpec, result: "CallToolResult", schema: Mapping[str, Any] | None) -> Done:
    """Return the documents of a result, or a failure if the tool reported one, with its words as a document."""
    links = tuple(_links(result))
    documents = tuple(_documents(spec, result))[:MAX_DOCUMENTS]
    if result.is_error:
        return _failure(spec.name, documents)
    notes = () if _fits(spec, result, schema) else (NO_FIT,)
    beginnings = _beginning(documents)
    return Done(ActionResult(success=True, documents=documents), (*notes, *beginnings), links=links)


def _beginning(documents: tuple[ActionDocument, ...]) -> Iterator[str]:
    """Yield the first lines of the first text, so that a model can choose from a list: no prompt shows the document."""
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


def _documents(spec: ActionSpec, result: "CallToolResult") -> Iterator[ActionDocument]:
    name = "error" if result.is_error else spec.name.partition(".")[2]
    texts = [block.text for block in result.content if block.type == "text"]
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
        match block.type:
            case "image" | "audio":
                yield _binary(f"{block.type}-{number}", block.data, block.mime_type)
            case "resource":
                yield _resource(block, number)
    if links := [block for block in result.content if block.type == "resource_link"]:
        lines = [f"{' '.join(block.name.split())}: {' '.join(block.uri.split())}" for block in links]
        yield _text("resources.txt", "\n".join(lines))


def _repeats(text: str, data: JsonValue) -> bool:
    """Return whether a text only repeats the data, as servers send it for clients that read nothing but text."""
    content = _json(text)
    return data in (content, {"result": content}, {"result": text})


def _resource(block: "EmbeddedResource", number: int) -> ActionDocument:
    from mcp_types import TextResourceContents  # noqa: PLC0415 - takes half a second to import

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


def _links(result: "CallToolResult") -> Iterator[str]:
    """Yield the web addresses that the result names as resources."""
    for block in result.content:
        if block.type == "resource_link" and block.uri.startswith(("http://", "https://")):
            yield block.uri


def _json(text: str) -> JsonValue:
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value


def _fits(spec: ActionSpec, result: "CallToolResult", schema: Mapping[str, Any] | None) -> bool:
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
