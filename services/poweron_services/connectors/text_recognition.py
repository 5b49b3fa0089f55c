"""Pictures become text where a command for that is set up: what a camera or a scanner made of a page.

The command is a program of the machine (`tesseract - - -l eng`): the picture on its standard input, the text on its
standard output. It is no child that reads documents, so it keeps its rights, but it has no environment, and limits of
time, memory and output; it ends with all that it started. Pages of a PDF are drawn in a child of their own first, and
so is a picture anew that has more pixels than the command has memory for.
"""

import asyncio
import json
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from poweron_services.connectors.documents_child.document import ExtractedDocument, Section
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, MEGABYTE
from poweron_services.connectors.documents_child.readers import clean
from poweron_services.connectors.isolated_process import CHUNK, isolated_process, send

DRAWING_CHILD = "poweron_services.connectors.documents_child.page_pictures"
COMMAND_CHILD = "poweron_services.connectors.ocr_child"
PURPOSE = "look at pictures in"
PAGE = "page "  # how the locator of a page begins
LONGEST_NUMBER = 9  # digits of it
LENGTH = 4  # bytes of the number before each picture
MEMORY = DEFAULT_LIMITS.memory_bytes // MEGABYTE  # MB that a process may have
SECONDS_PER_PICTURE = 60.0
SECONDS_IN_ALL = 150.0  # for all pages of a document; later than this nothing new is begun
PAGES_AT_ONCE = 8  # that are drawn, and in memory
MOST_DRAWN = 20 * MEGABYTE  # bytes of the picture of one page
MOST_TEXT = 1 * MEGABYTE  # bytes of the text of one picture
A_FEW = 2  # pages in a row that are named one by one
MOST_RUNS = 20  # of pages, that are named one by one


class Unrecognised(Exception):
    """The command has given no text; the message ends the sentence that says so."""


@dataclass(frozen=True, slots=True)
class TextRecognition:
    """Runs the command, for one picture at a time of each document."""

    command: tuple[str, ...]

    async def completed(self, document: ExtractedDocument, data: bytes) -> ExtractedDocument:
        """The document with the text of its pictures; of each that has none, a note tells."""
        pages = [page for place in document.pictures if (page := _page_of(place))]
        pictures = self._of_pages(data, pages) if pages else self._itself(data)
        texts: dict[str, str] = {}
        failed: dict[str, str] = {}
        until = asyncio.get_running_loop().time() + SECONDS_IN_ALL
        async for place, picture in pictures:
            if asyncio.get_running_loop().time() > until:
                break
            try:
                text = clean(await self._text_of(picture))
            except Unrecognised as error:
                failed[place] = str(error)
                continue
            texts[place] = text
        return _with_texts(document, texts, failed)

    async def _itself(self, data: bytes) -> AsyncGenerator[tuple[str, bytes], None]:
        smaller = await drawn(data, ())
        yield "", (smaller[0] or data) if smaller else b""

    async def _of_pages(self, data: bytes, pages: Sequence[int]) -> AsyncGenerator[tuple[str, bytes], None]:
        for start in range(0, len(pages), PAGES_AT_ONCE):
            some = pages[start : start + PAGES_AT_ONCE]
            for page, picture in zip(some, await drawn(data, some), strict=False):
                yield f"{PAGE}{page}", picture

    async def _text_of(self, picture: bytes) -> str:
        if not picture:
            raise Unrecognised(f"it needs more than {MEMORY} MB of memory; hand over a smaller picture")
        command = (sys.executable, "-I", "-m", COMMAND_CHILD, *self.command)
        try:
            async with asyncio.timeout(SECONDS_PER_PICTURE), isolated_process(command, PURPOSE) as process:
                said = await _answer(process, picture, MOST_TEXT)
                code = 0 if said is None else await process.wait()
        except TimeoutError:
            raise Unrecognised(f"it took longer than {SECONDS_PER_PICTURE:g} seconds") from None
        if said is None:
            raise Unrecognised("the command wrote more than any page holds")
        if code:
            raise Unrecognised(f"the command, which may use {MEMORY} MB of memory, ended with code {code}")
        return said.decode(errors="replace")


async def drawn(data: bytes, pages: Sequence[int]) -> list[bytes]:
    """Pictures of pages of a PDF, as many as could be drawn.

    Where no pages are named, the document is a picture: with fewer pixels, or empty where it may stay as it is.
    """
    limits = replace(DEFAULT_LIMITS, characters=0)
    question = json.dumps({"pages": list(pages), "limits": asdict(limits)}).encode() + b"\n"
    said = None
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(limits.wall_seconds),
            isolated_process((sys.executable, "-I", "-m", DRAWING_CHILD), PURPOSE) as process,
        ):
            said = await _answer(process, question + data, MOST_DRAWN * max(1, len(pages)))
    return list(_parted(said or b""))


def _parted(said: bytes) -> Iterator[bytes]:
    at = 0
    while at + LENGTH <= len(said):
        size = int.from_bytes(said[at : at + LENGTH])
        at += LENGTH + size
        if at <= len(said):
            yield said[at - size : at]


async def _answer(process: Process, data: bytes, at_most: int) -> bytes | None:
    """What it writes; None if that is too much."""
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(send(process, data))
        said = await _received(process, at_most)
        if said is None:
            sending.cancel()
    return said


async def _received(process: Process, at_most: int) -> bytes | None:
    stdout = process.stdout
    assert stdout is not None
    said = bytearray()
    while chunk := await stdout.read(CHUNK):
        said += chunk
        if len(said) > at_most:
            return None
    return bytes(said)


def _with_texts(document: ExtractedDocument, texts: dict[str, str], failed: dict[str, str]) -> ExtractedDocument:
    found = {place: text for place, text in texts.items() if text}
    sections = sorted(
        (
            *(each for each in document.sections if each.locator not in found),
            *(Section(place, text) for place, text in found.items()),
        ),
        key=lambda section: _page_of(section.locator),
    )
    notes = []
    if found:
        notes.append(f"The text of {shown_places(list(found))} was recognised in a picture; it may hold mistakes.")
    notes += [f"No text was recognised in {shown_places([place])}: {why}." for place, why in failed.items()][:5]
    empty = [place for place in texts if not texts[place]]
    if empty:
        notes.append(f"In {shown_places(empty)} there is no text that could be recognised.")
    left = tuple(place for place in document.pictures if place not in texts and place not in failed)
    truncated = document.truncated or bool(failed)
    return replace(
        document, sections=tuple(sections), notes=(*document.notes, *notes), truncated=truncated, pictures=left
    )


def shown_places(places: Sequence[str]) -> str:
    """Pages as people name them; a picture that is the whole document has no name of its own."""
    numbers = [page for place in places if (page := _page_of(place))]
    if not numbers:
        return "the document"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [name for run in runs for name in ([f"{run[0]} to {run[-1]}"] if len(run) > A_FEW else map(str, run))]
    if len(shown) == 1:
        return f"page{'s' if len(numbers) > 1 else ''} {shown[0]}"
    named, last = (shown[:MOST_RUNS], "more") if len(shown) > MOST_RUNS else (shown[:-1], shown[-1])
    return f"pages {', '.join(named)} and {last}"


def _page_of(place: str) -> int:
    """0 for what is no page; the process that said so may have been taken over."""
    number = place.removeprefix(PAGE)
    return int(number) if place != number and number.isdecimal() and len(number) <= LONGEST_NUMBER else 0
