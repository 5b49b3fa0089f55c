"""`ai.process`: a model answers a question from documents, or writes from them."""

import csv
import io
from dataclasses import dataclass, replace

import orjson

from poweron_events.catalog import CATALOG, ActionSpec, AiProcessParameters
from poweron_events.execution import ActionResult
from poweron_services.actions.action import Done, Failed, Order, ReadDocument, document, none_read
from poweron_services.actions.texts import process_prompt, read_texts
from poweron_services.models.prompts import OutputFormat

MIME_TYPES: dict[OutputFormat, str] = {"markdown": "text/markdown", "json": "application/json", "csv": "text/csv"}
ENDINGS: dict[OutputFormat, str] = {"markdown": "md", "json": "json", "csv": "csv"}


@dataclass(frozen=True, slots=True)
class AiProcess:
    """Shows the documents' text to the model and keeps what it writes; JSON and CSV are checked as such."""

    read: ReadDocument
    spec: ActionSpec = CATALOG["ai.process"]

    async def __call__(self, order: Order) -> Done:
        parameters = AiProcessParameters.model_validate(order.parameters)
        output_format: OutputFormat = next(iter(parameters.expected_document_formats), "markdown")
        found = await read_texts(order.documents, self.read)
        if order.documents and not found.texts:
            raise none_read(found.unread, "There is no document to read.")
        prompt = process_prompt(
            order,
            parameters.ai_prompt,
            [replace(text, name=text.name.removesuffix(".md")) for text in found.texts],
            output_format=output_format,
            custom_instructions=parameters.custom_instructions,
        )
        called = await order.ask(prompt)
        check_format(called.text, output_format)
        written = document(f"answer.{ENDINGS[output_format]}", called.text, MIME_TYPES[output_format])
        return Done(ActionResult(success=True, documents=(written,)), tuple(found.notes), tuple(found.unread))


def check_format(text: str, output_format: OutputFormat) -> None:
    """Refuse output that is not what was asked for.

    Raises:
        Failed: says what is wrong with it.
    """
    if not text.strip():
        raise Failed("The model wrote nothing.", code="answer_empty")
    try:
        if output_format == "json":
            orjson.loads(text)
        elif output_format == "csv":
            _check_csv(text)
    except (orjson.JSONDecodeError, csv.Error) as error:
        raise Failed(f"The output is not valid {output_format.upper()}: {error}", code="output_invalid") from error


def _check_csv(text: str) -> None:
    rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    if len({len(row) for row in rows}) > 1:
        raise Failed("The output is not valid CSV: its rows differ in their number of cells.", code="output_invalid")
