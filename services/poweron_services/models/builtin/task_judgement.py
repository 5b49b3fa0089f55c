"""The built-in model's judgement after an action: whether to continue, and in the end whether the task is done."""

from typing import Final

from poweron_events.catalog import WEB, WRITING
from poweron_events.event import CriterionProgress
from poweron_events.fold.state import ChatMessage
from poweron_events.step_events import Classification
from poweron_services.decider.approval import UNAPPROVED
from poweron_services.decider.rules import STOPS_EVERY_ATTEMPT
from poweron_services.models.answers import RefinementAnswer, ReviewAnswer
from poweron_services.models.builtin.tool_choice import lists
from poweron_services.models.builtin.web_choice import LOOKING_UP, names_address
from poweron_services.models.prompts import RefinementPrompt, ReviewPrompt

ANSWER_NEXT: Final = "Answer the request from the text that was read."
READ_DIRECTLY: Final = "Answer from the documents of the request directly; ai.process reads them by itself."
WRITE_PLAINLY: Final = "Write the result with ai.process."
SEARCH_ONLY: Final = "Answer from what the search engine shows of the pages."
READ_LISTED: Final = "Go on with what the list names: read it, then answer from it."
ONLY_LISTED: Final = "It was only listed what there is; nothing of it was read, so the request is not answered."
NONE_READABLE: Final = "Nothing could be read of what was handed over."
NO_ANSWER: Final = "The request could not be answered."
HALF_WAY = 400  # thousandths of a criterion, once the documents are read

PAGES_UNREAD: Final = frozenset(
    {
        "page_needs_consent",
        "page_needs_javascript",
        "page_needs_login",
        "page_timeout",
        "page_too_large",
        "page_unavailable",
        "robots_disallowed",
    }
)
"""Why pages that were found could not be read; the search engine's excerpts may still show what matters."""

Progress = tuple[CriterionProgress, ...]


def refine(prompt: RefinementPrompt) -> str:
    """Decide whether to continue or stop."""
    return _refinement(prompt).model_dump_json(by_alias=True)


def review(prompt: ReviewPrompt) -> str:
    """Review the result of the task."""
    return _review(prompt).model_dump_json(by_alias=True)


def _refinement(prompt: RefinementPrompt) -> RefinementAnswer:
    success, was_denied = prompt.observation.success, prompt.observation.code in UNAPPROVED
    failure = f"{prompt.selected_action} {'was not approved, and did not run' if was_denied else 'failed'}."
    if success and prompt.selected_action in WRITING:
        return _stop("success", "The result is written and states its sources.", _all_met(prompt.progress))
    if prompt.steps_left < 1:
        return _stop("failed", "No steps are left.", prompt.progress)
    if success:
        sources = "pages" if prompt.selected_action in WEB else "documents"
        return RefinementAnswer(
            decision="continue",
            reason=f"The {sources} are read ({prompt.observation.documents_count}); the answer is still to be written.",
            hint=ANSWER_NEXT,
            classification="success",
            criteria_progress=_at_least(HALF_WAY, prompt.progress),
        )
    if prompt.all_unreadable:
        return _stop("failed", NONE_READABLE, prompt.progress)
    improvement = _other_way(prompt)
    if improvement is None or was_denied:
        return _stop("failed", failure, prompt.progress)
    return RefinementAnswer(
        decision="continue",
        reason=failure,
        hint=improvement,
        classification="retry",
        improvements=(improvement,),
        criteria_progress=prompt.progress,
    )


def _other_way(prompt: RefinementPrompt) -> str | None:
    """Suggest what may lead to an answer after an action failed; None if nothing may."""
    match prompt.selected_action:
        case "ai.process" | "web.search":
            return None
        case "web.scrape":
            can_search = prompt.observation.code in PAGES_UNREAD and not names_address(prompt.objective)
            return SEARCH_ONLY if can_search else None
        case "document.generateReport":
            return WRITE_PLAINLY
        case _:
            return READ_DIRECTLY


def _stop(classification: Classification, reason: str, progress: Progress) -> RefinementAnswer:
    return RefinementAnswer(decision="stop", reason=reason, classification=classification, criteria_progress=progress)


def _review(prompt: ReviewPrompt) -> ReviewAnswer:
    progress = prompt.progress
    if (progress and all(criterion.met for criterion in progress)) or _has_result(prompt):
        return ReviewAnswer(status="success", reason="All criteria are met.", criteria_progress=_all_met(progress))
    if prompt.all_unreadable:
        return ReviewAnswer(status="failed", reason=NONE_READABLE, criteria_progress=progress)
    if prompt.retries_left and _has_another_way(prompt):
        reason, next_way = "The request was not answered yet.", READ_LISTED if _only_listed(prompt) else READ_DIRECTLY
        return ReviewAnswer(status="retry", reason=reason, improvements=(next_way,), criteria_progress=progress)
    reason = ONLY_LISTED if _only_listed(prompt) else prompt.stopped_because or NO_ANSWER
    return ReviewAnswer(status="failed", reason=reason, criteria_progress=progress)


def _has_another_way(prompt: ReviewPrompt) -> bool:
    """Return whether the documents may still be read directly; a detour must not bypass a denied approval."""
    if prompt.last_observation is not None and prompt.last_observation.code in UNAPPROVED:
        return False
    actions = {message.action for message in prompt.history}
    has_success = any(message.success for message in prompt.history)
    in_vain = not has_success and not actions.isdisjoint(LOOKING_UP)
    return "ai.process" not in actions and not in_vain and prompt.stop_code not in STOPS_EVERY_ATTEMPT


def _only_listed(prompt: ReviewPrompt) -> bool:
    """Return whether the newest step only listed what is available."""
    newest = _newest(prompt)
    return newest is not None and newest.success is True and lists(newest.action or "")


def _has_result(prompt: ReviewPrompt) -> bool:
    """Return whether the newest step wrote a result."""
    newest = _newest(prompt)
    return newest is not None and newest.action in WRITING and newest.success is True


def _newest(prompt: ReviewPrompt) -> ChatMessage | None:
    return next((message for message in prompt.history if message.kind == "step"), None)


def _all_met(progress: Progress) -> Progress:
    return tuple(CriterionProgress(criterion=criterion.criterion, met=True, progress=1000) for criterion in progress)


def _at_least(thousandths: int, progress: Progress) -> Progress:
    return tuple(
        criterion.model_copy(update={"progress": max(criterion.progress, thousandths)}) for criterion in progress
    )
