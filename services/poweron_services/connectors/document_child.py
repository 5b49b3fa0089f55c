"""The parent's side of child processes: start one in isolation, send it a document, and collect what it has read.

A child may fail in any way.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Final, get_args

import structlog
from pydantic import BaseModel, Field, ValidationError

from poweron_events.codes import UnreadCode
from poweron_events.errors import Unavailable
from poweron_services.connectors.documents_child.document import ExtractedDocument, Right, Section
from poweron_services.connectors.documents_child.limits import MEGABYTE, ReadLimits
from poweron_services.connectors.documents_child.readers import Note

CHILD = "poweron_services.connectors.documents_child"


SMALL = 1 << 14  # bytes; chunks of this size or more are parsed in a thread


BYTES_PER_CHARACTER = 2  # of output that is kept, for each character of the text limit


MOST_NOTES = 2_000  # from one process


MOST_PAGES = 10_000_000


log = structlog.get_logger()


class _Line(BaseModel):
    """A valid line of a child's output; the child has read an untrusted file, so it may send anything."""

    rights_kept: tuple[Right, ...] = Field(default=(), max_length=len(get_args(Right)))
    mime_type: str = Field(default="", max_length=255)
    pages: int | None = Field(default=None, ge=0, le=MOST_PAGES)
    page_read: int | None = Field(default=None, ge=1, le=MOST_PAGES)
    section: Section | None = None
    note: Note | None = None
    document: ExtractedDocument | None = None
    unreadable: str = ""
    code: UnreadCode = "document_damaged"


@dataclass(slots=True)
class ChildMessage:
    """The output of one child so far; output received before a failure is kept."""

    limits: ReadLimits
    sections: list[Section] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    mime_type: str = ""
    pages: int | None = None
    """The page count of the whole document; None if it has no pages or they have not been counted."""
    last_page: int = 0
    """The last page that was read; 0 before the first."""
    document: ExtractedDocument | None = None
    """The document without its sections, once the child has read it to the end."""
    unreadable: str = ""
    code: UnreadCode = "document_damaged"
    timed_out: bool = False
    cut: bool = False
    """Whether the output exceeded its limit."""
    _held: int = 0
    _begun: list[bytes] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether the child failed to finish; finding no text in the document counts as finishing."""
        return self.document is None and self.code != "document_without_text"

    @property
    def truncated(self) -> bool:
        """Whether the child reported that it left something out."""
        return any(note.truncated for note in self.notes) or (self.document is not None and self.document.truncated)

    @property
    def sentences(self) -> Sequence[str]:
        """The notes as sentences: those of the finished document, or else those received so far."""
        return [note.sentence for note in self.notes] if self.document is None else self.document.notes

    def take(self, chunk: bytes) -> bool:
        """Parse a chunk of output; return False after an invalid line or too much output."""
        *lines, remainder = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._begun, lines[0]))
            self._begun.clear()
        self._begun.append(remainder)
        self._held += len(chunk)
        try:
            for line in lines:
                self._take(_Line.model_validate_json(line))
        except ValidationError:
            return False
        self.cut = self.cut or self._held > self.limits.characters * BYTES_PER_CHARACTER + 4 * MEGABYTE
        return not self.cut

    def _take(self, line: _Line) -> None:
        if line.rights_kept:
            log_kept_rights(line.rights_kept)
        if line.section is not None and len(self.sections) < self.limits.sections:
            self.sections.append(line.section)
            self._held += max(0, sys.getsizeof(line.section.text) - len(line.section.text))  # wide characters
        if line.note is not None and len(self.notes) < MOST_NOTES:
            self.notes.append(line.note)
        self.mime_type = line.mime_type or self.mime_type
        if line.pages is not None:
            self.pages = line.pages
        self.last_page = line.page_read or self.last_page
        if line.document is not None or line.unreadable:
            self.document, self.unreadable, self.code = line.document, line.unreadable, line.code


async def hear(data: bytes, name: str, message: ChildMessage, on_message: Callable[[], None]) -> None:
    """Start a child and collect its output until it ends, fails or times out; cancelling kills it.

    Raises `Unavailable` if this machine cannot start a process now.
    """
    limits = message.limits
    question = json.dumps({"name": name, "limits": asdict(limits)}).encode() + b"\n"
    process = isolated_process((sys.executable, "-I", "-m", CHILD), "read a document in")
    try:
        async with (
            asyncio.timeout(limits.wall_seconds),
            process as child,
            asyncio.TaskGroup() as group,
        ):
            sending = group.create_task(send(child, question, data))
            await _listen(child, message, on_message)
            sending.cancel()
    except TimeoutError:
        message.timed_out = True


async def _listen(child: Process, message: ChildMessage, on_message: Callable[[], None]) -> None:
    stdout = child.stdout
    assert stdout is not None
    while chunk := await stdout.read(CHUNK):
        goes_on = message.take(chunk) if len(chunk) < SMALL else await asyncio.to_thread(message.take, chunk)
        on_message()
        if not goes_on:
            return


@cache
def log_kept_rights(rights: tuple[Right, ...]) -> None:
    """Log the privileges that a child could not drop, once: they are the same for every document."""
    log.warning("document_rights_kept", rights=rights)


CHUNK: Final = 1 << 20  # bytes received at a time


SENT: Final = 1 << 20  # bytes sent at a time


@asynccontextmanager
async def isolated_process(
    command: Sequence[str], purpose: str, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Process, None]:
    """Run a process in its own session, so that nothing it starts outlives it; its environment is empty by default.

    Args:
        command: the program and its arguments.
        purpose: completes the error message "No process could be started to …".
        environment: the whole environment of the process.

    Raises:
        Unavailable: this machine cannot start a process now.
    """
    try:
        child = await create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment or {},
            start_new_session=True,
            limit=CHUNK,
        )
    except OSError as error:
        raise Unavailable(f"No process could be started to {purpose}: {error}.") from error
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.communicate()


async def send(child: Process, *parts: bytes) -> None:
    """Write the parts to the child's standard input and close it; if the child died, its missing answer shows that."""
    stdin = child.stdin
    assert stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(part), SENT):  # in pieces, because asyncio copies what it buffers
                stdin.write(view[start : start + SENT])
                await stdin.drain()
    stdin.close()
