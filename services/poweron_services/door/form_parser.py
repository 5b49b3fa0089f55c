"""The parser of forms: it writes files to disk, and refuses a form as soon as it exceeds a limit."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import Request
from starlette.datastructures import FormData, Headers
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.door.problems import Problem

FORM: Final = "multipart/form-data"
URL_ENCODED: Final = "application/x-www-form-urlencoded"
MAX_FILES: Final = 100
MAX_FILE: Final = 200_000_000  # bytes
MAX_DOCUMENT: Final = ReadLimits().input_bytes  # bytes of a document in a form of a page; a larger one cannot be read
MAX_ALL_DOCUMENTS: Final = 2 * MAX_DOCUMENT  # bytes of all documents of such a form
MEGABYTE: Final = 1_000_000
DOCUMENT_LIMITS: Final = (
    f"Up to {MAX_FILES} documents, at most {MAX_DOCUMENT // MEGABYTE} MB each "
    f"and {MAX_ALL_DOCUMENTS // MEGABYTE} MB together."
)
MAX_FIELDS: Final = 1_200  # of a form of a page: a list of 1,000 workflows, and what to do with them
MAX_TEXT: Final = 2_000_000  # bytes of all fields of a form of a page
DIGITS: Final = 20  # of a length; a number with more is read as none
IN_MEMORY: Final = 65_536  # bytes of a file; a larger one is on disk
CUT_OFF: Final = "The connection was closed before the end of the body."


def media_type_of(request: Request) -> str:
    """Return the type of the body without its parameters; "" if the request names none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class LimitedFormParser(MultiPartParser):
    """Parses a form with files, and refuses it as soon as it exceeds a limit."""

    spool_max_size = IN_MEMORY
    is_complete = False
    """Whether the last boundary has come; otherwise the form is cut off."""

    most_of_file = MAX_FILE

    def __init__(
        self, headers: Headers, stream: AsyncGenerator[bytes, None], *, files: int, fields: int, text: int
    ) -> None:
        """`text` is the most bytes of all fields that are no files."""
        super().__init__(headers, stream, max_files=files + 1, max_fields=fields, max_part_size=text)
        self._most_files = files
        self._most_text = text
        self._text = 0
        self._size = 0

    def on_part_begin(self) -> None:
        super().on_part_begin()
        self._size = 0

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        if self._current_files > self._most_files:
            raise _too_many_files(self._most_files)

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._size += end - start
        file = self._current_part.file
        if file is None:
            self._text += end - start
            if self._text > self._most_text:
                raise text_too_large(self._most_text)
        elif self._size > self.most_of_file:
            raise self.file_too_large(file.filename or "")
        super().on_part_data(data, start, end)

    def file_too_large(self, name: str) -> Problem:
        """Return the problem of a file that is larger than one may be."""
        return Problem("request_too_large", f"The file {name[:100]!r} has more than {self.most_of_file:,} bytes.")

    def on_end(self) -> None:
        self.is_complete = True

    def close(self) -> None:
        """Remove all files, also one that is cut off and belongs to no part of the form."""
        for file in self._files_to_close_on_error:
            file.close()


class PageFormParser(LimitedFormParser):
    """Parses a form of a page, whose documents must be small enough to be read."""

    most_of_file = MAX_DOCUMENT
    most_of_files = MAX_ALL_DOCUMENTS
    _all_files = 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._current_part.file is not None:
            self._all_files += end - start
            if self._all_files > self.most_of_files:
                raise documents_too_large()
        super().on_part_data(data, start, end)

    def file_too_large(self, name: str) -> Problem:
        return Problem(
            "request_too_large", f"The document {name[:100]!r} is too large, and nothing was sent. {DOCUMENT_LIMITS}"
        )


@asynccontextmanager
async def parsed(parser: LimitedFormParser) -> AsyncGenerator[FormData, None]:
    """Parse a form, whose files exist until the end of the block.

    Raises:
        Problem: it exceeds a limit, or cannot be read.
    """
    try:
        form = await parser.parse()
        if not parser.is_complete:
            raise unreadable("it ends before its last boundary")
        yield form
    except MultiPartException as error:
        raise unreadable(error.message.removesuffix(".")) from error
    finally:
        parser.close()


@asynccontextmanager
async def page_form(request: Request, *, takes_files: bool) -> AsyncGenerator[FormData, None]:
    """Read the form of a page; one of another type is empty. Its files exist until the end of the block.

    Raises:
        Problem: it exceeds a limit, or cannot be read.
    """
    media_type = media_type_of(request)
    try:
        if media_type == FORM:
            files = MAX_FILES if takes_files else 0
            if _content_length(request) > MAX_TEXT + (MAX_ALL_DOCUMENTS if takes_files else 0):
                raise documents_too_large() if takes_files else text_too_large(MAX_TEXT)
            parser = PageFormParser(request.headers, request.stream(), files=files, fields=MAX_FIELDS, text=MAX_TEXT)
            async with parsed(parser) as form:
                yield form
        else:
            yield await _fields(request) if media_type == URL_ENCODED else FormData()
    except ClientDisconnect as error:
        raise Problem("request_unreadable", CUT_OFF) from error


def _content_length(request: Request) -> int:
    """Return the bytes that the request says it has; 0 if it does not say."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < DIGITS else 0


async def _fields(request: Request) -> FormData:
    parser = FormParser(request.headers, _limited(request), max_fields=MAX_FIELDS, max_part_size=MAX_TEXT)
    try:
        return await parser.parse()
    except MultiPartException as error:
        raise unreadable(error.message.removesuffix(".")) from error


async def _limited(request: Request) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_TEXT:
            raise text_too_large(MAX_TEXT)
        yield chunk


def text_too_large(most: int) -> Problem:
    """Return the problem of a form whose fields are too large."""
    return Problem("request_too_large", f"The fields of the form have more than {most:,} bytes.")


def unreadable(why: str) -> Problem:
    """Return the problem of a form that cannot be read."""
    return Problem("request_unreadable", f"The form cannot be read: {why}.")


def _too_many_files(most: int) -> Problem:
    if not most:
        return Problem("request_too_large", "This form takes no files.")
    return Problem("request_too_large", f"The request has more than {most} files.")


def documents_too_large() -> Problem:
    """Return the problem of a form of a page whose documents together are too large."""
    return Problem("request_too_large", f"The documents are too large, and nothing was sent. {DOCUMENT_LIMITS}")
