"""The texts of input documents, as actions show them to a model."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from poweron_events.event import CitedSource, UnreadDocument
from poweron_services.actions.action import InputDocument, Order, ReadDocument
from poweron_services.actions.cited_sources import MARKDOWN, numbered
from poweron_services.connectors.document_reader import UnreadableDocument, partly_read
from poweron_services.decider.citations import renumbered
from poweron_services.decider.source_list import with_list
from poweron_services.models.prompts import OutputFormat, ProcessPrompt, SourceText, Template

TEMPLATE = Template.beside(__file__, "process.v2.md")
PAGES_TEMPLATE = Template.beside(__file__, "process_pages.v1.md")
"""Where pages of the web are among the texts: statements are to name them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The texts of documents, and what a person should know about how they were read."""

    texts: Sequence[SourceText]
    unread: Sequence[UnreadDocument]
    """Those of which nothing was read, then those of which a part was not."""
    notes: Sequence[str]
    sources: Sequence[CitedSource] = ()
    """The pages that are among the texts or cited in them, by their numbers; none where there are no pages."""

    def listed(self, language: str | None) -> list[SourceText]:
        """The texts, below each that cites pages the list of these."""
        return [replace(text, text=with_list(text.text, self.cited_by(text), language)) for text in self.texts]

    def marked(self) -> list[str]:
        """The texts as a report joins them: each page with its number, and no other `[n]` that looks like one."""
        return [self._marked(text) if self.sources else text.text for text in self.texts]

    def _marked(self, text: SourceText) -> str:
        if text.cites:
            return text.text
        own = renumbered(text.text, {})
        if text.number is None:
            return own
        first, _, rest = own.partition("\n")
        return f"{first} [{text.number}]\n{rest}" if first.startswith("#") else f"[{text.number}]\n\n{own}"

    def cited_by(self, text: SourceText) -> tuple[CitedSource, ...]:
        """The sources that a text cites, under the numbers that it cites them by."""
        return tuple(self.sources[number - 1] for number in text.cites)


async def read_texts(
    documents: Sequence[InputDocument], read: ReadDocument, *, as_written: Container[str] = (MARKDOWN,)
) -> Reading:
    """Each document that can be read as markdown; one that cannot be read is noted, not fatal to the others.

    What an earlier step of the round could not read is not opened again: that takes up to a minute, and ends alike.
    `as_written` are the media types whose text is taken as it stands: an earlier action wrote it. So it did that of
    every page, whose text is kept as the bytes that its quotes are looked for in.
    """
    texts: list[tuple[InputDocument, SourceText]] = []
    unread: list[UnreadDocument] = []
    partly: list[UnreadDocument] = []
    notes: list[str] = []
    for given in documents:
        if given.mime_type in as_written or given.page is not None:
            written = (await given.load()).decode("utf-8", errors="replace")
            texts.append((given, SourceText(given.reference, given.name, written)))
            continue
        if given.unread is not None:
            unread.append(given.unread)
            continue
        try:
            found = await read(given.load, given.size, given.name)
        except UnreadableDocument as error:
            unread.append(_of(given, error.document))
            continue
        texts.append((given, SourceText(given.reference, given.name, found.markdown())))
        if found.truncated:
            partly.append(_of(given, partly_read(given.name, found.notes)))
        else:
            notes += found.notes
    shown, sources = numbered(texts)
    return Reading(shown, [*unread, *partly], notes, sources)


def _of(given: InputDocument, said: UnreadDocument) -> UnreadDocument:
    """With the bytes of which it was said."""
    return said.model_copy(update={"content": given.content})


def process_prompt(
    order: Order,
    ai_prompt: str,
    texts: Sequence[SourceText],
    *,
    output_format: OutputFormat = "markdown",
    custom_instructions: str = "",
) -> ProcessPrompt:
    """The prompt by which a model answers from texts."""
    return ProcessPrompt(
        template=PAGES_TEMPLATE if any(text.number or text.cites for text in texts) else TEMPLATE,
        ai_prompt=ai_prompt,
        custom_instructions=custom_instructions,
        language=order.language,
        output_format=output_format,
        documents=tuple(texts),
    )
