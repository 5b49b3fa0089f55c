"""`document.extract`: the text and tables of documents, as markdown with a heading for every page or section."""

from dataclasses import dataclass, replace

from poweron_events.catalog import CATALOG, ActionSpec, DocumentExtractParameters
from poweron_events.step_events import ActionResult, DocumentCoverage
from poweron_services.actions.action import Done, Order, Origin, ReadDocument, document, none_read
from poweron_services.actions.document_answer import answer_from, with_sentence
from poweron_services.actions.process_prompts import DocumentTask, request_beside
from poweron_services.actions.source_numbers import MARKDOWN, cited_answer
from poweron_services.actions.texts import read_texts
from poweron_services.text.provenance import marked_markdown


@dataclass(frozen=True, slots=True)
class DocumentExtract:
    """Reads each document; one that cannot be read is noted, and the others are still read."""

    read: ReadDocument
    window: int
    """How many characters the model accepts."""
    spec: ActionSpec = CATALOG["document.extract"]

    async def __call__(self, order: Order) -> Done:
        parameters = DocumentExtractParameters.model_validate(order.parameters)
        reading = await read_texts(order.documents, self.read, as_written=(), tell_progress=order.tell_progress)
        if not reading.texts:
            raise none_read(reading.unread, "There is no document to extract text from.")
        texts = reading.listed(order.language)
        documents = [document(f"{text.name}.md", text.text, MARKDOWN) for text in texts]
        model_texts = {source.reference for source in order.documents if source.written_by_model}
        origins = [
            Origin(text.page, sources=reading.cited_by(text), by_model=text.reference in model_texts) for text in texts
        ]
        notes, coverage = [*reading.notes], tuple[DocumentCoverage, ...]()
        if parameters.ai_prompt:
            task = DocumentTask(parameters.ai_prompt, order.language, request_beside(parameters.ai_prompt, order))
            document_answer = await answer_from(order, task, texts, self.window)
            notes, coverage = [*document_answer.notes, *notes], document_answer.coverage
            text = with_sentence(document_answer.text, reading.shortcomings, "markdown")
            answer = cited_answer(text, reading.sources, "markdown", order.language)
            mark = await order.find_provenance()
            numbered = None if mark is None else replace(mark, number=len(documents) + 1)
            documents.append(document("extract.md", marked_markdown(answer.text, numbered), MARKDOWN))
            origins.append(Origin(sources=answer.sources, by_model=True))
            notes += answer.notes
        return Done(
            ActionResult(success=True, documents=tuple(documents)),
            tuple(notes),
            tuple(reading.unread),
            origins=tuple(origins),
            coverage=coverage,
        )
