"""What the roles do with an unusable answer: record it, show the model why, and eventually stop asking."""

from typing import Final, TypedDict

from poweron_events.codes import FOR_PEOPLE, Code
from poweron_events.errors import Refused
from poweron_events.event import ModelCall
from poweron_events.fold.state import Rejection, Workflow, may_ask_again, rejections, step_place
from poweron_events.outcome import AnswerRejected
from poweron_services.decider.model_reasons import reason_for_models

MAX_REASON = 2_000  # characters
NOT_AS_IT_MUST: Final = "The model did not answer as it must."


class Reasons(TypedDict):
    """The fields of a rejection that say why."""

    reason: str
    detail: str
    code: Code


def reasons(refusal: Refused) -> Reasons:
    """Say why an answer cannot be used, as the fields of its rejection."""
    return {"reason": str(refusal)[:MAX_REASON], "detail": refusal.detail[:MAX_REASON], "code": refusal.code}


def answer_rejected(workflow: Workflow, refusal: Refused, call: ModelCall) -> AnswerRejected:
    """The rejection of the answer to the current stage."""
    return AnswerRejected(
        **step_place(workflow),
        try_=len(rejections(workflow)) + 1,
        stage=workflow.phase,  # type: ignore[arg-type] # the stages that ask are those of this event
        **reasons(refusal),
        model_call=call,
    )


def shown(rejection: Rejection) -> str:
    """What a model sees of a rejection (S8)."""
    return reason_for_models(rejection.reason, rejection.code)


def rejected_for_good(workflow: Workflow) -> str | None:
    """Return why the last answer could not be used if the model is not asked again, in words for models (S8).

    The text enters the history, which later prompts show; `rejected_in_full` gives users more detail.
    """
    refusals = rejections(workflow)
    return None if may_ask_again(refusals) else f"{NOT_AS_IT_MUST} {shown(refusals[-1])}"


def rejected_in_full(workflow: Workflow) -> str:
    """Tell users which model gave the round's last unusable answer, and why it could not be used."""
    task = workflow.current.task
    refusals = [*workflow.current.rejected, *([task.refused] if task and task.refused else [])]
    if not refusals or (call := refusals[-1].model_call) is None:
        return ""
    reason, code = refusals[-1].reason, refusals[-1].code
    detail = f" {reason}" if code in FOR_PEOPLE else ""
    return f"The answer came from the model {call.provider}:{call.model}.{detail}"
