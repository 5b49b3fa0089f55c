"""Reading the body of a command, JSON or a form with files: files go to disk, and nothing is read beyond the limits."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import orjson
from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from poweron_events.codec import dumps
from poweron_events.event import Model
from poweron_events.request import StoredDocument
from poweron_events.validation_messages import explain
from poweron_services.door.door_state import DoorState
from poweron_services.door.form_parser import (
    CUT_OFF,
    FORM,
    MAX_FILES,
    LimitedFormParser,
    media_type_of,
    parsed,
    unreadable,
)
from poweron_services.door.json_responses import JSON
from poweron_services.door.problems import Problem

MAX_JSON: Final = 1_000_000  # bytes

Body = TypeVar("Body", bound=Model)


@dataclass(frozen=True, slots=True)
class Received(Generic[Body]):
    """A request as it was received."""

    body: Body
    files: Sequence[UploadFile]
    sha256: bytes
    """Of the address, the canonical JSON and the files, so that a repeat of the request has the same one."""


@asynccontextmanager
async def received(request: Request, kind: type[Body], *, files: bool = False) -> AsyncGenerator[Received[Body], None]:
    """Read the request, and its files if there may be some, which exist until the end of the block.

    Raises:
        Problem: the body is of another type, too large, unreadable or invalid.
    """
    media_type = media_type_of(request)
    try:
        if media_type == FORM and files:
            async with _form(request) as (data, uploads):
                yield await _checked(request, kind, data, uploads)
            return
        data = await _read_json(request)
    except ClientDisconnect as error:
        raise Problem("request_unreadable", CUT_OFF) from error
    if media_type != JSON and (data or media_type):
        wanted = f"{JSON} or {FORM}" if files else JSON
        raise Problem("media_type_unknown", f"The body must be {wanted}, not {media_type[:100] or 'without a type'!r}.")
    yield await _checked(request, kind, data or b"{}", ())


async def store(door: DoorState, workflow_id: str, files: Sequence[UploadFile]) -> tuple[StoredDocument, ...]:
    """Store the files as content of the workflow, one at a time, so that only one of them is in memory.

    Raises:
        Problem: the name of a file is too long.
        Unavailable: the content store cannot be reached.
    """
    documents = []
    for file in files:
        async with door.storing:
            content = await door.opened.content.put(workflow_id, await file.read())
        documents.append(_document(file.filename or "document", content))
    return tuple(documents)


def _document(name: str, content: str) -> StoredDocument:
    try:
        return StoredDocument(document_name=name, content=content)
    except ValidationError as error:
        raise Problem("invalid_request", f"The name of the file {name[:40]!r}: {explain(error)}.") from error


async def _checked(request: Request, kind: type[Body], data: bytes, files: Sequence[UploadFile]) -> Received[Body]:
    try:
        fields = orjson.loads(data)
        written = dumps(fields)
    except orjson.JSONDecodeError as error:
        raise Problem("request_unreadable", f"The request is not JSON: {error}.") from error
    except TypeError as error:
        raise Problem("request_unreadable", "The request is nested too deeply.") from error
    try:
        body = kind.model_validate_json(written, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Problem("invalid_request", f"{_sentence(explain(error))}.") from error
    digests = [[file.filename, await asyncio.to_thread(_digest, file)] for file in files]
    identical: Mapping[str, Any] = {"path": request.url.path, "request": fields, "files": digests}
    return Received(body, files, hashlib.sha256(dumps(identical)).digest())


def _sentence(words: str) -> str:
    return words.removeprefix("data: Value error, ").removesuffix(".")


def _digest(file: UploadFile) -> str:
    digest = hashlib.file_digest(file.file, "sha256").hexdigest()  # type: ignore[arg-type]  # a file, in all but name
    file.file.seek(0)
    return digest


async def _read_json(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_JSON:
            raise _too_large("The request")
    return bytes(data)


@asynccontextmanager
async def _form(request: Request) -> AsyncGenerator[tuple[bytes, Sequence[UploadFile]], None]:
    parser = _CommandParser(request.headers, request.stream(), files=MAX_FILES, fields=10, text=MAX_JSON)
    async with parsed(parser) as form:
        requests = form.getlist("request")
        if len(requests) != 1:
            raise unreadable(f"it has {len(requests)} parts named `request`, not one")
        (given,) = requests
        data = await given.read() if isinstance(given, UploadFile) else given.encode()
        yield data, [file for file in form.getlist("file") if isinstance(file, UploadFile)]


class _CommandParser(LimitedFormParser):
    """Parses a form with one part `request` and any number of parts `file`."""

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        name, is_file = self._current_part.field_name, self._current_part.file is not None
        if name not in ("request", "file"):
            raise unreadable(f"the part {name[:100]!r} is neither `request` nor `file`")
        if name == "file" and not is_file:
            raise unreadable("a part `file` has no file name")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._current_part.field_name == "request" and self._size + end - start > MAX_JSON:
            raise _too_large("The request")
        super().on_part_data(data, start, end)

    def on_part_end(self) -> None:
        try:
            self._current_part.data.decode()
        except UnicodeDecodeError as error:
            raise unreadable("its part `request` is not UTF-8") from error
        super().on_part_end()


def _too_large(what: str) -> Problem:
    return Problem("request_too_large", f"{what} has more than {MAX_JSON:,} bytes; files belong in parts of a form.")
