"""The planner: splits the request into tasks; in Actionplan mode (deprecated) it also lists the actions of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poweron_events.catalog import ActionSpec
from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.fold.state import Workflow, max_steps, result_place, task_place
from poweron_events.round_events import ActionsPlanned, AnswerRejected, PlannedAction, TaskPlan, TasksPlanned
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.answer_schemas import actions_schema
from poweron_services.decider.references import UnknownReference
from poweron_services.decider.validation import NotAllowed, check_plan, check_recordable, in_plan, results
from poweron_services.models.answers import ActionsAnswer, PlanningAnswer, Unacceptable
from poweron_services.models.call import Caller
from poweron_services.models.normalisation import with_normalised
from poweron_services.models.prompts import ActionsPrompt, PlanningPrompt, Template
from poweron_services.roles.document_lookup import documents_named, references_as_listed
from poweron_services.roles.prompt_context import answer_rejected, final_rejection, planning_prompt, task_prompt

TEMPLATE = Template.beside(__file__, "planner.v4.md")
ACTIONS_TEMPLATE = Template.beside(__file__, "actions.v3.md")


@dataclass(frozen=True, slots=True)
class Planner:
    """Ask the model for tasks, each with an objective, success criteria and a type."""

    caller: Caller
    content: ContentStore
    catalog: Mapping[str, ActionSpec]

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        if workflow.phase == "plan_actions":
            return [await self.create_task_action(workflow)]
        refusal = final_rejection(workflow)
        if refusal is not None:
            raise Unacceptable(f"No plan could be made. {refusal}", code="answers_rejected")
        prompt = generate_planning_prompt(workflow, self.catalog)
        decision = await self.caller.decide(workflow, prompt, PlanningAnswer)
        if isinstance(decision.answer, Refused):
            return [answer_rejected(workflow, decision.answer, decision.call)]
        tasks = tuple(TaskPlan(**dict(task)) for task in decision.answer.tasks)
        event = TasksPlanned(round=workflow.current.number, tasks=tasks, model_call=decision.call)
        try:
            check_recordable(event)
        except NotAllowed as error:
            return [answer_rejected(workflow, error, decision.call)]
        return [event]

    async def create_task_action(self, workflow: Workflow) -> ActionsPlanned | AnswerRejected:
        """The task's whole list of actions with their parameters, in one call (A-01).

        Deprecated: mode React selects one action at a time, when the result of the previous one is known.
        """
        refusal = final_rejection(workflow)
        if refusal is not None:
            raise Unacceptable(f"No actions could be planned. {refusal}", code="answers_rejected")
        prompt = generate_actions_prompt(workflow, self.catalog)
        decision = await self.caller.decide(workflow, prompt, ActionsAnswer)
        if isinstance(decision.answer, Refused):
            return answer_rejected(workflow, decision.answer, decision.call)
        proposals, call = decision.answer.actions, decision.call
        actions = [await self._as_listed(action, workflow) for action in proposals]
        if any(action is not proposal for action, proposal in zip(actions, proposals, strict=True)):
            call = with_normalised(call, "actions.requiredInputDocuments", repaired=["reference_completed"])
        try:
            await self._check(actions, workflow)
            event = ActionsPlanned(**task_place(workflow), actions=tuple(actions), model_call=call)
            check_recordable(event)
        except NotAllowed as error:
            return answer_rejected(workflow, error, call)
        return event

    async def _as_listed(self, action: PlannedAction, workflow: Workflow) -> PlannedAction:
        """The action, with its references as the prompt lists the documents."""
        references = action.required_input_documents
        listed = await references_as_listed(references, workflow, self.content)
        return action if listed == references else action.model_copy(update={"required_input_documents": listed})

    async def _check(self, actions: Sequence[PlannedAction], workflow: Workflow) -> None:
        """Refuse a plan that breaks a rule.

        A reference names an existing document, or one that an earlier action of the plan will write.
        """
        check_plan(actions, workflow, self.catalog)
        outputs = results(actions, workflow)
        for number, action in enumerate(actions, start=1):
            earlier = outputs[: number - 1]
            references = [reference for reference in action.required_input_documents if reference not in earlier]
            try:
                await documents_named(references, workflow, self.content)
            except UnknownReference as error:
                known = f" Earlier actions of the plan write {', '.join(earlier)}." if earlier else ""
                raise in_plan(number, error, known) from error


def generate_planning_prompt(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> PlanningPrompt:
    """The prompt that the planner shows to the model."""
    return planning_prompt(workflow, catalog, TEMPLATE)


def generate_actions_prompt(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> ActionsPrompt:
    """The planner's prompt in Actionplan mode (deprecated): the content of stage 1's prompt, but for a whole list."""
    return task_prompt(
        ActionsPrompt,
        workflow,
        catalog,
        template=ACTIONS_TEMPLATE,
        answer_schema=actions_schema(workflow, catalog),
        max_steps=max_steps(workflow),
        place=result_place(workflow),
        first_action=workflow.task.actions + 1,
    )
