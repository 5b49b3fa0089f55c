"""Extraction of text and tables from untrusted documents; no file is parsed in this process.

Each document is read by its own child process, which may fail in any way without harming this one. Before it parses,
the child drops its privileges; those that it cannot drop on this system are logged once. A document of many pages is
read by several children, some pages each: concurrently while slots are free, otherwise one after another.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from poweron_events.codec import writable
from poweron_events.codes import UnreadCode
from poweron_events.errors import Refused
from poweron_events.event import UnreadDocument
from poweron_services.connectors.document_pages import OnPage, PagesReading
from poweron_services.connectors.documents_child.document import ExtractedDocument, Section
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits
from poweron_services.connectors.documents_child.readers import without_text
from poweron_services.connectors.text_recognition import TextRecognition, shown_places
from poweron_services.fair_slots import FairSlots

__all__ = [
    "DEFAULT_LIMITS",
    "DocumentReader",
    "ExtractedDocument",
    "OnPage",
    "ReadLimits",
    "Section",
    "UnreadableDocument",
    "affordable_readers",
    "extract",
    "partly_read",
]

MAX_NAME, MAX_REASON = 255, 1_000  # characters, of an event
UNNAMED = "document"
RECOGNISE = (
    "If it shows text, run text recognition (OCR) on it and hand over the result; "
    "where POWERON_OCR names a command for that, it is done here."
)

LoadBytes = Callable[[], Awaitable[bytes]]
"""Loads the bytes of a document."""


class UnreadableDocument(Refused):
    """Raised if nothing of a document can be read; the message says what happened and what to do next."""

    def __init__(self, name: str, reason: str, code: UnreadCode) -> None:
        super().__init__(f"{name!r} {reason}", code=code)
        self.document = _unread(name, reason, code)


def partly_read(name: str, notes: Sequence[str]) -> UnreadDocument:
    """Return the record of a document that was read only in part; each note is a sentence about a missing part."""
    return _unread(name, f"was not read as a whole. {' '.join(notes)}", "partly_read")


def _unread(name: str, cause: str, code: UnreadCode) -> UnreadDocument:
    reason = writable(f"{name!r} {cause}")[:MAX_REASON]
    return UnreadDocument(document_name=writable(name)[:MAX_NAME] or UNNAMED, code=code, reason=reason)


class DocumentReader:
    """Reads documents in up to `at_once` processes; each may use `ReadLimits.memory_bytes` and one processor."""

    def __init__(self, at_once: int, recognition: TextRecognition | None = None) -> None:
        self.recognition = recognition
        self.places = FairSlots(at_once)
        """The slots for child processes, which other readers of untrusted data, such as `PageReader`, share."""

    async def __call__(
        self, load: LoadBytes, size: int, name: str, *, on_page: OnPage | None = None
    ) -> ExtractedDocument:
        """Read a document of `size` bytes, which are loaded once a slot is free; raises as `extract` does."""
        _expect_size(size, name, DEFAULT_LIMITS)
        async with self.places:
            return await extract(await load(), name, on_page=on_page, places=self.places, recognition=self.recognition)


def affordable_readers() -> int:
    """Return how many documents this machine can read at a time: one per processor, in at most half of its memory."""
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    by_memory = pages * page_size // 2 // DEFAULT_LIMITS.memory_bytes
    return max(1, min(os.cpu_count() or 1, by_memory))


async def extract(
    data: bytes,
    name: str,
    *,
    limits: ReadLimits = DEFAULT_LIMITS,
    on_page: OnPage | None = None,
    places: FairSlots | None = None,
    recognition: TextRecognition | None = None,
) -> ExtractedDocument:
    """Return the text and tables of a document, in reading order.

    Raises `UnreadableDocument` with a sentence for users if nothing of the document can be read. A document that
    can be read only in part is returned with `truncated` and a note. Raises `Unavailable` if this machine cannot
    start a process now. Cancelling kills the children. `places` are slots in which further children may read.
    """
    _expect_size(len(data), name, limits)
    reading = PagesReading(data, name, limits.for_size(len(data)), on_page, places)
    await reading.read()
    document = await asyncio.to_thread(reading.document)
    if document is None:
        raise UnreadableDocument(name, *reading.why_unread())
    document = document.with_omission_note()
    if document.pictures:
        document = await _with_picture_notes(document, data, recognition)
        if not document.sections:
            cause = f"{without_text(document.notes)} {RECOGNISE if recognition is None else ''}".strip()
            raise UnreadableDocument(name, cause, "document_without_text")
    return document


def text_reader(ocr_command: tuple[str, ...] | None) -> Callable[[bytes, str], Awaitable[str]]:
    """Return a function that returns the text of a document with these bytes and this name; "" if it has none."""
    recognition = TextRecognition(ocr_command) if ocr_command else None

    async def read(data: bytes, name: str) -> str:
        try:
            document = await extract(data, name, recognition=recognition)
        except UnreadableDocument:
            return ""
        return document.markdown()

    return read


async def _with_picture_notes(
    document: ExtractedDocument, data: bytes, recognition: TextRecognition | None
) -> ExtractedDocument:
    """Add the recognised text of parts that are only a picture, and a note about those whose text could not be read."""
    if recognition is not None:
        document = await recognition.completed(document, data)
    if not document.pictures:
        return document
    place = shown_places(document.pictures)
    verb = "are pictures" if place.startswith("pages") else "is a picture"
    note = f"{place[:1].upper()}{place[1:]} {verb}, whose text could not be read."
    return replace(document, notes=(*document.notes, note), truncated=True)


def _expect_size(size: int, name: str, limits: ReadLimits) -> None:
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
