"""Text recognition (OCR) of photographed and scanned pages, by an external command if one is configured.

The command is a program of the machine (`tesseract - - -l eng`), which reads the picture from standard input and writes
the text to standard output. Unlike the children that read documents, it keeps its privileges, but its environment is
empty, and its time, memory and output are limited; everything it started is killed with it. A separate child first
renders the pages of a PDF, or scales down a picture that has more pixels than the command has memory for.
"""

import asyncio
import json
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from poweron_services.connectors.document_child import CHUNK, isolated_process, send
from poweron_services.connectors.documents_child.document import ExtractedDocument, Section
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, MEGABYTE
from poweron_services.connectors.documents_child.readers import clean

DRAWING_CHILD = "poweron_services.connectors.documents_child.page_pictures"
COMMAND_CHILD = "poweron_services.connectors.ocr_child"
PURPOSE = "look at pictures in"
PAGE = "page "  # the prefix of a page's locator
LONGEST_NUMBER = 9  # digits of a page number
LENGTH = 4  # bytes of the length prefix of each picture
MEMORY = DEFAULT_LIMITS.memory_bytes // MEGABYTE  # MB that a process may use
SECONDS_PER_PICTURE = 60.0
SECONDS_IN_ALL = 150.0  # for all pages of a document; no page is started after this
PAGES_AT_ONCE = 8  # that are rendered and held in memory
MOST_DRAWN = 20 * MEGABYTE  # bytes of the picture of one page
MOST_TEXT = 1 * MEGABYTE  # bytes of the text of one picture
A_FEW = 2  # consecutive pages that are listed one by one; a longer run is shown as a range
MOST_RUNS = 20  # of pages that are listed; the rest becomes "and more"


class Unrecognised(Exception):
    """Raised if the command returned no text; the message completes the sentence that reports it."""


@dataclass(frozen=True, slots=True)
class TextRecognition:
    """Runs the command on one picture of a document at a time."""

    command: tuple[str, ...]

    async def completed(self, document: ExtractedDocument, data: bytes) -> ExtractedDocument:
        """Return the document with the text of its pictures; notes name those without (at most five failures)."""
        pages = [page for place in document.pictures if (page := _page_of(place))]
        pictures = self._of_pages(data, pages) if pages else self._itself(data)
        texts: dict[str, str] = {}
        failures: dict[str, str] = {}
        until = asyncio.get_running_loop().time() + SECONDS_IN_ALL
        async for place, picture in pictures:
            if asyncio.get_running_loop().time() > until:
                break
            try:
                text = clean(await self._text_of(picture))
            except Unrecognised as error:
                failures[place] = str(error)
                continue
            texts[place] = text
        return _with_texts(document, texts, failures)

    async def _itself(self, data: bytes) -> AsyncGenerator[tuple[str, bytes], None]:
        smaller = await drawn(data, ())
        yield "", (smaller[0] or data) if smaller else b""

    async def _of_pages(self, data: bytes, pages: Sequence[int]) -> AsyncGenerator[tuple[str, bytes], None]:
        for start in range(0, len(pages), PAGES_AT_ONCE):
            group = pages[start : start + PAGES_AT_ONCE]
            for page, picture in zip(group, await drawn(data, group), strict=False):
                yield f"{PAGE}{page}", picture

    async def _text_of(self, picture: bytes) -> str:
        if not picture:
            raise Unrecognised(f"it needs more than {MEMORY} MB of memory; hand over a smaller picture")
        command = (sys.executable, "-I", "-m", COMMAND_CHILD, *self.command)
        try:
            async with asyncio.timeout(SECONDS_PER_PICTURE), isolated_process(command, PURPOSE) as process:
                output = await _answer(process, picture, MOST_TEXT)
                code = 0 if output is None else await process.wait()
        except TimeoutError:
            raise Unrecognised(f"it took longer than {SECONDS_PER_PICTURE:g} seconds") from None
        if output is None:
            raise Unrecognised("the command wrote more than any page holds")
        if code:
            raise Unrecognised(f"the command, which may use {MEMORY} MB of memory, ended with code {code}")
        return output.decode(errors="replace")


async def drawn(data: bytes, pages: Sequence[int]) -> list[bytes]:
    """Render pages of a PDF as pictures, as many as possible.

    Without `pages`, the document is itself a picture: scale it down, or return it empty if it may stay as it is.
    """
    limits = replace(DEFAULT_LIMITS, characters=0)
    question = json.dumps({"pages": list(pages), "limits": asdict(limits)}).encode() + b"\n"
    output = None
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(limits.wall_seconds),
            isolated_process((sys.executable, "-I", "-m", DRAWING_CHILD), PURPOSE) as process,
        ):
            output = await _answer(process, question + data, MOST_DRAWN * max(1, len(pages)))
    return list(_parts(output or b""))


def _parts(output: bytes) -> Iterator[bytes]:
    at = 0
    while at + LENGTH <= len(output):
        size = int.from_bytes(output[at : at + LENGTH])
        at += LENGTH + size
        if at <= len(output):
            yield output[at - size : at]


async def _answer(process: Process, data: bytes, limit: int) -> bytes | None:
    """Return the output of the process, or None if it is too long."""
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(send(process, data))
        output = await _receive(process, limit)
        if output is None:
            sending.cancel()
    return output


async def _receive(process: Process, limit: int) -> bytes | None:
    stdout = process.stdout
    assert stdout is not None
    output = bytearray()
    while chunk := await stdout.read(CHUNK):
        output += chunk
        if len(output) > limit:
            return None
    return bytes(output)


def _with_texts(document: ExtractedDocument, texts: dict[str, str], failures: dict[str, str]) -> ExtractedDocument:
    recognised = {place: text for place, text in texts.items() if text}
    sections = sorted(
        (
            *(section for section in document.sections if section.locator not in recognised),
            *(Section(place, text) for place, text in recognised.items()),
        ),
        key=lambda section: _page_of(section.locator),
    )
    notes = []
    if recognised:
        notes.append(f"The text of {shown_places(list(recognised))} was recognised in a picture; it may hold mistakes.")
    notes += [f"No text was recognised in {shown_places([place])}: {reason}." for place, reason in failures.items()][:5]
    empty = [place for place in texts if not texts[place]]
    if empty:
        notes.append(f"In {shown_places(empty)} there is no text that could be recognised.")
    left = tuple(place for place in document.pictures if place not in texts and place not in failures)
    truncated = document.truncated or bool(failures)
    return replace(
        document, sections=tuple(sections), notes=(*document.notes, *notes), truncated=truncated, pictures=left
    )


def shown_places(places: Sequence[str]) -> str:
    """Describe pages for users, such as "pages 2 to 4 and 7"; a picture without a page is "the document"."""
    numbers = [page for place in places if (page := _page_of(place))]
    if not numbers:
        return "the document"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    names = [name for run in runs for name in ([f"{run[0]} to {run[-1]}"] if len(run) > A_FEW else map(str, run))]
    if len(names) == 1:
        return f"page{'s' if len(numbers) > 1 else ''} {names[0]}"
    first_names, last = (names[:MOST_RUNS], "more") if len(names) > MOST_RUNS else (names[:-1], names[-1])
    return f"pages {', '.join(first_names)} and {last}"


def _page_of(place: str) -> int:
    """The page number in a locator, or 0 if there is none; a compromised child may send any locator."""
    number = place.removeprefix(PAGE)
    return int(number) if place != number and number.isdecimal() and len(number) <= LONGEST_NUMBER else 0
