"""The parameterizer: stage 2 sets the business parameters of the selected action and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue, ValidationError

from poweron_events.catalog import ActionSpec
from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.event import ModelCall
from poweron_events.fold.state import Workflow, step_place
from poweron_events.step_events import ActionSelected, ParametersRejected, ParametersSet, SchemaField
from poweron_events.stream import WorkflowEvent
from poweron_events.validation_messages import explain
from poweron_services.decider.answer_schemas import parameters_schema
from poweron_services.decider.defaults import defaults, overruled
from poweron_services.decider.validation import (
    NotAllowed,
    check_action,
    check_recordable,
    complete_parameters,
    fields_of,
)
from poweron_services.models.answers import ParametersAnswer
from poweron_services.models.call import Caller
from poweron_services.models.prompts import ParametersPrompt, Template
from poweron_services.roles.address_check import ConfiguredPlaces, PlaceCheck
from poweron_services.roles.prompt_context import reasons, refusal

TEMPLATE = Template.beside(__file__, "parameterizer.v3.md")


@dataclass(frozen=True, slots=True)
class Parameterizer:
    """Ask the model for the schema's fields, check them and fill in the rest in code."""

    caller: Caller
    catalog: Mapping[str, ActionSpec]
    content: ContentStore
    configured_places: ConfiguredPlaces = field(default_factory=dict)

    async def __call__(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        selection = workflow.step.selection
        assert selection is not None
        try:
            spec = check_action(selection.action, workflow, self.catalog)
        except NotAllowed as error:  # for example, its server is no longer configured
            return [_rejection(workflow, error, None)]
        fields = fields_of(selection.parameters_schema, spec)
        if workflow.task.planned:
            action = workflow.task.planned[workflow.step.number - 1]
            return [await self._judge(workflow, action.parameters, fields, spec, None)]
        prompt = generate_react_parameters_prompt(workflow, selection, fields, spec)
        decision = await self.caller.decide(workflow, prompt, ParametersAnswer)
        if isinstance(decision.answer, Refused):
            return [_rejection(workflow, decision.answer, decision.call)]
        return [await self._judge(workflow, decision.answer.parameters, fields, spec, decision.call)]

    async def _judge(
        self,
        workflow: Workflow,
        values: dict[str, JsonValue],
        fields: Sequence[SchemaField],
        spec: ActionSpec,
        call: ModelCall | None,
    ) -> ParametersSet | ParametersRejected:
        try:
            await PlaceCheck(self.content, self.configured_places).given(values, spec, workflow)
        except NotAllowed as error:
            return _rejection(workflow, error, call)
        return _complete(workflow, values, fields, spec, call)


def _complete(
    workflow: Workflow,
    values: dict[str, JsonValue],
    fields: Sequence[SchemaField],
    spec: ActionSpec,
    call: ModelCall | None,
) -> ParametersSet | ParametersRejected:
    selection = workflow.step.selection
    assert selection is not None
    try:
        result = complete_parameters(
            values,
            fields=fields,
            spec=spec,
            documents=selection.required_input_documents,
            connection=selection.required_connection,
            defaults=defaults(spec, workflow),
            overruled=overruled(spec, values, workflow),
        )
        event = ParametersSet(
            **step_place(workflow),
            given=values,
            parameters=result.parameters,
            defaulted=result.defaulted,
            dropped=result.dropped,
            decided_by="plan" if call is None else "model",
            model_call=call,
        )
        check_recordable(event)
    except NotAllowed as error:
        return _rejection(workflow, error, call)
    except ValidationError as error:  # for example, nested too deeply to be recorded
        unrecordable = NotAllowed(f"The parameters cannot be recorded: {explain(error)}.", code="parameter_invalid")
        return _rejection(workflow, unrecordable, call)
    return event


def _rejection(workflow: Workflow, refusal: Refused, call: ModelCall | None) -> ParametersRejected:
    return ParametersRejected(**step_place(workflow), try_=workflow.step.try_, **reasons(refusal), model_call=call)


def generate_react_parameters_prompt(
    workflow: Workflow, selection: ActionSelected, fields: Sequence[SchemaField], spec: ActionSpec
) -> ParametersPrompt:
    """The prompt that stage 2 shows to the model (P-03)."""
    return ParametersPrompt(
        template=TEMPLATE,
        action_objective=selection.action_objective,
        selected_action=selection.action,
        parameters_context=selection.parameters_context,
        fields=tuple(fields),
        refusal=refusal(workflow),
        answer_schema=parameters_schema(fields, spec),
    )
