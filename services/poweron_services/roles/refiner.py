"""The refiner: continue or stop, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from poweron_events.fold.state import Workflow, max_steps, step_place
from poweron_events.observation import Observation
from poweron_events.refinement import IterationTelemetry, RefinementDecided
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.rules import Review, budget_left, should_continue, why_stop
from poweron_services.models.answers import RefinementAnswer
from poweron_services.models.call import Caller, Decided
from poweron_services.models.prompts import RefinementPrompt, Template
from poweron_services.roles.progress import progress, updated_progress

MAX_IMPROVEMENT = 500  # characters
TEMPLATE = Template.beside(__file__, "refiner.v1.md")


@dataclass(frozen=True, slots=True)
class Refiner:
    """Asks the model; the rules in code have the last word."""

    caller: Caller

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        recorded = workflow.step.observation
        assert recorded is not None
        prompt = create_refinement_prompt(workflow, recorded.observation)
        decided = await self.caller.decide_twice(workflow.id, prompt, RefinementAnswer)
        return [refine_decide(workflow, recorded.observation, decided)]


def create_refinement_prompt(workflow: Workflow, observation: Observation) -> RefinementPrompt:
    """What the refinement shows to the model (P-06)."""
    assert workflow.step.selection is not None
    return RefinementPrompt(
        template=TEMPLATE,
        objective=workflow.task.plan.objective,
        progress=progress(workflow),
        selected_action=workflow.step.selection.action,
        observation=observation,
        steps_left=max_steps(workflow) - workflow.step.number,
    )


def refine_decide(
    workflow: Workflow, observation: Observation, decided: Decided[RefinementAnswer]
) -> RefinementDecided:
    """The decision: the model's, unless a rule stops the loop (L-05, L-06)."""
    answer = decided.answer or RefinementAnswer(
        decision="stop",
        reason=f"The model's answer could not be used. {decided.refusal}"[:2_000],
        classification="retry",
    )
    after = updated_progress(workflow, answer.criteria_progress)
    ending = workflow.current.ending
    review = Review(
        progress=after,
        can_improve=answer.decision == "continue",
        budget_left=budget_left(workflow),
        cancelled=ending == "cancelled",
        deadline_passed=ending == "failed",
    )
    place = (observation, review, workflow.step.number, max_steps(workflow))
    stop = None if should_continue(*place) else why_stop(*place)
    overruled = answer.decision == "continue" and stop is not None
    return RefinementDecided(
        **step_place(workflow),
        decision="continue" if stop is None else "stop",
        reason=stop if overruled and stop else answer.reason,
        hint=None if stop else answer.hint,
        classification=answer.classification,
        improvements=tuple(improvement[:MAX_IMPROVEMENT] for improvement in answer.improvements),
        criteria_progress=after,
        decided_by="guard" if overruled or decided.answer is None else "model",
        iteration=_iteration(workflow, decided),
        model_call=decided.call,
    )


def _iteration(workflow: Workflow, decided: Decided[RefinementAnswer]) -> IterationTelemetry:
    """What this iteration cost, its accepted events and this call together (B-01)."""
    step = workflow.step
    calls = [decided.call, *(step.completed.model_calls if step.completed else ())]
    calls += [part.model_call for part in (step.selection, step.parameters) if part and part.model_call]
    return IterationTelemetry(
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        duration_ms=sum(call.duration_ms for call in calls)
        + (step.completed.duration_ms if step.completed and not step.completed.model_calls else 0),
    )
