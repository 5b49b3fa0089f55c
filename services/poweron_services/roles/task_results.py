"""The result of each task of a round, from which its final message is made, and the web pages that it cites."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from poweron_events.catalog import WRITING
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Workflow
from poweron_services.actions.source_numbers import SourceNumbers
from poweron_services.decider.step_failures import failed_steps, reviews
from poweron_services.models.prompts import TaskResult
from poweron_services.text.citations import cited_numbers
from poweron_services.text.format_wishes import asked_formats
from poweron_services.text.language_detection import detect
from poweron_services.text.source_list import source_list

TEXTS = ("text/plain", "text/markdown")
MAX_RESULT = 6_000  # characters of a task's text from which the final message is made
MAX_ANSWER = 2_000  # characters of an answer that serves as the final message


@dataclass(slots=True)
class TaskResults:
    """The results of a round's tasks; a page has the same number in all of them, regardless of its number in each."""

    results: Sequence[TaskResult] = ()
    numbers: SourceNumbers = field(default_factory=SourceNumbers)

    def sources_of(self, message: str, language: str | None) -> str:
        """The list of the sources that a message cites; "" if it cites none."""
        numbers = cited_numbers(message)
        sources = [source for source in self.numbers.sources if source.n in numbers]
        return source_list(sources, language or detect(message) or "en") if sources else ""


async def task_results(workflow: Workflow, content: ContentStore, *, with_read: bool = True) -> TaskResults:
    """Return the results of the open round's tasks.

    Args:
        workflow: the workflow whose round ends.
        content: the store of the texts.
        with_read: whether what a task read is its result if it wrote nothing; until 0.3.0 it was not.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    collection = TaskResults()
    collection.results = [
        await _result(workflow, number, content, collection.numbers, with_read=with_read)
        for number in range(1, len(workflow.current.tasks) + 1)
    ]
    return collection


def own_answer(workflow: Workflow, results: Sequence[TaskResult], documents: Sequence[DocumentRef]) -> str:
    """The answer that needs no message about it, or "".

    It is the round's only text, if it is short and every criterion is met, or the review's sentence that what was
    read does not say it. A model that rephrases either adds nothing, costs a call, and may change a number.
    """
    if len(results) == 1 and workflow.current.code == "not_stated" and not asked_formats(workflow):
        return workflow.current.reason.strip()
    if len(results) != 1 or len(documents) != 1 or results[0].failures or workflow.current.code != "criteria_met":
        return ""
    steps = [message for message in workflow.current.messages if message.kind == "step" and message.success]
    is_answer = bool(steps) and steps[-1].action == "ai.process" and documents[0].mime_type in TEXTS
    text = results[0].text.strip()
    return text if is_answer and len(text) <= MAX_ANSWER and not asked_formats(workflow) else ""


async def _result(
    workflow: Workflow, number: int, content: ContentStore, numbers: SourceNumbers, *, with_read: bool
) -> TaskResult:
    steps = [
        message
        for message in workflow.current.messages
        if message.task == number and message.kind == "step" and message.success
    ]
    writing = [message for message in steps if message.action in WRITING and message.documents]
    reading_steps = [message for message in steps if message.documents] if with_read else []
    documents = [step.documents[0] for step in (writing or reading_steps)[-1:]]
    return TaskResult(
        objective=workflow.current.tasks[number - 1].objective,
        status="success",
        summary=steps[-1].summary if steps else "",
        text="".join([await _text(workflow.id, document, content, numbers) for document in documents]),
        only_read=not writing,
        failures=failed_steps(workflow, number),
        reviews=reviews(workflow, number),
    )


async def _text(workflow_id: str, document: DocumentRef, content: ContentStore, numbers: SourceNumbers) -> str:
    try:
        text = (await content.get(workflow_id, document.content)).decode("utf-8", errors="replace")
    except MissingContent:
        return ""
    return numbers.taken_over(text, document.sources, document.mime_type)[:MAX_RESULT]
