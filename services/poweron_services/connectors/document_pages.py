"""Read all pages of one document, with one child process after another, or with several while slots are free.

If a child fails on a page, a note names that page, and the next child reads the rest. When time runs out, the pages
read so far are kept, and a note names the missing ones. One child reads a document without pages.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, NamedTuple

from poweron_events.codes import UnreadCode
from poweron_events.errors import Unavailable
from poweron_services.connectors.document_child import ChildMessage, hear
from poweron_services.connectors.documents_child.document import ExtractedDocument, Section
from poweron_services.connectors.documents_child.limits import MEGABYTE, ReadLimits
from poweron_services.connectors.documents_child.readers import clean
from poweron_services.fair_slots import FairSlots

MOST_LOST = 5  # pages of one document on which a child may fail; after one more, reading stops
MOST_BESIDE = 10_000  # items of one kind besides the text, such as links
PARTS = 8  # into which the rest of a very long document is split, at most

OnPage = Callable[[int, int | None], None]
"""Reports progress: called with the number of pages read and the page count, which is None while unknown."""

BESIDE = [each.name for each in fields(ExtractedDocument) if each.default == ()]
"""The fields of a document besides its text; every child may contribute to them."""


class Pages(NamedTuple):
    """An inclusive range of pages."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"Page {self.first}" if self.first == self.last else f"Pages {self.first} to {self.last}"


@dataclass(slots=True)
class PagesReading:
    """The state of reading one document."""

    data: bytes
    name: str
    limits: ReadLimits
    on_page: OnPage | None = None
    places: FairSlots | None = None
    heard: dict[int, ChildMessage] = field(default_factory=dict)
    """The output of each child, keyed by the first page that it was asked for."""
    waiting: deque[Pages] = field(default_factory=deque)
    missing: list[str] = field(default_factory=list)
    """A sentence about each part that was not read."""
    counted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the page count is known, or can no longer become known."""
    lost: int = 0
    until: float = 0.0

    async def read(self) -> None:
        """Run children until no pages are waiting."""
        self.until = time.monotonic() + self.limits.document_seconds
        self.waiting.append(Pages(1, self.limits.pages))
        if self.places is not None:
            async with asyncio.TaskGroup() as group:
                working = group.create_task(self._work())
                working.add_done_callback(lambda _: self.counted.set())
                await self.counted.wait()
                for _ in range(len(self.waiting)):
                    group.create_task(self._help(self.places))
        await self._work(to_the_end=True)

    def document(self) -> ExtractedDocument | None:
        """Return everything that was read, or None if nothing was."""
        messages = [self.heard[first] for first in sorted(self.heard)]
        ends = [message.document for message in messages if message.document is not None]
        sections = tuple(chain.from_iterable(message.sections for message in messages))
        if not sections and not ends:
            return None
        return ExtractedDocument(
            name=" ".join(clean(self.name).split()),
            mime_type=self.heard[1].mime_type,
            sections=tuple(_truncate(sections, self.limits)),
            truncated=bool(self.missing) or any(message.truncated for message in messages),
            notes=tuple(
                dict.fromkeys([*chain.from_iterable(message.sentences for message in messages), *self.missing])
            ),
            **{name: _concatenate(getattr(end, name) for end in ends) for name in BESIDE},
        )

    def why_unread(self) -> tuple[str, UnreadCode]:
        """Return the reason why nothing was read, and its code."""
        first = self.heard[1]
        if first.unreadable:
            return first.unreadable, first.code
        if first.timed_out:
            return _too_slow(self.limits), "document_timeout"
        return _silent(self.limits), "document_damaged"

    async def _work(self, *, to_the_end: bool = False) -> None:
        """Read the waiting pages; if no process can be started, leave them waiting, and raise only if `to_the_end`."""
        while self.waiting:
            pages = self.waiting.popleft()
            try:
                await self._ask(pages)
            except Unavailable:
                self.waiting.appendleft(pages)
                if to_the_end:
                    raise
                return

    async def _help(self, places: FairSlots) -> None:
        """Read waiting pages in another slot, as long as one is free."""
        while self.waiting and not places.locked():
            async with places:
                pages = self.waiting.popleft()
                try:
                    await self._ask(pages)
                except Unavailable:
                    self.waiting.appendleft(pages)
                    return

    async def _ask(self, pages: Pages) -> None:
        left = self.until - time.monotonic()
        if left <= 0 or self.lost > MOST_LOST:
            self._miss(pages, "there was no time left." if left <= 0 else "too many pages before could not be read.")
            return
        seconds = min(self.limits.wall_seconds, left)
        limits = replace(self.limits, first_page=pages.first, pages=pages.last - pages.first + 1, wall_seconds=seconds)
        self.heard[pages.first] = message = ChildMessage(limits)
        await hear(self.data, self.name, message, self._go_on)
        self._go_on()
        if message.pages is None:
            self._judge_whole(message)
        else:
            self._judge(pages, message, message.pages)

    def _go_on(self) -> None:
        """Queue the remaining pages as soon as the first child has counted them, and report progress."""
        in_all = self.heard[1].pages
        if in_all is not None and not self.counted.is_set():
            self.waiting += _parts(self.limits.pages + 1, in_all, self.limits.pages)
            self.counted.set()
        self._tell_pages()

    def _judge_whole(self, message: ChildMessage) -> None:
        """Record what is missing if only a part of a document without pages was read."""
        if message.document is not None or not message.sections:
            return
        after = message.sections[-1].locator or "a part"
        if message.cut:
            self.missing.append(_truncation_note(self.limits))
        elif message.timed_out:
            self.missing.append(f"Reading took too long and ended after {after}.")
        else:
            self.missing.append(f"Reading ended after {after}; what follows is damaged, or takes too much memory.")

    def _judge(self, pages: Pages, message: ChildMessage, page_count: int) -> None:
        """Queue the pages to read next, depending on what the child has read of these."""
        if message.cut or self._characters >= self.limits.characters:
            self.missing.append(_truncation_note(self.limits))
            self.waiting.clear()
            return
        next_page, last = max(message.last_page, pages.first - 1) + 1, min(pages.last, page_count)
        if next_page <= last and message.failed and time.monotonic() < self.until:
            self.lost += 1
            self._miss(Pages(next_page, next_page), "it is damaged, or takes too much time or memory.")
            next_page += 1
        if next_page <= last:
            self.waiting.appendleft(Pages(next_page, last))

    def _miss(self, pages: Pages, reason: str) -> None:
        verb = "was" if pages.first == pages.last else "were"
        self.missing.append(f"{pages} {verb} not read: {reason}")

    @property
    def _characters(self) -> int:
        return sum(len(section.text) for message in self.heard.values() for section in message.sections)

    def _tell_pages(self) -> None:
        if self.on_page is None:
            return
        pages = self.heard[1].pages
        if pages is None:
            count = len(self.heard[1].sections)
            self.on_page(count, count if self.heard[1].document else None)
        else:
            self.on_page(sum(max(0, message.last_page - first + 1) for first, message in self.heard.items()), pages)


def _concatenate(groups: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Concatenate and deduplicate, up to `MOST_BESIDE` items."""
    return tuple(dict.fromkeys(chain.from_iterable(groups)))[:MOST_BESIDE]


def _parts(first: int, last: int, least: int) -> Iterator[Pages]:
    size = max(least, -(-(last - first + 1) // PARTS))
    for start in range(first, last + 1, size):
        yield Pages(start, min(last, start + size - 1))


def _truncate(sections: Sequence[Section], limits: ReadLimits) -> Iterator[Section]:
    """Truncate the sections to the limits of one document, which several children together may exceed."""
    left = limits.characters
    for section in sections[: limits.sections]:
        if left > 0:
            yield section if len(section.text) <= left else replace(section, text=section.text[:left])
        left -= len(section.text)


def _truncation_note(limits: ReadLimits) -> str:
    return f"The text was cut off after {limits.characters:,} characters."


def _too_slow(limits: ReadLimits) -> str:
    return (
        f"could not be read within {limits.wall_seconds:g} seconds, so nothing of it was used; "
        f"hand over a smaller part of it."
    )


def _silent(limits: ReadLimits) -> str:
    return (
        f"could not be read within {limits.memory_bytes // MEGABYTE} MB of memory "
        f"and {limits.cpu_seconds} s of work; it is damaged or far too large: check it and hand it over again."
    )
