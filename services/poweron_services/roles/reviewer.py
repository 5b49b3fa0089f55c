"""The reviewer: judges a task when it stops, and writes the end of the round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, get_args

import structlog

from poweron_events.codes import BudgetCode, Code, StopCode
from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.event import ModelCall
from poweron_events.fold.state import Workflow, task_place
from poweron_events.round_events import (
    AnswerRejected,
    TaskReviewed,
)
from poweron_events.step_events import ApprovalDenied, Classification
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.answer_schemas import review_schema
from poweron_services.decider.defaults import language
from poweron_services.decider.result_files import all_unreadable
from poweron_services.decider.rules import ALL_MET, BudgetUsedUp, all_met, has_room_again, retries_used_up, used_up
from poweron_services.decider.size_limits import (
    fitting_improvements,
)
from poweron_services.models.answers import ReviewAnswer
from poweron_services.models.call import Caller
from poweron_services.models.prompts import ReviewPrompt, Template
from poweron_services.models.time_limit import failed_calls
from poweron_services.roles.prompt_context import (
    answer_rejected,
    final_rejection,
    history,
    progress,
    refusal,
    shown,
    updated_progress,
)
from poweron_services.roles.round_end import RoundEnding

log = structlog.get_logger()
REVIEW_TEMPLATE = Template.beside(__file__, "reviewer.v4.md")
MAX_SAID = 2_000  # characters of a review's reason
SAYS_WHY_IT_FAILED: Final = frozenset({"answers_rejected", "retry_limit", "step_limit", *get_args(BudgetCode)})
"""The reasons for stopping an attempt that are also the reasons why its task failed."""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Classify tasks with the model; code writes every failed or cancelled end without one."""

    caller: Caller
    content: ContentStore
    as_in_0_3: bool = False
    """Whether rounds end as they did until 0.3.0."""

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        if workflow.phase == "review":
            return [await self._review(workflow)]
        return [await RoundEnding(self.caller, self.content, self.as_in_0_3)(workflow)]

    async def _review(self, workflow: Workflow) -> TaskReviewed | AnswerRejected:
        task, last_refusal = workflow.task, final_rejection(workflow)
        if task.refused is not None:
            reason = f"The model's proposals were refused twice: {shown(task.refused)}"
            answer = ReviewAnswer(status="failed", reason=reason[:MAX_SAID])
            return review_task_completion(workflow, answer, None, "answers_rejected")
        if last_refusal is not None:
            message = f"The model's review could not be used. {last_refusal}"
            answer = _judgement(workflow, message)
            return review_task_completion(workflow, answer, None, "answers_rejected")
        try:
            has_room_again(workflow)
            decision = await self.caller.decide(workflow, create_review_prompt(workflow), ReviewAnswer)
        except BudgetUsedUp as error:
            answer = _judgement(workflow, str(error))
            return review_task_completion(workflow, answer, None, error.stop.code)
        if isinstance(decision.answer, Refused):
            return answer_rejected(workflow, decision.answer, decision.call)
        return review_task_completion(workflow, decision.answer, decision.call)


def review_task_completion(
    workflow: Workflow, answer: ReviewAnswer, call: ModelCall | None, code: StopCode | None = None
) -> TaskReviewed:
    """The judgement: success, retry or failed (L-07); a retry only if limit and budget allow one.

    `code` says why no model was asked or could answer.
    """
    no_retry = retries_used_up(workflow) if answer.status == "retry" else None
    status = "failed" if no_retry else _classification(workflow, answer)
    after = updated_progress(workflow, answer.criteria_progress)
    if status == "success":
        code = "criteria_met" if all_met(after) else "not_stated" if answer.status == "not_stated" else code
    return TaskReviewed(
        **task_place(workflow),
        status=status,
        reason=answer.reason if no_retry is None else f"{no_retry.sentence} {answer.reason}"[:MAX_SAID],
        code=no_retry.code if no_retry else code or _judgement_code(workflow, status, call),
        improvements=fitting_improvements(answer.improvements),
        criteria_progress=after,
        decided_by="guard" if call is None or no_retry else "model",
        model_call=call,
    )


def create_review_prompt(workflow: Workflow) -> ReviewPrompt:
    """The prompt that the review shows to the model."""
    task, step = workflow.task, workflow.step
    steps = tuple(message for message in history(workflow) if message.task == task.number and message.kind == "step")
    stop_code, stopped_because = _stop_reason(workflow)
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
        all_unreadable=all_unreadable(workflow),
        answer_schema=review_schema(len(task.plan.success_criteria), was_read=_was_read(workflow)),
        refusal=refusal(workflow),
    )


def _classification(workflow: Workflow, answer: ReviewAnswer) -> Classification:
    """The event's status; a task that read nothing cannot know what is not stated, so it failed."""
    if answer.status == "not_stated":
        return "success" if _was_read(workflow) else "failed"
    return answer.status


def _was_read(workflow: Workflow) -> bool:
    """Whether a step of the task succeeded: each one reads documents or pages."""
    number = workflow.task.number
    return any(
        message.kind == "step" and message.task == number and message.success for message in workflow.current.messages
    )


def _judgement_code(workflow: Workflow, status: Classification, call: ModelCall | None) -> Code:
    """The code of the judgement: a specific one if the facts give one, otherwise `judged_by_model`."""
    if status != "failed":
        return "judged_by_model"
    if (stop := used_up(workflow, [*filter(None, [call]), *failed_calls()], for_a_step=True)) is not None:
        return stop.code
    if isinstance(workflow.step.answer, ApprovalDenied):
        return "approval_expired" if workflow.step.answer.request is None else "approval_denied"
    stop_code, _ = _stop_reason(workflow)
    if stop_code is not None and stop_code in SAYS_WHY_IT_FAILED:
        return stop_code
    record = workflow.step.observation
    if record is not None and record.observation.code is not None:
        return record.observation.code  # the code of the action that failed last
    return "plan_failed" if stop_code == "plan_failed" else "judged_by_model"


def _stop_reason(workflow: Workflow) -> tuple[Code | None, str]:
    """Code and reason of the last refinement; a whole plan (Actionplan mode) ends without a refinement."""
    task, step = workflow.task, workflow.step
    if not task.planned:
        return task.stop_code, task.stopped or "The model gave no reason."
    assert step.observation is not None  # a whole plan is reviewed after an action
    if step.observation.observation.success:
        return "plan_done", "All planned actions are done."
    return "plan_failed", "A planned action failed; those after it were not tried."


def _judgement(workflow: Workflow, otherwise: str) -> ReviewAnswer:
    """The judgement of code if the model cannot judge."""
    is_met = all_met(progress(workflow))
    reason = ALL_MET if is_met else otherwise
    return ReviewAnswer(status="success" if is_met else "failed", reason=reason[:MAX_SAID])
