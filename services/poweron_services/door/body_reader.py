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
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from poweron_events.codec import dumps
from poweron_events.event import Model
from poweron_events.request import StoredDocument
from poweron_events.validation_messages import explain
from poweron_services.door.door_state import DoorState
from poweron_services.door.json_responses import JSON
from poweron_services.door.problems import Problem
from poweron_services.door.request_bodies import FORM

MAX_FILES: Final = 100
MAX_FILE: Final = 200_000_000  # bytes
MAX_JSON: Final = 1_000_000  # bytes
IN_MEMORY: Final = 65_536  # bytes of a file; a larger one is on disk

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
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if media_type == FORM and files:
            async with _form(request) as (data, uploads):
                yield await _checked(request, kind, data, uploads)
            return
        data = await _read_json(request)
    except ClientDisconnect as error:
        raise Problem("request_unreadable", "The connection was closed before the end of the body.") from error
    if media_type != JSON and (data or media_type):
        wanted = f"{JSON} or {FORM}" if files else JSON
        raise Problem("media_type_unknown", f"The body must be {wanted}, not {media_type[:100] or 'without a type'!r}.")
    yield await _checked(request, kind, data or b"{}", ())


async def store(
    door: DoorState, workflow_id: str, files: Sequence[UploadFile], *, most: int = MAX_FILE
) -> tuple[StoredDocument, ...]:
    """Store the files as content of the workflow, one at a time, so that only one of them is in memory.

    A file has at most `most` bytes.

    Raises:
        Problem: a file is too large, or its name is too long.
        Unavailable: the content store cannot be reached.
    """
    for file in files:
        if (file.size or 0) > most:  # of a page: the parser of the API does not read that far
            raise _file_too_large(file.filename or "", most)
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
    parser = _FormParser(request.headers, request.stream(), max_files=MAX_FILES + 1, max_fields=10)
    try:
        form = await parser.parse()
        if not parser.is_complete:
            raise _unreadable("it ends before its last boundary")
        requests = form.getlist("request")
        if len(requests) != 1:
            raise _unreadable(f"it has {len(requests)} parts named `request`, not one")
        (given,) = requests
        data = await given.read() if isinstance(given, UploadFile) else given.encode()
        yield data, [file for file in form.getlist("file") if isinstance(file, UploadFile)]
    except MultiPartException as error:
        raise _unreadable(error.message.removesuffix(".")) from error
    finally:
        parser.close()


class _FormParser(MultiPartParser):
    """Reads a form with one part `request` and any number of parts `file`, up to the limits."""

    spool_max_size = IN_MEMORY
    is_complete = False
    """Whether the last boundary has come; otherwise the form is cut off."""

    def on_part_begin(self) -> None:
        super().on_part_begin()
        self._size = 0

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        name, is_file = self._current_part.field_name, self._current_part.file is not None
        if name not in ("request", "file"):
            raise _unreadable(f"the part {name[:100]!r} is neither `request` nor `file`")
        if name == "file" and not is_file:
            raise _unreadable("a part `file` has no file name")
        if self._current_files > MAX_FILES:
            raise Problem("request_too_large", f"The request has more than {MAX_FILES} files.")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._size += end - start
        part = self._current_part
        if part.field_name == "request" and self._size > MAX_JSON:
            raise _too_large("The request")
        if self._size > MAX_FILE:
            raise _file_too_large(part.file.filename or "" if part.file else "")
        super().on_part_data(data, start, end)

    def on_part_end(self) -> None:
        try:
            self._current_part.data.decode()
        except UnicodeDecodeError as error:
            raise _unreadable("its part `request` is not UTF-8") from error
        super().on_part_end()

    def on_end(self) -> None:
        self.is_complete = True

    def close(self) -> None:
        """Remove all files, also one that is cut off and belongs to no part of the form."""
        for file in self._files_to_close_on_error:
            file.close()


def _too_large(what: str) -> Problem:
    return Problem("request_too_large", f"{what} has more than {MAX_JSON:,} bytes; files belong in parts of a form.")


def _file_too_large(name: str, most: int = MAX_FILE) -> Problem:
    return Problem("request_too_large", f"The file {name[:100]!r} has more than {most:,} bytes.")


def _unreadable(why: str) -> Problem:
    return Problem("request_unreadable", f"The form cannot be read: {why}.")
