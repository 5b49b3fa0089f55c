"""After an action: whether to go on, and in the end whether the task is done."""

from collections.abc import Iterable
from typing import Literal

from poweron_events.event import CriterionProgress
from poweron_events.refinement import Classification
from poweron_services.decider.approval import UNAPPROVED
from poweron_services.decider.rules import STOPS_EVERY_ATTEMPT, WRITING
from poweron_services.models.answers import RefinementAnswer, ReviewAnswer
from poweron_services.models.prompts import RefinementPrompt, ReviewPrompt

ANSWER_NEXT = "Answer the request from the text that was read."
READ_DIRECTLY = "Answer from the documents of the request directly; ai.process reads them by itself."
WRITE_PLAINLY = "Write the result with ai.process."
HALF_WAY = 400  # thousandths of a criterion, once the documents are read


def refine(prompt: RefinementPrompt) -> str:
    """Continue or stop."""
    succeeded, final = prompt.observation.success, prompt.selected_action in WRITING
    if succeeded and final:
        return _stop("success", "The result is written and states its sources.", _all_met(prompt.progress))
    if prompt.steps_left < 1:
        return _stop("failed", "No steps are left.", prompt.progress)
    if succeeded:
        return _go_on(prompt)
    if prompt.selected_action == "ai.process" or prompt.observation.code in UNAPPROVED:
        return _stop("failed", f"{prompt.selected_action} failed.", prompt.progress)
    return _try_again(prompt)


def review(prompt: ReviewPrompt) -> str:
    """What the task came to."""
    met = bool(prompt.progress) and all(one.met for one in prompt.progress)
    if met or _has_result(prompt):
        return _reviewed("success", "All criteria are met.", _all_met(prompt.progress))
    if prompt.retries_left and _has_another_way(prompt):
        return _reviewed("retry", "The request was not answered yet.", prompt.progress, (READ_DIRECTLY,))
    return _reviewed("failed", prompt.stopped_because or "The request could not be answered.", prompt.progress)


def _has_another_way(prompt: ReviewPrompt) -> bool:
    """Whether the documents may still be read directly; what a person denied is not done by a detour."""
    if prompt.last_observation is not None and prompt.last_observation.code in UNAPPROVED:
        return False
    answered = any(message.action == "ai.process" for message in prompt.history)
    return not answered and prompt.stop_code not in STOPS_EVERY_ATTEMPT


def _go_on(prompt: RefinementPrompt) -> str:
    progress = tuple(_at_least(one, HALF_WAY) for one in prompt.progress)
    reason = f"The documents are read ({prompt.observation.documents_count}); the answer is still to be written."
    return _refined("continue", reason, "success", progress, hint=ANSWER_NEXT)


def _try_again(prompt: RefinementPrompt) -> str:
    improvement = WRITE_PLAINLY if prompt.selected_action == "document.generateReport" else READ_DIRECTLY
    reason = f"{prompt.selected_action} failed."
    return _refined("continue", reason, "retry", prompt.progress, hint=improvement, improvements=(improvement,))


def _stop(classification: Classification, reason: str, progress: Iterable[CriterionProgress]) -> str:
    return _refined("stop", reason, classification, tuple(progress))


def _refined(
    decision: Literal["continue", "stop"],
    reason: str,
    classification: Classification,
    progress: tuple[CriterionProgress, ...],
    *,
    hint: str | None = None,
    improvements: tuple[str, ...] = (),
) -> str:
    return RefinementAnswer(
        decision=decision,
        reason=reason[:2_000],
        hint=hint,
        classification=classification,
        improvements=improvements,
        criteria_progress=progress[:20],
    ).model_dump_json(by_alias=True)


def _reviewed(
    status: Classification, reason: str, progress: tuple[CriterionProgress, ...], improvements: tuple[str, ...] = ()
) -> str:
    return ReviewAnswer(
        status=status, reason=reason[:2_000], improvements=improvements, criteria_progress=progress[:20]
    ).model_dump_json(by_alias=True)


def _has_result(prompt: ReviewPrompt) -> bool:
    """Whether the newest step wrote a result."""
    newest = next((message for message in prompt.history if message.kind == "step"), None)
    return newest is not None and newest.action in WRITING and newest.success is True


def _all_met(progress: tuple[CriterionProgress, ...]) -> tuple[CriterionProgress, ...]:
    return tuple(CriterionProgress(criterion=one.criterion, met=True, progress=1000) for one in progress)


def _at_least(one: CriterionProgress, thousandths: int) -> CriterionProgress:
    return one.model_copy(update={"progress": max(one.progress, thousandths)})
