"""`ai.process`: a model answers a question from documents, or writes from them."""

import csv
import io
import re
from dataclasses import dataclass, replace
from typing import Final

import orjson

from poweron_events.catalog import CATALOG, ActionSpec, AiProcessParameters
from poweron_events.execution import ActionResult
from poweron_services.actions.action import Done, Failed, Order, Origin, ReadDocument, document, none_read
from poweron_services.actions.cited_sources import cited_answer
from poweron_services.actions.texts import process_prompt, read_texts
from poweron_services.models.prompts import OutputFormat

MIME_TYPES: dict[OutputFormat, str] = {"markdown": "text/markdown", "json": "application/json", "csv": "text/csv"}
ENDINGS: dict[OutputFormat, str] = {"markdown": "md", "json": "json", "csv": "csv"}

FENCE: Final = "```"
FENCE_TAKEN_OFF: Final = "The code fence around the output was taken off."
_FENCED: Final = re.compile(
    r"\s*(?P<fence>`{3,})[ \t]*(?P<format>\w*)[ \t]*\r?\n(?P<inside>.*?)\r?\n(?P=fence)\s*", re.DOTALL
)


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
            [replace(text, name=text.name.removesuffix(".md")) for text in found.listed(order.language)],
            output_format=output_format,
            custom_instructions=parameters.custom_instructions,
        )
        called = await order.ask(prompt)
        text = without_fence(called.text, output_format)
        check_format(text, output_format)
        answer = cited_answer(text, found.sources, output_format, order.language)
        written = document(f"answer.{ENDINGS[output_format]}", answer.text, MIME_TYPES[output_format])
        notes = found.notes if text == called.text else (*found.notes, FENCE_TAKEN_OFF)
        return Done(
            ActionResult(success=True, documents=(written,)),
            (*notes, *answer.notes),
            tuple(found.unread),
            origins=(Origin(sources=answer.sources),) if answer.sources else (),
        )


def without_fence(text: str, output_format: OutputFormat) -> str:
    """Output of a machine-readable format without the code fence around the whole of it; any other as it stands."""
    found = None if output_format == "markdown" else _FENCED.fullmatch(text)
    if found is None or found["format"].casefold() not in ("", output_format):
        return text
    return text if f"\n{found['fence']}" in f"\n{found['inside']}" else found["inside"]


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
    if any(len(row) == 1 and row[0].startswith(FENCE) for row in rows):
        raise Failed("The output is not valid CSV: a code fence stands in it.", code="output_invalid")
    if len({len(row) for row in rows}) > 1:
        raise Failed("The output is not valid CSV: its rows differ in their number of cells.", code="output_invalid")
