"""The prompts for a task on texts: on whole texts, on passages, on a part, or on the answers from parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from poweron_events.catalog import ProcessingMode
from poweron_services.actions.action import Order
from poweron_services.actions.output_formats import FORMS
from poweron_services.models.prompts import Extent, OutputFormat, ProcessPrompt, SourceText, Template

TEMPLATE: Final = Template.beside(__file__, "process.v5.md")
PAGES_TEMPLATE: Final = Template.beside(__file__, "process_pages.v3.md")
"""Used if web pages are among the texts: statements must name them."""
PART_TEMPLATE: Final = Template.beside(__file__, "process_part.v1.md")
ANSWERS_TEMPLATE: Final = Template.beside(__file__, "process_answers.v2.md")


@dataclass(frozen=True, slots=True)
class DocumentTask:
    """What a model must do with documents."""

    prompt: str
    language: str | None
    request: str = ""
    """What the user asked for; "" if that is the task itself."""
    output_format: OutputFormat = "markdown"
    custom_instructions: str = ""
    mode: ProcessingMode = "advanced"


def request_beside(task: str, order: Order) -> str:
    """Return the request of which the task is a part; "" if they are the same."""
    return order.request if order.request.strip() != task.strip() else ""


def process_prompt(
    task: DocumentTask,
    texts: Sequence[SourceText],
    extent: Extent = "whole",
    *,
    part: tuple[int, int] = (0, 0),
    output_format: OutputFormat | None = None,
) -> ProcessPrompt:
    """Build the prompt to do the task from texts; `part` is the number of the part and how many there are."""
    cites = any(text.number or text.cites for text in texts)
    result_format = output_format or task.output_format
    templates = {"part": PART_TEMPLATE, "answers": ANSWERS_TEMPLATE}
    return ProcessPrompt(
        template=templates.get(extent, PAGES_TEMPLATE if cites else TEMPLATE),
        ai_prompt=task.prompt,
        request=task.request,
        custom_instructions=task.custom_instructions,
        language=task.language,
        output_format=result_format,
        form=FORMS.get(result_format, ""),
        documents=tuple(texts),
        extent=extent,
        part=part[0],
        parts=part[1],
    )
