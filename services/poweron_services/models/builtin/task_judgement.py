"""After an action: whether to go on, and in the end whether the task is done."""

from typing import Final

from poweron_events.event import CriterionProgress
from poweron_events.refinement import Classification
from poweron_services.decider.approval import UNAPPROVED
from poweron_services.decider.rules import STOPS_EVERY_ATTEMPT, WRITING
from poweron_services.models.answers import RefinementAnswer, ReviewAnswer
from poweron_services.models.prompts import RefinementPrompt, ReviewPrompt

ANSWER_NEXT: Final = "Answer the request from the text that was read."
READ_DIRECTLY: Final = "Answer from the documents of the request directly; ai.process reads them by itself."
WRITE_PLAINLY: Final = "Write the result with ai.process."
NO_ANSWER: Final = "The request could not be answered."
HALF_WAY = 400  # thousandths of a criterion, once the documents are read

Progress = tuple[CriterionProgress, ...]


def refine(prompt: RefinementPrompt) -> str:
    """Continue or stop."""
    return _refined(prompt).model_dump_json(by_alias=True)


def review(prompt: ReviewPrompt) -> str:
    """What the task came to."""
    return _reviewed(prompt).model_dump_json(by_alias=True)


def _refined(prompt: RefinementPrompt) -> RefinementAnswer:
    succeeded, failed = prompt.observation.success, f"{prompt.selected_action} failed."
    if succeeded and prompt.selected_action in WRITING:
        return _stopped("success", "The result is written and states its sources.", _all_met(prompt.progress))
    if prompt.steps_left < 1:
        return _stopped("failed", "No steps are left.", prompt.progress)
    if succeeded:
        return RefinementAnswer(
            decision="continue",
            reason=f"The documents are read ({prompt.observation.documents_count}); the answer is still to be written.",
            hint=ANSWER_NEXT,
            classification="success",
            criteria_progress=_at_least(HALF_WAY, prompt.progress),
        )
    if prompt.selected_action == "ai.process" or prompt.observation.code in UNAPPROVED:
        return _stopped("failed", failed, prompt.progress)
    improvement = WRITE_PLAINLY if prompt.selected_action == "document.generateReport" else READ_DIRECTLY
    return RefinementAnswer(
        decision="continue",
        reason=failed,
        hint=improvement,
        classification="retry",
        improvements=(improvement,),
        criteria_progress=prompt.progress,
    )


def _stopped(classification: Classification, reason: str, progress: Progress) -> RefinementAnswer:
    return RefinementAnswer(decision="stop", reason=reason, classification=classification, criteria_progress=progress)


def _reviewed(prompt: ReviewPrompt) -> ReviewAnswer:
    progress = prompt.progress
    if (progress and all(one.met for one in progress)) or _has_result(prompt):
        return ReviewAnswer(status="success", reason="All criteria are met.", criteria_progress=_all_met(progress))
    if prompt.retries_left and _has_another_way(prompt):
        reason = "The request was not answered yet."
        return ReviewAnswer(status="retry", reason=reason, improvements=(READ_DIRECTLY,), criteria_progress=progress)
    return ReviewAnswer(status="failed", reason=prompt.stopped_because or NO_ANSWER, criteria_progress=progress)


def _has_another_way(prompt: ReviewPrompt) -> bool:
    """Whether the documents may still be read directly; what a person denied is not done by a detour."""
    if prompt.last_observation is not None and prompt.last_observation.code in UNAPPROVED:
        return False
    answered = any(message.action == "ai.process" for message in prompt.history)
    return not answered and prompt.stop_code not in STOPS_EVERY_ATTEMPT


def _has_result(prompt: ReviewPrompt) -> bool:
    """Whether the newest step wrote a result."""
    newest = next((message for message in prompt.history if message.kind == "step"), None)
    return newest is not None and newest.action in WRITING and newest.success is True


def _all_met(progress: Progress) -> Progress:
    return tuple(CriterionProgress(criterion=one.criterion, met=True, progress=1000) for one in progress)


def _at_least(thousandths: int, progress: Progress) -> Progress:
    return tuple(one.model_copy(update={"progress": max(one.progress, thousandths)}) for one in progress)
