"""The texts of input documents, as actions show them to a model."""

from collections.abc import Sequence

from poweron_events.event import UnreadDocument
from poweron_services.actions.action import InputDocument, Order, ReadDocument
from poweron_services.connectors.document_reader import UnreadableDocument
from poweron_services.models.prompts import OutputFormat, ProcessPrompt, SourceText, Template

MARKDOWN = "text/markdown"
TEMPLATE = Template.beside(__file__, "process.v2.md")


async def text_of(given: InputDocument, read: ReadDocument) -> str:
    """A document's text as markdown; what an earlier action wrote as text is taken as it stands.

    Raises:
        UnreadableDocument: the document cannot be read.
    """
    if given.mime_type == MARKDOWN:
        return given.data.decode("utf-8", errors="replace")
    return (await read(given.data, given.name)).markdown()


async def texts_of(
    documents: Sequence[InputDocument], read: ReadDocument
) -> tuple[list[tuple[InputDocument, str]], list[UnreadDocument]]:
    """Each document that can be read with its text, and those that cannot."""
    texts: list[tuple[InputDocument, str]] = []
    unread: list[UnreadDocument] = []
    for given in documents:
        try:
            texts.append((given, await text_of(given, read)))
        except UnreadableDocument as error:
            unread.append(error.document)
    return texts, unread


def process_prompt(
    order: Order,
    ai_prompt: str,
    texts: list[SourceText],
    *,
    output_format: OutputFormat = "markdown",
    custom_instructions: str = "",
) -> ProcessPrompt:
    """The prompt by which a model answers from texts."""
    return ProcessPrompt(
        template=TEMPLATE,
        ai_prompt=ai_prompt,
        custom_instructions=custom_instructions,
        language=order.language,
        output_format=output_format,
        documents=tuple(texts),
    )
