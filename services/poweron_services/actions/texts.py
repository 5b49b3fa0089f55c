"""The texts of input documents, as actions show them to a model."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from poweron_events.event import UnreadDocument
from poweron_services.actions.action import InputDocument, Order, ReadDocument
from poweron_services.connectors.document_reader import UnreadableDocument, partly_read
from poweron_services.models.prompts import OutputFormat, ProcessPrompt, SourceText, Template

MARKDOWN = "text/markdown"
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


async def read_texts(
    documents: Sequence[InputDocument], read: ReadDocument, *, as_written: Container[str] = (MARKDOWN,)
) -> Reading:
    """Each document that can be read as markdown; one that cannot be read is noted, not fatal to the others.

    What an earlier step of the round could not read is not opened again: that takes up to a minute, and ends alike.
    `as_written` are the media types whose text is taken as it stands: an earlier action wrote it.
    """
    texts: list[SourceText] = []
    unread: list[UnreadDocument] = []
    partly: list[UnreadDocument] = []
    notes: list[str] = []
    for given in documents:
        if given.mime_type in as_written:
            written = (await given.load()).decode("utf-8", errors="replace")
            texts.append(SourceText(given.reference, given.name, written))
            continue
        if given.unread is not None:
            unread.append(given.unread)
            continue
        try:
            found = await read(given.load, given.size, given.name)
        except UnreadableDocument as error:
            unread.append(_of(given, error.document))
            continue
        texts.append(SourceText(given.reference, given.name, found.markdown()))
        if found.truncated:
            partly.append(_of(given, partly_read(given.name, found.notes)))
        else:
            notes += found.notes
    return Reading(texts, [*unread, *partly], notes)


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
