"""The reviewer: judges a task when it stops, and writes how the round ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, get_args

import structlog

from poweron_events.codec import writable
from poweron_events.codes import FOR_PEOPLE, BudgetCode, Code, StopCode
from poweron_events.content import ContentStore, MissingContent
from poweron_events.errors import PowerOnError, Refused
from poweron_events.event import AnyCall, DocumentRef, FailedCalls, ModelCall
from poweron_events.execution import ApprovalDenied
from poweron_events.fold.costs import charged
from poweron_events.fold.state import ChatMessage, Used, Workflow, task_place
from poweron_events.outcome import (
    MAX_MESSAGE,
    MAX_TOLD,
    AnswerRejected,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    TaskReviewed,
    Totals,
)
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.defaults import language
from poweron_services.decider.failed_steps import failed_steps, reviews
from poweron_services.decider.model_reasons import told
from poweron_services.decider.requested_formats import missing_formats
from poweron_services.decider.rules import ALL_MET, CANCELLED, WRITING, BudgetUsedUp, all_met, retries_used_up, used_up
from poweron_services.decider.size_limits import (
    DOCUMENTS_BUDGET,
    TEXT_BUDGET,
    fitting,
    fitting_improvements,
    fitting_text,
)
from poweron_services.decider.unread_documents import unread_documents
from poweron_services.decider.unwritten_message import why_unwritten
from poweron_services.decider.written_documents import written_documents
from poweron_services.models.answers import ReviewAnswer
from poweron_services.models.call import Caller
from poweron_services.models.prompts import MessagePrompt, ReviewPrompt, TaskResult, Template
from poweron_services.models.time_limit import AnswersLost, TimeLimit, failed_calls
from poweron_services.roles.criteria_progress import progress, updated_progress
from poweron_services.roles.prompt_context import history, refusal
from poweron_services.roles.rejections import answer_rejected, rejected_for_good, rejected_in_full, shown

log = structlog.get_logger()

REVIEW_TEMPLATE = Template.beside(__file__, "reviewer.v3.md")
MESSAGE_TEMPLATE = Template.beside(__file__, "message.v3.md")
MESSAGE_TIMEOUT = 60.0  # seconds: the work is done, and can no longer be cancelled
MAX_SAID = 2_000  # characters of a review's reason
MAX_DOCUMENTS = 100  # that an ending names
FACTS_BUDGET = 6_000  # bytes of what is said below a message
TOLD_BUDGET = 4_000  # bytes
MAX_REASON, REASON_BUDGET = 4_000, 8_000  # characters, bytes
MAX_DONE = 5  # steps and documents that the message of a failed round names
STEPS_FAILED = "Not every step worked:"
EMPTY_ANSWER = "Its answer was empty."
MAX_RESULT = 6_000  # characters of a task's written text that the final message is made from
SAYS_WHY_IT_FAILED: Final = frozenset({"answers_rejected", "retry_limit", "step_limit", *get_args(BudgetCode)})
"""Why an attempt stopped, where that is why its task failed, too."""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Classifies tasks with the model; every failed or cancelled end is written in code, without one."""

    caller: Caller
    content: ContentStore

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        if workflow.phase == "review":
            return [await self._review(workflow)]
        return [await self._end(workflow)]

    async def _review(self, workflow: Workflow) -> TaskReviewed | AnswerRejected:
        task, refused = workflow.task, rejected_for_good(workflow)
        if task.refused is not None:
            reason = f"The model's proposals were refused twice: {shown(task.refused)}"
            answer = ReviewAnswer(status="failed", reason=reason[:MAX_SAID])
            return review_task_completion(workflow, answer, None, "answers_rejected")
        if refused is not None:
            unusable = f"The model's review could not be used. {refused}"
            answer = _judged_by_progress(workflow, unusable)
            return review_task_completion(workflow, answer, None, "answers_rejected")
        try:
            decided = await self.caller.decide(workflow, create_review_prompt(workflow), ReviewAnswer)
        except BudgetUsedUp as error:
            answer = _judged_by_progress(workflow, str(error))
            return review_task_completion(workflow, answer, None, error.stop.code)
        if isinstance(decided.answer, Refused):
            return answer_rejected(workflow, decided.answer, decided.call)
        return review_task_completion(workflow, decided.answer, decided.call)

    async def _end(self, workflow: Workflow) -> RoundCompleted | RoundFailed | RoundCancelled:
        round_ = workflow.current
        if round_.ending == "completed":
            documents = written_documents(workflow)
            message, calls, failed, told = await self._final_message(workflow, documents)
            formats = missing_formats(workflow, [document.document_name for document in documents])
            said = _said(workflow, message, (*calls, *failed), formats, unread_documents(workflow))
            return RoundCompleted(**said, told=told, model_calls=calls, failed_calls=failed)
        reason = fitting_text(round_.reason[:MAX_REASON], REASON_BUDGET)
        if round_.ending == "cancelled":
            message = CANCELLED + (f" Reason: {round_.reason}" if round_.reason else "")
            return RoundCancelled(**_said(workflow, message), reason=reason)
        said, told = _said(workflow, failure_message(workflow)), told_of_failure(workflow)
        return RoundFailed(**said, told=told, reason=reason or "A task could not be done.", code=round_.code)

    async def _final_message(
        self, workflow: Workflow, documents: Sequence[DocumentRef]
    ) -> tuple[str, tuple[ModelCall, ...], tuple[FailedCalls, ...], str | None]:
        """The model's message; where it cannot write one, the results speak for themselves.

        Last comes what models of later rounds are told in its place.
        """
        prompt = MessagePrompt(
            template=MESSAGE_TEMPLATE,
            user_prompt=workflow.current.opening.prompt,
            language=language(workflow),
            results=await self._results(workflow),
            documents=tuple(document.document_name for document in documents),
        )
        seconds = min(MESSAGE_TIMEOUT, workflow.current.opening.stage_timeout_ms / 1000)
        limit = TimeLimit(seconds, "the final message")
        try:
            async with limit:
                called = await self.caller.call(workflow, prompt)
        except (PowerOnError, TimeoutError) as error:
            log.warning("no_final_message", workflow_id=workflow.id, error=str(error))
            why = writable(str(error)) or f"It has not answered within {seconds:g} s."
            calls = error.calls if isinstance(error, AnswersLost) else ()
            return _plain_message(prompt, why), calls, limit.failed_calls, _fitting_told(_plain_results(prompt))
        except Exception:
            log.exception("no_final_message", workflow_id=workflow.id)
            why = "An unexpected error; the log of the service has it."
            return _plain_message(prompt, why), (), limit.failed_calls, _fitting_told(_plain_results(prompt))
        if called.refusal is None:
            message = called.text.strip() or _plain_message(prompt, EMPTY_ANSWER)
        else:
            log.warning("no_final_message", workflow_id=workflow.id, error=str(called.refusal))
            message = _in_its_place(workflow, prompt, called.refusal.code)
        return message, (called.call,), limit.failed_calls, None

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
            failures=failed_steps(workflow, number),
            reviews=reviews(workflow, number),
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


def _said(workflow: Workflow, message: str, calls: Sequence[AnyCall] = (), *facts: str) -> _Said:
    """The message with the newest documents that fit beside it; how many do not is said. `calls` wrote it.

    `facts` are paragraphs that stand below the message whatever it says, and are not cut for its sake.
    """
    documents = written_documents(workflow)
    kept = fitting(documents[::-1][:MAX_DOCUMENTS], DOCUMENTS_BUDGET)[::-1]
    left_out = len(documents) - len(kept)
    named = f"{left_out} more documents were written; the steps of the history name them." if left_out else ""
    more = fitting_text("".join(f"\n\n{fact}" for fact in (*facts, named) if fact), FACTS_BUDGET)
    text = fitting_text(message[: MAX_MESSAGE - len(more)], TEXT_BUDGET - FACTS_BUDGET)
    return {
        "round": workflow.current.number,
        "message": text + more,
        "documents": kept,
        "totals": charged(workflow.current.totals, Used.by(calls)),
    }


def review_task_completion(
    workflow: Workflow, answer: ReviewAnswer, call: ModelCall | None, code: StopCode | None = None
) -> TaskReviewed:
    """The judgement: success, retry or failed (L-07); a retry only where limit and budget allow one.

    `code` says why no model was asked, or could answer.
    """
    no_retry = retries_used_up(workflow) if answer.status == "retry" else None
    after = updated_progress(workflow, answer.criteria_progress)
    if answer.status == "success" and all_met(after):
        code = "criteria_met"
    return TaskReviewed(
        **task_place(workflow),
        status=answer.status if no_retry is None else "failed",
        reason=answer.reason if no_retry is None else f"{no_retry.sentence} {answer.reason}"[:MAX_SAID],
        code=no_retry.code if no_retry else code or _why_reviewed_so(workflow, answer, call),
        improvements=fitting_improvements(answer.improvements),
        criteria_progress=after,
        decided_by="guard" if call is None or no_retry else "model",
        model_call=call,
    )


def create_review_prompt(workflow: Workflow) -> ReviewPrompt:
    """What the review shows to the model."""
    task, step = workflow.task, workflow.step
    steps = tuple(message for message in history(workflow) if message.task == task.number and message.kind == "step")
    stop_code, stopped_because = _why_stopped(workflow)
    return ReviewPrompt(
        template=REVIEW_TEMPLATE,
        language=language(workflow),
        objective=task.plan.objective,
        attempt=task.attempt,
        progress=progress(workflow),
        history=steps,
        last_observation=step.observation.observation if step.observation else None,
        stopped_because=stopped_because,
        stop_code=stop_code,
        retries_left=max(0, workflow.current.opening.max_retries - task.retries),
        refusal=refusal(workflow),
    )


def _why_reviewed_so(workflow: Workflow, answer: ReviewAnswer, call: ModelCall | None) -> Code:
    """Why the model came to its judgement, where code knows more of it than that the model did."""
    if answer.status != "failed":
        return "judged_by_model"
    if (stop := used_up(workflow, [*filter(None, [call]), *failed_calls()], for_a_step=True)) is not None:
        return stop.code
    if isinstance(workflow.step.answer, ApprovalDenied):
        return "approval_expired" if workflow.step.answer.request is None else "approval_denied"
    stop_code, _ = _why_stopped(workflow)
    if stop_code is not None and stop_code in SAYS_WHY_IT_FAILED:
        return stop_code
    seen = workflow.step.observation
    if seen is not None and seen.observation.code is not None:
        return seen.observation.code  # of the action that failed last
    return "plan_failed" if stop_code == "plan_failed" else "judged_by_model"


def _why_stopped(workflow: Workflow) -> tuple[Code | None, str]:
    """Code and reason of the last refinement; a whole plan (Actionplan mode) ends without one."""
    task, step = workflow.task, workflow.step
    if not task.planned:
        return task.stop_code, task.stopped or "The model gave no reason."
    assert step.observation is not None  # a whole plan is reviewed after an action
    if step.observation.observation.success:
        return "plan_done", "All planned actions are done."
    return "plan_failed", "A planned action failed; those after it were not tried."


def _judged_by_progress(workflow: Workflow, otherwise: str) -> ReviewAnswer:
    """What code judges where the model cannot."""
    met = all_met(progress(workflow))
    reason = ALL_MET if met else otherwise
    return ReviewAnswer(status="success" if met else "failed", reason=reason[:MAX_SAID])


def failure_message(workflow: Workflow) -> str:
    """What went wrong and what the user can do, in whole sentences and without a model: paragraphs in markdown."""
    return _failure(workflow, workflow.current.reason, *_for_people(workflow))


def told_of_failure(workflow: Workflow) -> str | None:
    """The same as models of later rounds are told it (S8); None where nothing of the message is for people alone."""
    reason, code = workflow.current.reason, workflow.current.code
    if code not in FOR_PEOPLE and not any(_for_people(workflow)):
        return None
    return _fitting_told(_failure(workflow, told(reason, code)))


def _for_people(workflow: Workflow) -> tuple[str, str]:
    """Why the last step failed and which model answered so, where no model may be told that."""
    problem = next((step.error for step in reversed(_failed_steps(workflow))), "")
    return problem, rejected_in_full(workflow) if workflow.current.code == "answers_rejected" else ""


def _fitting_told(said: str) -> str:
    return fitting_text(said[:MAX_TOLD], TOLD_BUDGET)


def _failed_steps(workflow: Workflow) -> list[ChatMessage]:
    return [message for message in workflow.current.messages if message.kind == "step" and not message.success]


def _failure(workflow: Workflow, why: str, problem: str = "", more: str = "") -> str:
    """`problem` stands in place of what the last step that failed has as its findings; `more` goes with the reason."""
    reason = why.strip() or "A task could not be done."
    done = [message for message in workflow.current.messages if message.kind == "step" and message.success]
    failed = _failed_steps(workflow)
    written = written_documents(workflow)
    stop = "" if reason.endswith((".", "!", "?", "…")) else "."
    paragraphs = [" ".join(filter(None, (f"The request could not be completed. {reason}{stop}", more)))]
    if failed:
        paragraphs.append(f"The last problem met was: {problem or ' '.join(failed[-1].findings) or failed[-1].summary}")
    if done:
        paragraphs += ["Done before that:", "\n".join(f"- {step.summary}" for step in done[-MAX_DONE:])]
    if written:
        names = ", ".join(document.document_name for document in written[-MAX_DONE:])
        paragraphs.append(f"Written before that: {names}.")
    paragraphs.append("Nothing is lost: the history shows every step.")
    return "\n\n".join(paragraphs)


def _in_its_place(workflow: Workflow, prompt: MessagePrompt, code: Code) -> str:
    """What stands in place of a message that came only in part, or not at all; why stands above what may be cut."""
    why = why_unwritten(workflow, code)
    return f"{why}\n\n{_plain_results(prompt)}" if why else _plain_message(prompt, EMPTY_ANSWER)


def _plain_message(prompt: MessagePrompt, why: str) -> str:
    unwritten = f"The model wrote no final message, so the results stand here as they are. {why}"
    return f"{_plain_results(prompt)}\n\n{unwritten}"


def _plain_results(prompt: MessagePrompt) -> str:
    """The results as they are, and the steps that failed: nobody is to take the ones for all that was asked for."""
    texts = [result.text or result.summary for result in prompt.results if result.text or result.summary]
    failed = [f"- {failure}" for result in prompt.results for failure in result.failures]
    told = [STEPS_FAILED, "\n".join(failed)] if failed else []
    return "\n\n".join((*texts, *told)) or "The request is completed."
