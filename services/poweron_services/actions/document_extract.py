"""`document.extract`: the text and tables of documents, as markdown with a heading for every page or section."""

from dataclasses import dataclass

from poweron_events.catalog import CATALOG, ActionSpec, DocumentExtractParameters
from poweron_events.event import UnreadDocument
from poweron_events.execution import ActionResult
from poweron_services.actions.action import Done, Order, ReadDocument, document, none_read
from poweron_services.actions.texts import MARKDOWN, process_prompt
from poweron_services.connectors.document_reader import UnreadableDocument, partly_read
from poweron_services.models.prompts import SourceText


@dataclass(frozen=True, slots=True)
class DocumentExtract:
    """Reads each document; one that cannot be read is noted, not fatal to the others."""

    read: ReadDocument
    spec: ActionSpec = CATALOG["document.extract"]

    async def __call__(self, order: Order) -> Done:
        parameters = DocumentExtractParameters.model_validate(order.parameters)
        texts, unread, notes = await _extract_all(order, self.read)
        documents = [document(f"{text.name}.md", text.text, MARKDOWN) for text in texts]
        if parameters.ai_prompt:
            called = await order.ask(process_prompt(order, parameters.ai_prompt, texts))
            documents.append(document("extract.md", called.text, MARKDOWN))
        return Done(ActionResult(success=True, documents=tuple(documents)), tuple(notes), tuple(unread))


async def _extract_all(order: Order, read: ReadDocument) -> tuple[list[SourceText], list[UnreadDocument], list[str]]:
    texts: list[SourceText] = []
    unread: list[UnreadDocument] = []
    partly: list[UnreadDocument] = []
    notes: list[str] = []
    for given in order.documents:
        try:
            found = await read(given.data, given.name)
        except UnreadableDocument as error:
            unread.append(error.document)
            continue
        texts.append(SourceText(given.reference, given.name, found.markdown()))
        if found.truncated:
            partly.append(partly_read(given.name, found.notes))
        else:
            notes += found.notes
    if not texts:
        raise none_read(unread, "There is no document to extract text from.")
    return texts, [*unread, *partly], notes
