"""Rejecting: what the planner, the refiner and the reviewer do with an answer that cannot be used."""

from poweron_events.event import ModelCall
from poweron_events.fold.evolve import MAX_REFUSALS
from poweron_events.fold.state import Workflow, refusals
from poweron_events.outcome import AnswerRejected
from poweron_services.decider.validation import shown
from poweron_services.models.chat_model import ANOTHER_FORM

MAX_REASON = 2_000  # characters


def answer_rejected(workflow: Workflow, reason: str, call: ModelCall) -> AnswerRejected:
    """The rejection of the answer to the stage at hand."""
    round_number, task, attempt, step = workflow.place
    return AnswerRejected(
        round=round_number,
        task=task,
        attempt=attempt,
        step=step,
        try_=len(refusals(workflow)) + 1,
        stage=workflow.phase,  # type: ignore[arg-type] # the stages that ask are those of this event
        reason=reason[:MAX_REASON],
        model_call=call,
    )


def rejected_for_good(workflow: Workflow) -> str | None:
    """Whose last answer could not be used and why, once the model is not asked again; as far as a model is told (S8).

    What a round ends with stands in the history, which the next round shows to the model.
    """
    refused = refusals(workflow)
    if len(refused) < MAX_REFUSALS:
        return None
    call = workflow.current.rejected[-1].model_call
    said = f"The model {call.provider}:{call.model} did not answer as it must. {shown(refused[-1])}"
    return f"{said} {ANOTHER_FORM}" if refused[-1].endswith(f"\n{ANOTHER_FORM}") else said
