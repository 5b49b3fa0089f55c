"""Documents of strangers become text and tables; nothing of a file is parsed in this process.

Each is read by a child process of its own that may fail in every way without harm to this one. Before it parses, it
gives up its rights; which of them it cannot give up on this system is logged once.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from functools import cache

import structlog
from pydantic import BaseModel, ValidationError

from poweron_events.codec import writable
from poweron_events.codes import UnreadCode
from poweron_events.errors import Refused, Unavailable
from poweron_events.event import UnreadDocument
from poweron_services.connectors.documents_child.document import ExtractedDocument, Right, Section
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, MEGABYTE, Limits
from poweron_services.connectors.documents_child.readers import without_text
from poweron_services.connectors.text_recognition import TextRecognition, shown_places

__all__ = [
    "DEFAULT_LIMITS",
    "DocumentReader",
    "ExtractedDocument",
    "Limits",
    "OnPage",
    "Section",
    "UnreadableDocument",
    "affordable_readers",
    "extract",
    "partly_read",
    "tell_kept",
]

CHILD = "poweron_services.connectors.documents_child"
BYTES_PER_CHARACTER = 6  # of the child's answer, at most: UTF-8, or an escape such as \u001f
CHUNK = 1 << 16  # bytes that are received at a time
SENT = 1 << 20  # bytes that are sent at a time
MAX_NAME, MAX_REASON = 255, 1_000  # characters, of an event
UNNAMED = "document"

LoadBytes = Callable[[], Awaitable[bytes]]
"""How the bytes of a document are had."""

OnPage = Callable[[int, int | None], None]
"""Who is told, while a document is read, how many of its pages are read, and how many there are, if that is known."""

log = structlog.get_logger()


class UnreadableDocument(Refused):
    """The document holds nothing that can be read; the message says what happened and what to do next."""

    def __init__(self, name: str, why: str, code: UnreadCode) -> None:
        super().__init__(f"{name!r} {why}", code=code)
        self.document = _unread(name, why, code)


def partly_read(name: str, notes: Sequence[str]) -> UnreadDocument:
    """A document of which a part was not read; each note is a sentence about that."""
    return _unread(name, f"was not read as a whole. {' '.join(notes)}", "partly_read")


def _unread(name: str, why: str, code: UnreadCode) -> UnreadDocument:
    reason = writable(f"{name!r} {why}")[:MAX_REASON]
    return UnreadDocument(document_name=writable(name)[:MAX_NAME] or UNNAMED, code=code, reason=reason)


class _Answer(BaseModel):
    """What a child may say: a document, or why there is none."""

    document: ExtractedDocument | None = None
    unreadable: str = ""
    code: UnreadCode = "document_damaged"
    rights_kept: tuple[Right, ...] = ()


class DocumentReader:
    """Reads documents, so many at a time as it is told: each may take `Limits.memory_bytes` and a processor."""

    def __init__(self, at_once: int, recognition: TextRecognition | None = None) -> None:
        self.recognition = recognition
        self.places = asyncio.Semaphore(at_once)
        """Whoever else reads what strangers made takes one of these, too."""

    async def __call__(
        self, load: LoadBytes, size: int, name: str, *, on_page: OnPage | None = None
    ) -> ExtractedDocument:
        """Read a document of so many bytes, which are loaded once it is its turn; errors as in `extract`."""
        _expect_size(size, name, DEFAULT_LIMITS)
        async with self.places:
            return await extract(await load(), name, on_page=on_page, recognition=self.recognition)


def affordable_readers() -> int:
    """How many documents this machine can read at a time: one for each processor, in at most half of its memory."""
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    by_memory = pages * page_size // 2 // DEFAULT_LIMITS.memory_bytes
    return max(1, min(os.cpu_count() or 1, by_memory))


async def extract(
    data: bytes,
    name: str,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_page: OnPage | None = None,
    recognition: TextRecognition | None = None,
) -> ExtractedDocument:
    """Text and tables of a document, in reading order.

    Raises `UnreadableDocument` with a sentence for people when nothing of the document can be read. A document
    that can be read in part is returned with `truncated` and a note. Raises `Unavailable` when this machine can
    start no process now. Cancelling kills the child.
    """
    _expect_size(len(data), name, limits)
    limits = limits.for_size(len(data))
    question = json.dumps({"name": name, "limits": asdict(limits)}).encode() + b"\n"
    try:
        async with asyncio.timeout(limits.wall_seconds), _child() as child:
            answer = await _ask(child, question, data, limits)
    except TimeoutError:
        raise UnreadableDocument(name, _too_slow(limits), "document_timeout") from None
    document = await asyncio.to_thread(_understood, answer, name, limits)
    if document.pictures:
        document = await _with_pictures_told(document, data, recognition)
        if not document.sections:
            raise UnreadableDocument(name, without_text(document.notes), "document_without_text")
    if on_page is not None:
        on_page(len(document.sections), len(document.sections))
    return document


async def _with_pictures_told(
    document: ExtractedDocument, data: bytes, recognition: TextRecognition | None
) -> ExtractedDocument:
    """With the text of what is only a picture, where it can be recognised, and a note of each that has none."""
    if recognition is not None:
        document = await recognition.completed(document, data)
    if not document.pictures:
        return document
    where = shown_places(document.pictures)
    verb = "hold" if where.startswith("pages") else "holds"
    note = f"{where[:1].upper()}{where[1:]} {verb} only an image; its text could not be read."
    return replace(document, notes=(*document.notes, note), truncated=True)


def _expect_size(size: int, name: str, limits: Limits) -> None:
    if not size:
        raise UnreadableDocument(
            name, "is empty; check that it was saved and handed over completely.", "document_empty"
        )
    if size > limits.input_bytes:
        raise UnreadableDocument(
            name,
            f"has {size // MEGABYTE} MB, more than the {limits.input_bytes // MEGABYTE} MB "
            f"that a document may have; hand over a smaller part of it.",
            "document_too_large",
        )


@asynccontextmanager
async def _child() -> AsyncGenerator[Process, None]:
    """A Python without environment, in a session of its own, so that nothing it starts outlives it."""
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", CHILD, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, start_new_session=True
        )
    except OSError as error:
        raise Unavailable(f"No process could be started to read a document in: {error}.") from error
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.communicate()


async def _ask(child: Process, question: bytes, data: bytes, limits: Limits) -> bytes:
    async with asyncio.TaskGroup() as group:
        group.create_task(_send(child, question, data))
        return await _receive(child, limits.characters * BYTES_PER_CHARACTER + MEGABYTE)


async def _send(child: Process, question: bytes, data: bytes) -> None:
    stdin, view = child.stdin, memoryview(data)
    assert stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # a child that died says why by its silence
        stdin.write(question)
        for start in range(0, len(data), SENT):  # what is written at once is copied
            stdin.write(view[start : start + SENT])
            await stdin.drain()
    stdin.close()


async def _receive(child: Process, at_most: int) -> bytes:
    stdout = child.stdout
    assert stdout is not None
    answer = bytearray()
    while len(answer) <= at_most and (chunk := await stdout.read(CHUNK)):
        answer += chunk
    return bytes(answer) if len(answer) <= at_most else b""


def _understood(answer: bytes, name: str, limits: Limits) -> ExtractedDocument:
    """What the child says; it has read a stranger's file, so it may say anything."""
    try:
        said = _Answer.model_validate_json(answer)
    except ValidationError:
        raise UnreadableDocument(name, _silent(limits), "document_damaged") from None
    if said.rights_kept:
        tell_kept(said.rights_kept)
    if said.document is None:
        raise UnreadableDocument(name, said.unreadable or _silent(limits), said.code)
    return said.document


@cache
def tell_kept(rights: tuple[Right, ...]) -> None:
    """Once; they are the same for every document."""
    log.warning("document_rights_kept", rights=rights)


def _too_slow(limits: Limits) -> str:
    return (
        f"could not be read within {limits.wall_seconds:g} seconds, so nothing of it was used; "
        f"hand over a smaller part of it."
    )


def _silent(limits: Limits) -> str:
    return (
        f"could not be read within {limits.memory_bytes >> 20} MB of memory "
        f"and {limits.cpu_seconds} s of work; it is damaged or far too large: check it and hand it over again."
    )
