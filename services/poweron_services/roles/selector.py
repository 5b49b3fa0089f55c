"""The selector: stage 1 chooses exactly one action for this step, without its parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poweron_events.catalog import ActionSpec
from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.event import ModelCall
from poweron_events.fold.state import Workflow, max_steps, step_place
from poweron_events.step_events import ActionSelected, SelectionRejected
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.answer_schemas import selection_schema
from poweron_services.decider.references import UnknownReference
from poweron_services.decider.rules import check_budget
from poweron_services.decider.validation import (
    NotAllowed,
    check_action,
    check_connection,
    check_documents,
    check_recordable,
    check_schema,
)
from poweron_services.models.answers import SelectionAnswer
from poweron_services.models.call import Caller
from poweron_services.models.normalisation import with_normalised
from poweron_services.models.prompts import SelectionPrompt, Template
from poweron_services.roles.address_check import PlaceCheck
from poweron_services.roles.document_lookup import documents_named, references_as_listed
from poweron_services.roles.prompt_context import reasons, task_prompt

TEMPLATE = Template.beside(__file__, "selector.v4.md")
FORBIDDEN = frozenset({"parameters"})


@dataclass(frozen=True, slots=True)
class Selector:
    """Ask the model for one action; an answer that breaks a rule is rejected with the reason."""

    caller: Caller
    content: ContentStore
    catalog: Mapping[str, ActionSpec]

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        check_budget(workflow, for_a_step=True)
        if workflow.task.planned:
            return [await self._from_plan(workflow)]
        prompt = generate_react_plan_selection_prompt(workflow, self.catalog)
        decision = await self.caller.decide(workflow, prompt, SelectionAnswer, forbidden=FORBIDDEN)
        if isinstance(decision.answer, Refused):
            return [_rejection(workflow, decision.answer, decision.call)]
        answer, call = await self._as_listed(workflow, decision.answer, decision.call)
        try:
            await self._check(workflow, answer)
            selection = _selection(workflow, answer, call)
            await self._check_addresses(selection, workflow)
            check_recordable(selection)
        except (NotAllowed, UnknownReference) as error:
            return [_rejection(workflow, error, call)]
        return [selection]

    async def _as_listed(
        self, workflow: Workflow, answer: SelectionAnswer, call: ModelCall
    ) -> tuple[SelectionAnswer, ModelCall]:
        """The answer with its references as the prompt lists the documents, and the call, which records the change."""
        references = answer.required_input_documents
        listed = await references_as_listed(references, workflow, self.content)
        if listed == references:
            return answer, call
        update = {"required_input_documents": listed}
        return answer.model_copy(update=update), with_normalised(
            call, "requiredInputDocuments", repaired=["reference_completed"]
        )

    async def _check(self, workflow: Workflow, answer: SelectionAnswer) -> None:
        spec = check_action(answer.action, workflow, self.catalog)
        check_schema(answer.parameters_schema, spec)
        check_documents(answer.required_input_documents, spec)
        await documents_named(answer.required_input_documents, workflow, self.content)
        check_connection(answer.required_connection, workflow, spec)

    async def _check_addresses(self, selection: ActionSelected, workflow: Workflow) -> None:
        await PlaceCheck(self.content).selected(selection, self.catalog[selection.action], workflow)

    async def _from_plan(self, workflow: Workflow) -> ActionSelected | SelectionRejected:
        """Take the action that the plan already chose (Actionplan mode); the same checks apply."""
        action = workflow.task.planned[workflow.step.number - 1]
        answer = SelectionAnswer(
            action=action.action,
            action_objective=action.action_objective,
            learnings=action.learnings,
            required_input_documents=action.required_input_documents,
            required_connection=action.required_connection,
        )
        try:
            await self._check(workflow, answer)
            selection = _selection(workflow, answer, None)
            await self._check_addresses(selection, workflow)
        except (NotAllowed, UnknownReference) as error:
            return _rejection(workflow, error, None)
        return selection


def _rejection(workflow: Workflow, refusal: Refused, call: ModelCall | None) -> SelectionRejected:
    return SelectionRejected(**step_place(workflow), try_=workflow.step.try_, **reasons(refusal), model_call=call)


def _selection(workflow: Workflow, answer: SelectionAnswer, call: ModelCall | None) -> ActionSelected:
    return ActionSelected(
        **step_place(workflow),
        action=answer.action,
        action_objective=answer.action_objective,
        learnings=answer.learnings,
        required_input_documents=answer.required_input_documents,
        required_connection=answer.required_connection,
        parameters_context=answer.parameters_context,
        parameters_schema=answer.parameters_schema,
        decided_by="plan" if call is None else "model",
        model_call=call,
    )


def generate_react_plan_selection_prompt(workflow: Workflow, catalog: Mapping[str, ActionSpec]) -> SelectionPrompt:
    """The prompt that stage 1 shows to the model (P-01)."""
    return task_prompt(
        SelectionPrompt,
        workflow,
        catalog,
        template=TEMPLATE,
        answer_schema=selection_schema(workflow, catalog),
        hint=workflow.task.hint,
        steps_left=max_steps(workflow) - workflow.step.number + 1,
    )
