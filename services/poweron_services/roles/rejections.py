"""What the roles do with an answer that cannot be used: tell of it, show the model why, and stop asking in the end."""

from typing import TypedDict

from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.event import ModelCall
from poweron_events.fold.evolve import MAX_REFUSALS
from poweron_events.fold.state import Rejection, Workflow, rejections, step_place
from poweron_events.outcome import AnswerRejected
from poweron_services.decider.validation import told

MAX_REASON = 2_000  # characters


class Reasons(TypedDict):
    """The fields in which a rejection says why."""

    reason: str
    detail: str
    code: Code


def reasons(refusal: Refused) -> Reasons:
    """Why an answer cannot be used, as its rejection says it."""
    return {"reason": str(refusal)[:MAX_REASON], "detail": refusal.detail[:MAX_REASON], "code": refusal.code}


def answer_rejected(workflow: Workflow, refusal: Refused, call: ModelCall) -> AnswerRejected:
    """The rejection of the answer to the stage at hand."""
    return AnswerRejected(
        **step_place(workflow),
        try_=len(rejections(workflow)) + 1,
        stage=workflow.phase,  # type: ignore[arg-type] # the stages that ask are those of this event
        **reasons(refusal),
        model_call=call,
    )


def shown(rejection: Rejection) -> str:
    """What a model is told of a rejection (S8)."""
    return told(rejection.reason, rejection.code)


def rejected_for_good(workflow: Workflow) -> str | None:
    """Whose last answer could not be used and why, once the model is not asked again; as far as a model is told (S8).

    What a round ends with stands in the history, which the next round shows to the model.
    """
    rejected = rejections(workflow)
    if len(rejected) < MAX_REFUSALS:
        return None
    call = workflow.current.rejected[-1].model_call
    return f"The model {call.provider}:{call.model} did not answer as it must. {shown(rejected[-1])}"
