"""Stage 2: the business parameters of the selected action and nothing else."""

from typing import Any

import pytest
from doubles import script

from builders import At, Told, planned, requested
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.step_events import ParametersRejected, ParametersSet
from poweron_services.decider.validation import fields_of
from poweron_services.models.call import Caller
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.parameterizer import Parameterizer, generate_react_parameters_prompt

SCHEMA = {"fields": [{"name": "aiPrompt", "required": True, "description": "what to do"}]}


def selected(**fields: Any) -> Told:
    given = {"action": "ai.process", "parameters_context": "It is about the estimate.", "parameters_schema": SCHEMA}
    references = ("docList:round1_request",)
    chosen = At().selected(required_input_documents=references, **{**given, **fields})
    return Told().tell(requested(), planned(), chosen)


async def collected(answer: Any, told: Told | None = None) -> Any:
    caller = Caller(ScriptedModel(script(parameters=[answer])), ContentStore.at("memory:///"))
    (event,) = await Parameterizer(caller, CATALOG, ContentStore.at("memory:///"))((told or selected()).workflow)
    return event


def answer(**parameters: Any) -> dict[str, Any]:
    return {"schema": "parameters_v1", "parameters": parameters}


@pytest.mark.req("L-03")
@pytest.mark.req("P-04")
@pytest.mark.req("P-05")
@pytest.mark.req("D-03")
async def test_given_fields_are_kept_unknown_ones_dropped_and_the_rest_filled_in_code() -> None:
    event = await collected(answer(aiPrompt="Add it up", colour="red", documentList=["docList:other"]))
    assert isinstance(event, ParametersSet)
    assert event.parameters == {
        "aiPrompt": "Add it up",
        "customInstructions": "",
        "documentList": ["docList:round1_request"],
        "expectedDocumentFormats": [],
        "includeMetadata": True,
        "processingMode": "advanced",
    }
    assert event.dropped == ("colour", "documentList")
    assert event.defaulted == ("customInstructions", "expectedDocumentFormats", "includeMetadata", "processingMode")


@pytest.mark.req("D-03")
@pytest.mark.req("P-04")
async def test_a_format_for_machines_that_nothing_demands_is_overruled_and_noted() -> None:
    told = selected(parameters_schema=None)
    event = await collected(answer(aiPrompt="Add it up", expectedDocumentFormats=["json"]), told)
    assert event.given["expectedDocumentFormats"] == ["json"]
    assert event.parameters["expectedDocumentFormats"] == []
    assert event.dropped == ("expectedDocumentFormats",)
    assert "expectedDocumentFormats" in event.defaulted


@pytest.mark.req("D-04")
@pytest.mark.req("P-04")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("no JSON", "The answer is not one JSON object"),
        ({"parameters": {"aiPrompt": "x"}}, "schema is missing"),
        (answer(), "aiPrompt must be given for ai.process."),
        (answer(aiPrompt=""), "aiPrompt must be given for ai.process."),
        (answer(aiPrompt={"a": 1}), "The parameters do not fit ai.process: aiPrompt"),
        (answer(aiPrompt="x" * 30_000), "at most 20000 characters"),
        (answer(aiPrompt="x", other="y" * 70_000), "keep it below 60000"),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_reason(given: Any, reason: str) -> None:
    event = await collected(given)
    assert isinstance(event, ParametersRejected)
    assert reason in event.reason
    assert event.model_call is not None


@pytest.mark.req("P-04")
async def test_the_second_refusal_sends_the_task_to_review() -> None:
    told = selected()
    told.tell(await collected("nonsense", told))
    told.tell(await collected("nonsense", told))
    assert told.workflow.phase == "review"


@pytest.mark.req("P-03")
def test_stage_two_shows_nothing_but_the_action_its_objective_context_and_fields() -> None:
    told = selected()
    selection = told.workflow.step.selection
    assert selection is not None
    fields = fields_of(selection.parameters_schema, CATALOG["ai.process"])
    assert generate_react_parameters_prompt(told.workflow, selection, fields, CATALOG["ai.process"]).render(
        fence="F"
    ).data == (
        "Action: ai.process\n\n"
        "Objective of the action:\n<<< F\nRead the estimate\n>>> F\n\n"
        "Context:\n<<< F\nIt is about the estimate.\n>>> F\n\n"
        "Fields:\n<<< F\n- [string, required] aiPrompt: what to do\n>>> F\n"
    )


@pytest.mark.req("P-03")
def test_stage_two_is_shown_the_values_that_the_entries_of_a_list_can_have() -> None:
    said = {"fields": [{"name": "expectedDocumentFormats", "description": "How to write it"}]}
    for schema, meaning in ((None, ""), (said, "How to write it; ")):
        told = selected(parameters_schema=schema)
        selection = told.workflow.step.selection
        assert selection is not None
        fields = fields_of(selection.parameters_schema, CATALOG["ai.process"])
        shown = (
            generate_react_parameters_prompt(told.workflow, selection, fields, CATALOG["ai.process"]).render("F").data
        )
        values = f"{meaning}a list, each entry one of markdown, text, html, json, csv"
        assert f"- [object] expectedDocumentFormats: {values}\n" in shown


@pytest.mark.req("P-03")
def test_without_a_schema_the_fields_are_the_actions_own() -> None:
    fields = fields_of(None, CATALOG["document.generateReport"])
    assert [(field.name, field.required) for field in fields] == [("title", False), ("expectedDocumentFormats", False)]


async def test_a_parameter_that_the_action_cannot_do_without_is_asked_for_although_stage_one_forgot_it() -> None:
    told = selected(parameters_schema={"fields": [{"name": "customInstructions"}]})
    event = await collected(answer(aiPrompt="Add it up", customInstructions="Briefly"), told)
    assert event.parameters["aiPrompt"] == "Add it up"
