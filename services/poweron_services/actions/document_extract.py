"""`document.extract`: the text and tables of documents, as markdown with a heading for every page or section."""

from dataclasses import dataclass

from poweron_events.catalog import CATALOG, ActionSpec, DocumentExtractParameters
from poweron_events.execution import ActionResult
from poweron_services.actions.action import Done, Failed, Order, ReadDocument, document
from poweron_services.actions.texts import MARKDOWN, process_prompt
from poweron_services.connectors.document_reader import UnreadableDocument
from poweron_services.models.prompts import SourceText


@dataclass(frozen=True, slots=True)
class DocumentExtract:
    """Reads each document; one that cannot be read is noted, not fatal to the others."""

    read: ReadDocument
    spec: ActionSpec = CATALOG["document.extract"]

    async def __call__(self, order: Order) -> Done:
        parameters = DocumentExtractParameters.model_validate(order.parameters)
        texts, notes = await _extract_all(order, self.read)
        documents = [document(f"{text.name}.md", text.text, MARKDOWN) for text in texts]
        if parameters.ai_prompt:
            called = await order.ask(process_prompt(order, parameters.ai_prompt, texts))
            documents.append(document("extract.md", called.text, MARKDOWN))
        return Done(ActionResult(success=True, documents=tuple(documents)), tuple(notes))


async def _extract_all(order: Order, read: ReadDocument) -> tuple[list[SourceText], list[str]]:
    texts: list[SourceText] = []
    unread: list[str] = []
    notes: list[str] = []
    for given in order.documents:
        try:
            found = await read(given.data, given.name)
        except UnreadableDocument as error:
            unread.append(str(error))
            continue
        texts.append(SourceText(given.reference, given.name, found.markdown()))
        notes += found.notes
    if not texts:
        raise Failed(*(unread or ["There is no document to extract text from."]))
    return texts, [*unread, *notes]  # the loop is told the first ones only
