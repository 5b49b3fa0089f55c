"""The reviewer: judges a task when it stops, and writes how the round ends."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import structlog

from poweron_events.content import ContentStore, MissingContent
from poweron_events.errors import PowerOnError
from poweron_events.event import DocumentRef, ModelCall
from poweron_events.fold.state import ChatMessage, Workflow, task_place
from poweron_events.outcome import MAX_MESSAGE, RoundCancelled, RoundCompleted, RoundFailed, TaskReviewed, Totals
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.defaults import language
from poweron_services.decider.rules import all_met
from poweron_services.models.answers import ReviewAnswer
from poweron_services.models.call import Caller
from poweron_services.models.prompts import MessagePrompt, ReviewPrompt, TaskResult, Template
from poweron_services.roles.fitting import DOCUMENTS_BUDGET, TEXT_BUDGET, fitting, fitting_text
from poweron_services.roles.progress import progress, updated_progress
from poweron_services.roles.prompting import history

log = structlog.get_logger()

REVIEW_TEMPLATE = Template.beside(__file__, "reviewer.v1.md")
MESSAGE_TEMPLATE = Template.beside(__file__, "message.v1.md")
MAX_IMPROVEMENT = 500  # characters
MAX_DOCUMENTS = 100  # that an ending names
MAX_REASON, REASON_BUDGET = 4_000, 8_000  # characters, bytes
MAX_RESULT = 6_000  # characters of a task's written text that the final message is made from
WRITING = ("ai.process", "document.generateReport")


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Classifies tasks with the model; every failed or cancelled end is written in code, without one."""

    caller: Caller
    content: ContentStore

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        if workflow.phase == "review":
            return [await self.review_task_completion(workflow)]
        return [await self._end(workflow)]

    async def review_task_completion(self, workflow: Workflow) -> TaskReviewed:
        """Judge the task: success, retry or failed (L-07)."""
        task = workflow.task
        place = task_place(workflow)
        if task.refused is not None:
            return TaskReviewed(
                **place,
                status="failed",
                reason=f"The model's proposals were refused twice: {task.refused}"[:2_000],
                criteria_progress=progress(workflow),
                decided_by="guard",
            )
        decided = await self.caller.decide_twice(workflow.id, create_review_prompt(workflow), ReviewAnswer)
        answer = decided.answer or _judged_by_progress(workflow, decided.refusal)
        return TaskReviewed(
            **place,
            status=answer.status,
            reason=answer.reason,
            improvements=tuple(improvement[:MAX_IMPROVEMENT] for improvement in answer.improvements),
            criteria_progress=updated_progress(workflow, answer.criteria_progress),
            decided_by="guard" if decided.answer is None else "model",
            model_call=decided.call,
        )

    async def _end(self, workflow: Workflow) -> RoundCompleted | RoundFailed | RoundCancelled:
        round_ = workflow.current
        if round_.ending == "completed":
            message, calls = await self._final_message(workflow, written_documents(round_.messages))
            return RoundCompleted(**_said(workflow, message), model_calls=calls)
        reason = fitting_text(round_.reason[:MAX_REASON], REASON_BUDGET)
        if round_.ending == "cancelled":
            message = "The round was cancelled." + (f" Reason: {round_.reason}" if round_.reason else "")
            return RoundCancelled(**_said(workflow, message), reason=reason)
        return RoundFailed(**_said(workflow, failure_message(workflow)), reason=reason or "A task could not be done.")

    async def _final_message(
        self, workflow: Workflow, documents: Sequence[DocumentRef]
    ) -> tuple[str, tuple[ModelCall, ...]]:
        """The model's message; where it cannot write one, the results speak for themselves."""
        prompt = MessagePrompt(
            template=MESSAGE_TEMPLATE,
            user_prompt=workflow.current.opening.prompt,
            language=language(workflow),
            results=await self._results(workflow),
            documents=tuple(document.document_name for document in documents),
        )
        try:
            async with asyncio.timeout(workflow.current.opening.stage_timeout_ms / 1000):
                called = await self.caller.call(workflow.id, prompt)
        except (PowerOnError, TimeoutError) as error:
            log.warning("the model wrote no final message", workflow_id=workflow.id, error=str(error))
            return _plain_message(prompt), ()
        except Exception:
            log.exception("the model wrote no final message", workflow_id=workflow.id)
            return _plain_message(prompt), ()
        return called.text.strip() or _plain_message(prompt), (called.call,)

    async def _results(self, workflow: Workflow) -> tuple[TaskResult, ...]:
        return tuple([await self._result(workflow, number) for number in range(1, len(workflow.current.tasks) + 1)])

    async def _result(self, workflow: Workflow, number: int) -> TaskResult:
        steps = [
            message
            for message in workflow.current.messages
            if message.task == number and message.kind == "step" and message.success
        ]
        writing = [message for message in steps if message.action in WRITING and message.documents]
        return TaskResult(
            objective=workflow.current.tasks[number - 1].objective,
            status="success",
            summary=steps[-1].summary if steps else "",
            text=await self._text(workflow.id, writing[-1].documents[0]) if writing else "",
        )

    async def _text(self, workflow_id: str, document: DocumentRef) -> str:
        try:
            text = (await self.content.get(workflow_id, document.content)).decode("utf-8", errors="replace")
        except MissingContent:
            return ""
        return text[:MAX_RESULT]


class _Said(TypedDict):
    """What every ending says."""

    round: int
    message: str
    documents: tuple[DocumentRef, ...]
    totals: Totals


def _said(workflow: Workflow, message: str) -> _Said:
    """The message with the newest documents that fit beside it; how many do not is said."""
    documents = written_documents(workflow.current.messages)
    kept = fitting(documents[::-1][:MAX_DOCUMENTS], DOCUMENTS_BUDGET)[::-1]
    left_out = len(documents) - len(kept)
    more = f"\n\n{left_out} more documents were written; the steps in `poweron history` name them." if left_out else ""
    text = fitting_text(message[: MAX_MESSAGE - len(more)], TEXT_BUDGET)
    return {
        "round": workflow.current.number,
        "message": text + more,
        "documents": kept,
        "totals": workflow.current.totals,
    }


def written_documents(messages: Sequence[ChatMessage]) -> tuple[DocumentRef, ...]:
    """What the round wrote for the user: the documents of its writing steps, the newest of each name."""
    named: dict[str, DocumentRef] = {}
    for message in messages:
        if message.kind == "step" and message.success and message.action in WRITING:
            named.update({document.document_name: document for document in message.documents})
    return tuple(named.values())


def create_review_prompt(workflow: Workflow) -> ReviewPrompt:
    """What the review shows to the model."""
    task, step = workflow.task, workflow.step
    steps = tuple(message for message in history(workflow) if message.task == task.number and message.kind == "step")
    return ReviewPrompt(
        template=REVIEW_TEMPLATE,
        objective=task.plan.objective,
        progress=progress(workflow),
        history=steps,
        last_observation=step.observation.observation if step.observation else None,
        stopped_because="the loop stopped",
        retries_left=max(0, workflow.current.opening.max_retries - task.retries),
    )


def _judged_by_progress(workflow: Workflow, refusal: str) -> ReviewAnswer:
    met = all_met(progress(workflow))
    reason = "All success criteria are met." if met else f"The model's review could not be used. {refusal}"
    return ReviewAnswer(status="success" if met else "failed", reason=reason[:2_000])


def failure_message(workflow: Workflow) -> str:
    """What went wrong and what the user can do, in whole sentences and without a model."""
    reason = workflow.current.reason.strip() or "A task could not be done"
    steps = [message for message in workflow.current.messages if message.kind == "step" and not message.success]
    lines = [f"The request could not be completed. {reason.rstrip('.')}."]
    if steps:
        lines.append(f"The last problem met was: {steps[-1].summary}")
    lines.append(
        "Nothing is lost: `poweron history` shows every step. Change the request or its documents and ask again."
    )
    return "\n".join(lines)


def _plain_message(prompt: MessagePrompt) -> str:
    texts = [result.text or result.summary for result in prompt.results if result.text or result.summary]
    return "\n\n".join(texts) or "The request is completed."
