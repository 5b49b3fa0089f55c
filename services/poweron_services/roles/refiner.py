"""The refiner: continue or stop, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from poweron_events.codes import StopCode
from poweron_events.errors import Refused
from poweron_events.event import AnyCall, CriterionProgress, ModelCall
from poweron_events.fold.costs import used_by
from poweron_events.fold.history import findings
from poweron_events.fold.state import Used, Workflow, max_steps, step_place
from poweron_events.step_events import Classification, IterationTelemetry, Observation, RefinementDecided
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.answer_schemas import refinement_schema
from poweron_services.decider.defaults import language
from poweron_services.decider.result_files import all_unreadable
from poweron_services.decider.rules import (
    BudgetUsedUp,
    Review,
    Stop,
    all_met,
    has_room_again,
    retries_used_up,
    should_continue,
    used_up,
    why_stop,
)
from poweron_services.decider.size_limits import fitting_improvements
from poweron_services.models.answers import RefinementAnswer
from poweron_services.models.call import Caller
from poweron_services.models.prompts import RefinementPrompt, Template
from poweron_services.models.time_limit import failed_calls
from poweron_services.roles.prompt_context import (
    MAX_REASON,
    answer_rejected,
    final_rejection,
    progress,
    refusal,
    updated_progress,
)

TEMPLATE = Template.beside(__file__, "refiner.v5.md")
AGAIN = RefinementAnswer(
    decision="continue",
    reason="A call of the action exceeded a budget, which was raised since; the action is tried again.",
    hint="Repeat the action with the same parameters.",
    classification="failed",
)
"""The decision of code after the budget for a call of the action was raised."""


@dataclass(frozen=True, slots=True)
class Refiner:
    """Ask the model; the rules in code have the last word."""

    caller: Caller

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        recorded = workflow.step.observation
        assert recorded is not None
        observation = recorded.observation
        last_refusal = final_rejection(workflow)
        if last_refusal is not None:
            return [refine_decide(workflow, observation, _stop(last_refusal, "retry"), None, "answers_rejected")]
        try:
            if has_room_again(workflow):
                return [refine_decide(workflow, observation, AGAIN, None)]
            prompt = create_refinement_prompt(workflow, observation)
            decision = await self.caller.decide(workflow, prompt, RefinementAnswer)
        except BudgetUsedUp as error:
            classification: Classification = "success" if observation.success else "failed"
            stop = _stop(str(error), classification)
            return [refine_decide(workflow, observation, stop, None, error.stop.code)]
        if isinstance(decision.answer, Refused):
            return [answer_rejected(workflow, decision.answer, decision.call)]
        return [refine_decide(workflow, observation, decision.answer, decision.call)]


def create_refinement_prompt(workflow: Workflow, observation: Observation) -> RefinementPrompt:
    """The prompt that the refinement shows to the model (P-06)."""
    assert workflow.step.selection is not None
    return RefinementPrompt(
        template=TEMPLATE,
        language=language(workflow),
        objective=workflow.task.plan.objective,
        attempt=workflow.task.attempt,
        progress=progress(workflow),
        selected_action=workflow.step.selection.action,
        observation=observation,
        findings=findings(observation),
        steps_left=max_steps(workflow) - workflow.step.number,
        all_unreadable=all_unreadable(workflow),
        answer_schema=refinement_schema(len(workflow.task.plan.success_criteria)),
        refusal=refusal(workflow),
    )


def _stop(reason: str, classification: Classification) -> RefinementAnswer:
    """The decision of code if the model cannot decide."""
    return RefinementAnswer(decision="stop", reason=reason[:MAX_REASON], classification=classification)


def refine_decide(
    workflow: Workflow,
    observation: Observation,
    answer: RefinementAnswer,
    call: ModelCall | None,
    stop_code: StopCode | None = None,
) -> RefinementDecided:
    """The decision: the model's, unless a rule stops the loop or no model can be asked (L-05, L-06).

    `stop_code` says why no model can be asked.
    """
    after = updated_progress(workflow, answer.criteria_progress)
    ending = workflow.current.ending
    calls: list[AnyCall] = [*filter(None, [call]), *failed_calls()]
    no_retry = retries_used_up(workflow) if answer.classification == "retry" else None
    review = Review(
        progress=after,
        can_improve=answer.decision == "continue",
        used_up=used_up(workflow, calls, for_a_step=True) or no_retry,
        cancelled=ending == "cancelled",
        deadline_passed=ending == "failed",
    )
    place = (observation, review, workflow.step.number, max_steps(workflow))
    stop = None if should_continue(*place) else why_stop(*place)
    guard = stop if answer.decision == "continue" else None
    return RefinementDecided(
        **step_place(workflow),
        decision="continue" if stop is None else "stop",
        reason=guard.sentence if guard else answer.reason,
        code=stop_code or (guard.code if guard else _model_stop_code(stop, observation, after)),
        hint=None if stop else answer.hint,
        classification=answer.classification,
        improvements=fitting_improvements(answer.improvements),
        criteria_progress=after,
        decided_by="guard" if guard or call is None else "model",
        iteration=_iteration(workflow, calls),
        model_call=call,
    )


def _model_stop_code(
    stop: Stop | None, observation: Observation, after: tuple[CriterionProgress, ...]
) -> StopCode | None:
    if stop is None:
        return None
    return "criteria_met" if observation.success and all_met(after) else "no_improvement"


def _iteration(workflow: Workflow, calls: Sequence[AnyCall]) -> IterationTelemetry:
    """What this iteration cost, including rejected answers and this call (B-01)."""
    step = workflow.step
    usage = step.used + Used.by(calls)
    action_ms = step.completed.duration_ms if step.completed else 0
    call_ms = used_by(step.completed).duration_ms if step.completed else 0
    return IterationTelemetry(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_nano_usd=usage.cost_nano_usd,
        duration_ms=usage.duration_ms + max(0, action_ms - call_ms),
    )
