"""The end of a round: the results of its tasks, the web pages that they cite, and the final message.

A model writes only the message of a completed round, unless the round's single answer is its message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import structlog

from poweron_events.catalog import WRITING
from poweron_events.codec import writable
from poweron_events.codes import FOR_PEOPLE, Code
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent, PowerOnError
from poweron_events.event import AnyCall, DocumentRef, FailedCalls, ModelCall
from poweron_events.fold.costs import charged
from poweron_events.fold.state import ChatMessage, Used, Workflow
from poweron_events.round_events import (
    MAX_MESSAGE,
    MAX_TOLD,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    Totals,
)
from poweron_services.actions.source_numbers import SourceNumbers
from poweron_services.decider.defaults import language, why_unwritten
from poweron_services.decider.model_reasons import reason_for_models
from poweron_services.decider.result_files import missing_formats, unread_documents, written_documents
from poweron_services.decider.rules import CANCELLED
from poweron_services.decider.size_limits import (
    DOCUMENTS_BUDGET,
    TEXT_BUDGET,
    fitting,
    fitting_text,
)
from poweron_services.decider.step_failures import failed_steps, reviews, without_success
from poweron_services.models.call import Caller
from poweron_services.models.prompts import MessagePrompt, TaskResult, Template
from poweron_services.models.time_limit import AnswersLost, TimeLimit
from poweron_services.roles.prompt_context import rejected_in_full
from poweron_services.text.citations import cited_numbers, source_list
from poweron_services.text.format_wishes import asked_formats
from poweron_services.text.language_detection import detect
from poweron_services.text.provenance import without_mark

TOLD_BUDGET = 4_000  # bytes


MAX_DONE = 5  # steps and documents that the message of a failed round names


log = structlog.get_logger()


MESSAGE_TEMPLATE = Template.beside(__file__, "message.v4.md")


MESSAGE_TIMEOUT = 60.0  # seconds: the work is done, and can no longer be cancelled


MAX_DOCUMENTS = 100  # documents that an ending names


FACTS_BUDGET = 6_000  # bytes of the facts below a message


MAX_REASON, REASON_BUDGET = 4_000, 8_000  # characters, bytes


STEPS_FAILED = "Not every step worked:"


EMPTY_ANSWER = "Its answer was empty."


UNUSABLE_ANSWER = "Its answer could not be used."


@dataclass(frozen=True, slots=True)
class RoundEnding:
    """Write how a round ended."""

    caller: Caller
    content: ContentStore
    as_in_0_3: bool = False
    """Whether a model writes every message and is not shown what was only read."""

    async def __call__(self, workflow: Workflow) -> RoundCompleted | RoundFailed | RoundCancelled:
        round_ = workflow.current
        if round_.ending == "completed":
            documents = written_documents(workflow)
            results = await task_results(workflow, self.content, with_read=not self.as_in_0_3)
            message, calls, failed, told = await self._final_message(workflow, results.results, documents)
            formats = missing_formats(workflow, [document.document_name for document in documents])
            sources = results.sources_of(message, language(workflow))
            facts = (formats, unread_documents(workflow), without_success(workflow), sources)
            fields = _common_fields(workflow, message, (*calls, *failed), *facts)
            return RoundCompleted(**fields, told=told, model_calls=calls, failed_calls=failed)
        reason = fitting_text(round_.reason[:MAX_REASON], REASON_BUDGET)
        if round_.ending == "cancelled":
            message = CANCELLED + (f" Reason: {round_.reason}" if round_.reason else "")
            return RoundCancelled(**_common_fields(workflow, message), reason=reason)
        fields, told = _common_fields(workflow, failure_message(workflow)), told_of_failure(workflow)
        return RoundFailed(**fields, told=told, reason=reason or "A task could not be done.", code=round_.code)

    async def _final_message(
        self, workflow: Workflow, results: Sequence[TaskResult], documents: Sequence[DocumentRef]
    ) -> tuple[str, tuple[ModelCall, ...], tuple[FailedCalls, ...], str | None]:
        """The model's message or, if it cannot write one, the plain results.

        The last item of the tuple is the text that models of later rounds see instead of the message, or None.
        """
        answer = "" if self.as_in_0_3 else own_answer(workflow, results, documents)
        if answer:
            return answer, (), (), None
        prompt = MessagePrompt(
            template=MESSAGE_TEMPLATE,
            user_prompt=workflow.current.opening.prompt,
            language=language(workflow),
            results=tuple(results),
            documents=tuple(document.document_name for document in documents),
        )
        seconds = min(MESSAGE_TIMEOUT, workflow.current.opening.stage_timeout_ms / 1000)
        limit = TimeLimit(seconds, "the final message", pauses=True)
        try:
            async with limit:
                reply = await self.caller.call(workflow, prompt)
        except (PowerOnError, TimeoutError) as error:
            log.warning("no_final_message", workflow_id=workflow.id, error=str(error))
            reason = writable(str(error)) or f"It has not answered within {seconds:g} s."
            calls = error.calls if isinstance(error, AnswersLost) else ()
            return _plain_message(prompt, reason), calls, limit.failed_calls, fitting_told(_plain_results(prompt))
        except Exception:
            log.exception("no_final_message", workflow_id=workflow.id)
            reason = "An unexpected error; the log of the service has it."
            return _plain_message(prompt, reason), (), limit.failed_calls, fitting_told(_plain_results(prompt))
        if reply.refusal is None:
            message = reply.text.strip() or _plain_message(prompt, EMPTY_ANSWER)
        else:
            log.warning("no_final_message", workflow_id=workflow.id, error=str(reply.refusal))
            message = _in_its_place(workflow, prompt, reply.refusal.code)
        return message, (reply.call,), limit.failed_calls, None


class _CommonFields(TypedDict):
    """The fields that every ending has."""

    round: int
    message: str
    documents: tuple[DocumentRef, ...]
    totals: Totals


def _common_fields(workflow: Workflow, message: str, calls: Sequence[AnyCall] = (), *facts: str) -> _CommonFields:
    """The message, with the newest documents that fit and the number of those that do not. `calls` wrote it.

    `facts` are paragraphs that always appear below the message and are not shortened to make room for it.
    """
    documents = written_documents(workflow)
    newest = fitting(documents[::-1][:MAX_DOCUMENTS], DOCUMENTS_BUDGET)[::-1]
    left_out = len(documents) - len(newest)
    note = f"{left_out} more documents were written; the steps of the history name them." if left_out else ""
    appendix = fitting_text("".join(f"\n\n{fact}" for fact in (*facts, note) if fact), FACTS_BUDGET)
    text = fitting_text(message[: MAX_MESSAGE - len(appendix)], TEXT_BUDGET - FACTS_BUDGET)
    return {
        "round": workflow.current.number,
        "message": text + appendix,
        "documents": newest,
        "totals": charged(workflow.current.totals, Used.by(calls)),
    }


def _in_its_place(workflow: Workflow, prompt: MessagePrompt, code: Code) -> str:
    """What replaces a partial or missing message; the reason comes first, above what may be cut."""
    reason = why_unwritten(workflow, code)
    if reason:
        return f"{reason}\n\n{_plain_results(prompt)}"
    return _plain_message(prompt, EMPTY_ANSWER if code == "answer_empty" else UNUSABLE_ANSWER)


def _plain_message(prompt: MessagePrompt, reason: str) -> str:
    note = f"The model wrote no final message, so these are the results as they are. {reason}"
    return f"{_plain_results(prompt)}\n\n{note}"


def _plain_results(prompt: MessagePrompt) -> str:
    """The results as they are, followed by the failed steps, so that the results do not pass for a complete answer."""
    answers = ("" if result.only_read else result.text for result in prompt.results)
    texts = [text or result.summary for text, result in zip(answers, prompt.results, strict=True)]
    failures = [f"- {failure}" for result in prompt.results for failure in result.failures]
    sections = [STEPS_FAILED, "\n".join(failures)] if failures else []
    return "\n\n".join(filter(None, (*texts, *sections))) or "The request is completed."


def failure_message(workflow: Workflow) -> str:
    """Say what went wrong and what the user can do, in whole sentences and without a model: paragraphs in markdown."""
    return _failure(workflow, workflow.current.reason, *_for_people(workflow))


def told_of_failure(workflow: Workflow) -> str | None:
    """The message as models of later rounds see it (S8), or None if they may see all of the user's message."""
    reason, code = workflow.current.reason, workflow.current.code
    if code not in FOR_PEOPLE and not any(_for_people(workflow)):
        return None
    return fitting_told(_failure(workflow, reason_for_models(reason, code)))


def _for_people(workflow: Workflow) -> tuple[str, str]:
    """The reason why the last step failed, and the model that gave the answer, if these are for people only."""
    problem = next((step.error for step in reversed(_failed_steps(workflow))), "")
    return problem, rejected_in_full(workflow) if workflow.current.code == "answers_rejected" else ""


def fitting_told(text: str) -> str:
    return fitting_text(text[:MAX_TOLD], TOLD_BUDGET)


def _failed_steps(workflow: Workflow) -> list[ChatMessage]:
    return [message for message in workflow.current.messages if message.kind == "step" and not message.success]


def _failure(workflow: Workflow, cause: str, problem: str = "", more: str = "") -> str:
    """Write the message; `problem` replaces the findings of the last failed step, and `more` follows the reason."""
    reason = cause.strip() or "A task could not be done."
    successes = [message for message in workflow.current.messages if message.kind == "step" and message.success]
    failures = _failed_steps(workflow)
    documents = written_documents(workflow)
    stop = "" if reason.endswith((".", "!", "?", "…")) else "."
    paragraphs = [" ".join(filter(None, (f"The request could not be completed. {reason}{stop}", more)))]
    if failures:
        paragraphs.append(
            f"The last problem met was: {problem or ' '.join(failures[-1].findings) or failures[-1].summary}"
        )
    if successes:
        paragraphs += ["Done before that:", "\n".join(f"- {step.summary}" for step in successes[-MAX_DONE:])]
    if documents:
        names = ", ".join(document.document_name for document in documents[-MAX_DONE:])
        paragraphs.append(f"Written before that: {names}.")
    paragraphs.append("The history shows every step.")
    return "\n\n".join(paragraphs)


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

    It is the round's only text, if it is short and every criterion is met, or the review's sentence that the documents
    do not state the answer. A model that rephrases either adds nothing, costs a call, and may change a number.
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
        text = without_mark((await content.get(workflow_id, document.content)).decode("utf-8", errors="replace"))
    except MissingContent:
        return ""
    return numbers.taken_over(text, document.sources, document.mime_type)[:MAX_RESULT]
