"""The planner: cuts the request into tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poweron_events.catalog import ActionSpec
from poweron_events.errors import Refused
from poweron_events.fold.state import Workflow
from poweron_events.planning import TasksPlanned
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.defaults import language
from poweron_services.models.answers import PlanningAnswer, Unacceptable
from poweron_services.models.call import Caller
from poweron_services.models.prompts import PlanningPrompt, Template
from poweron_services.roles.prompting import catalog_lines, document_lines, earlier_history

TEMPLATE = Template.beside(__file__, "planner.v1.md")


@dataclass(frozen=True, slots=True)
class Planner:
    """Asks the model for tasks, each with an objective, success criteria and a type."""

    caller: Caller
    catalog: Mapping[str, ActionSpec]

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        if workflow.phase == "plan_actions":
            raise Refused("This release cannot plan all actions at once. Ask again with workflowMode React.")
        prompt = generate_planning_prompt(workflow, self.catalog)
        decided = await self.caller.decide_twice(workflow.id, prompt, PlanningAnswer)
        if decided.answer is None:
            raise Unacceptable(f"No plan could be made. {decided.refusal}")
        return [TasksPlanned(round=workflow.current.number, tasks=decided.answer.tasks, model_call=decided.call)]


def generate_planning_prompt(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> PlanningPrompt:
    """What the planner shows to the model."""
    opening = workflow.current.opening
    return PlanningPrompt(
        template=TEMPLATE,
        user_prompt=opening.prompt,
        language=language(workflow),
        documents=document_lines(workflow.current.messages),
        connections=opening.connections,
        actions=catalog_lines(catalog),
        earlier=earlier_history(workflow),
        max_steps=opening.max_steps,
    )
