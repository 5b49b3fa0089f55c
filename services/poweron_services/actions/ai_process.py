"""`ai.process`: a model answers a question from documents of any length, or writes from them."""

from dataclasses import dataclass, replace

from poweron_events.catalog import CATALOG, ActionSpec, AiProcessParameters
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Done, Order, Origin, ReadDocument, none_read
from poweron_services.actions.document_answer import answer_from, with_sentence
from poweron_services.actions.output_formats import as_document
from poweron_services.actions.process_prompts import DocumentTask, request_beside
from poweron_services.actions.source_numbers import cited_answer
from poweron_services.actions.texts import read_texts
from poweron_services.models.prompts import OutputFormat


@dataclass(frozen=True, slots=True)
class AiProcess:
    """Shows the model the relevant text of the documents and keeps what it writes, after checking the format."""

    read: ReadDocument
    window: int
    """How many characters the model accepts."""
    spec: ActionSpec = CATALOG["ai.process"]

    async def __call__(self, order: Order) -> Done:
        parameters = AiProcessParameters.model_validate(order.parameters)
        output_format: OutputFormat = next(iter(parameters.expected_document_formats), "markdown")
        reading = await read_texts(
            order.documents,
            self.read,
            with_metadata=parameters.include_metadata,
            tell_progress=order.tell_progress,
        )
        if order.documents and not reading.texts:
            raise none_read(reading.unread, "There is no document to read.")
        task = DocumentTask(
            prompt=parameters.ai_prompt,
            language=order.language,
            request=request_beside(parameters.ai_prompt, order),
            output_format=output_format,
            custom_instructions=parameters.custom_instructions,
            mode=parameters.processing_mode,
        )
        texts = [replace(text, name=text.name.removesuffix(".md")) for text in reading.listed(order.language)]
        document_answer = await answer_from(order, task, texts, self.window)
        text = with_sentence(document_answer.text, reading.shortcomings, document_answer.output_format)
        answer = cited_answer(text, reading.sources, document_answer.output_format, order.language)
        return Done(
            ActionResult(
                success=True,
                documents=(
                    as_document(
                        answer.text, document_answer.output_format, order.language, await order.find_provenance()
                    ),
                ),
            ),
            (*document_answer.notes, *reading.notes, *answer.notes),
            tuple(reading.unread),
            origins=(Origin(sources=answer.sources),) if answer.sources else (),
            coverage=document_answer.coverage,
        )
