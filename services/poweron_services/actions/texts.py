"""The texts of input documents, as actions show them to a model.

The documents are read concurrently. One that cannot be read is reported; an error of this machine cancels the others.
"""

import asyncio
import re
import sys
from collections.abc import Container, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from poweron_events.event import CitedSource, UnreadDocument
from poweron_services.actions.action import InputDocument, ReadDocument, TellProgress, no_progress
from poweron_services.actions.source_numbers import MARKDOWN, numbered
from poweron_services.connectors.document_reader import ExtractedDocument, UnreadableDocument, partly_read
from poweron_services.decider.result_files import PARTLY
from poweron_services.models.prompts import SourceText
from poweron_services.text.citations import renumbered, with_list
from poweron_services.text.provenance import without_mark

HELD: Final = 200_000_000  # bytes of text that one step holds in memory


_METADATA: Final = re.compile(r"^## metadata\n\n(?:- [^\n]*\n)+\n*", re.MULTILINE)


AT_ONCE: Final = 16  # documents in flight at once; the machine limits how many are read at a time


@dataclass(frozen=True, slots=True)
class Reading:
    """The texts of documents, and what a user should know about how they were read."""

    texts: Sequence[SourceText]
    unread: Sequence[UnreadDocument]
    """The documents of which nothing was read, then those of which a part was not."""
    notes: Sequence[str]
    sources: Sequence[CitedSource] = ()
    """The web pages among the texts or cited in them, ordered by number; none if there are no pages."""

    @property
    def shortcomings(self) -> str:
        """What was left out of the documents that were read, as sentences; empty if nothing was."""
        partly = [document.reason for document in self.unread if document.code == PARTLY]
        return " ".join([*self.notes, *partly])

    def listed(self, language: str | None) -> list[SourceText]:
        """Return the texts, each with a list of the pages that it cites below it."""
        return [replace(text, text=with_list(text.text, self.cited_by(text), language)) for text in self.texts]

    def marked(self) -> list[str]:
        """Return the texts as a report joins them: pages with their numbers, and no other `[n]` like them."""
        return [self._marked(text) if self.sources else text.text for text in self.texts]

    def _marked(self, text: SourceText) -> str:
        if text.cites:
            return text.text
        own_text = renumbered(text.text, {})
        if text.number is None:
            return own_text
        first, _, rest = own_text.partition("\n")
        return f"{first} [{text.number}]\n{rest}" if first.startswith("#") else f"[{text.number}]\n\n{own_text}"

    def cited_by(self, text: SourceText) -> tuple[CitedSource, ...]:
        """Return the sources that a text cites, under the numbers that it uses."""
        return tuple(self.sources[number - 1] for number in text.cites)


async def read_texts(
    documents: Sequence[InputDocument],
    read: ReadDocument,
    *,
    as_written: Container[str] = (MARKDOWN,),
    with_metadata: bool = True,
    tell_progress: TellProgress = no_progress,
) -> Reading:
    """Read each document as markdown; one that cannot be read is noted, and the others are still read.

    A document that an earlier step of the round could not read is not opened again, which would take up to a minute
    and fail the same way. `as_written` are the media types whose text is used unchanged, since an earlier action wrote
    it. The text of a web page is also used unchanged, since quotes are looked up in exactly these bytes.
    """
    reader = _Texts(read, as_written, with_metadata, tell_progress, len(documents))
    outcomes = await side_by_side(map(reader.text, documents))
    texts = [
        (document, outcome.text)
        for document, outcome in zip(documents, outcomes, strict=True)
        if outcome.text is not None
    ]
    numbered_texts, sources = numbered(texts)
    unread = [outcome.unread for outcome in outcomes if outcome.unread and outcome.text is None]
    partly = [outcome.unread for outcome in outcomes if outcome.unread and outcome.text is not None]
    return Reading(
        numbered_texts, [*unread, *partly], [note for outcome in outcomes for note in outcome.notes], sources
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """The result of reading one document."""

    text: SourceText | None = None
    unread: UnreadDocument | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Texts:
    """Reads documents concurrently, and reports progress."""

    read: ReadDocument
    as_written: Container[str]
    with_metadata: bool
    tell_progress: TellProgress
    count: int
    done: int = 0
    held: int = 0
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def text(self, document: InputDocument) -> _Read:
        async with self.places:
            outcome = await self._text(document)
        self.done += 1
        self.tell_progress("documents_read", self.done, self.count)
        if outcome.text is None:
            return outcome
        size = sys.getsizeof(outcome.text.text)
        if self.held and self.held + size > HELD:
            return _Read(unread=_of(document, too_much(document.name)))
        self.held += size
        return outcome

    async def _text(self, source: InputDocument) -> _Read:
        if source.mime_type in self.as_written or source.page is not None:
            text = without_mark((await source.load()).decode("utf-8", errors="replace"))
            body = text if source.page is not None else await asyncio.to_thread(self._without_metadata, text)
            return _Read(SourceText(source.reference, source.name, body))
        if source.unread is not None:
            return _Read(unread=source.unread)
        try:
            document = await self.read(source.load, source.size, source.name, on_page=self._on_page)
        except UnreadableDocument as error:
            return _Read(unread=_of(source, error.document))
        return await asyncio.to_thread(self._of_document, source, document)

    def _of_document(self, source: InputDocument, document: ExtractedDocument) -> _Read:
        text = SourceText(source.reference, source.name, self._without_metadata(document.markdown()))
        if document.truncated:
            return _Read(text, _of(source, partly_read(source.name, document.notes)))
        return _Read(text, notes=tuple(f"{source.name!r}: {note}" for note in document.notes))

    def _without_metadata(self, markdown: str) -> str:
        return markdown if self.with_metadata else _METADATA.sub("", markdown)

    def _on_page(self, done: int, total: int | None) -> None:
        """Report the pages of the last remaining document; before that, progress counts the documents read."""
        if self.count - self.done == 1:
            self.tell_progress("pages_read", done, total)


def too_much(name: str) -> UnreadDocument:
    """Report a document as left out, since the others fill the memory that one step may use."""
    reason = f"was left out: the other documents already hold {HELD // 1_000_000} MB of text; ask about it by itself."
    return UnreadableDocument(name, reason, "document_too_large").document


def _of(source: InputDocument, report: UnreadDocument) -> UnreadDocument:
    """Return the report with the commitment of the document's bytes."""
    return report.model_copy(update={"content": source.content})


Result = TypeVar("Result")


async def side_by_side(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run the work concurrently and return the results in its order; if one raises, the others are cancelled."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        return [*await asyncio.gather(*tasks)]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
