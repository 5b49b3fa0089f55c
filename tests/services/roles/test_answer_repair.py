"""What is unambiguous in a model's answer is repaired, and its event tells how; what is not is asked for once more."""

import json
from typing import Any

import pytest
from doubles import CRITERION, script
from test_normalisation import READ, asked

from builders import At, Told, requested
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.round_events import AnswerRejected, TasksPlanned
from poweron_events.step_events import ActionSelected, RefinementDecided, SelectionRejected
from poweron_services.models.call import Caller
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.planner import Planner
from poweron_services.roles.refiner import Refiner
from poweron_services.roles.selector import Selector


@pytest.fixture
def content() -> ContentStore:
    return ContentStore.at("memory:///")


REFERENCE = "docItem:r1d1:estimate.pdf"


async def selecting(said: str, content: ContentStore) -> ActionSelected | SelectionRejected:
    (event,) = await Selector(Caller(model_saying(said), content), content, CATALOG)(asked().workflow)
    assert isinstance(event, ActionSelected | SelectionRejected)
    return event


def model_saying(said: str) -> ScriptedModel:
    return ScriptedModel(script(selection=[said], planning=[said], refinement=[said]))


def documents_asked_for(said: str) -> dict[str, Any]:
    """Stage 1 asks for a document as if it were a parameter."""
    field = {"name": "documentList", "type": "object", "description": said}
    own = {"name": "aiPrompt", "type": "string"}
    return {**READ, "requiredInputDocuments": [], "parametersSchema": {"fields": [field, own]}}


ESCAPED = ("line_break_escaped",)


@pytest.mark.req("D-04")
@pytest.mark.parametrize(
    ("said", "repaired"),
    [
        (json.dumps(READ), ()),
        (json.dumps([READ]), ("object_in_list",)),
        (f"```json\n{json.dumps(READ)}\n```", ("text_around",)),
        (f"{json.dumps(READ)}\nI hope this helps!", ("text_around",)),
        (json.dumps({**READ, "requiredInputDocuments": ["estimate.pdf"]}), ("reference_completed",)),
        (json.dumps({**READ, "requiredInputDocuments": "r1d1"}), ("reference_completed",)),
        (json.dumps(documents_asked_for(f"It is {REFERENCE}.")), ("reference_moved",)),
        (json.dumps({"answer": READ}), ()),
        (json.dumps({**READ, "actionObjective": "Read\nit\tall"}).replace("\\n", "\n").replace("\\t", "\t"), ESCAPED),
    ],
)
async def test_what_is_unambiguous_is_repaired_and_told(
    said: str, repaired: tuple[str, ...], content: ContentStore
) -> None:
    event = await selecting(said, content)
    assert isinstance(event, ActionSelected)
    assert event.required_input_documents == (REFERENCE,)
    assert event.parameters_schema is not None
    assert [field.name for field in event.parameters_schema.fields] == ["aiPrompt"]
    assert event.model_call is not None
    assert event.model_call.repaired == repaired


@pytest.mark.req("P-02")
@pytest.mark.parametrize(
    ("said", "code"),
    [
        (json.dumps(documents_asked_for("The documents to read.")), "field_not_allowed"),
        (json.dumps([READ, READ]), "answer_unreadable"),
        (json.dumps({**READ, "requiredInputDocuments": ["another.pdf"]}), "unknown_reference"),
    ],
)
async def test_what_is_ambiguous_is_asked_for_once_more(said: str, code: str, content: ContentStore) -> None:
    event = await selecting(said, content)
    assert isinstance(event, SelectionRejected)
    assert event.code == code


@pytest.mark.parametrize("field", ["actionObjective"])
@pytest.mark.parametrize(
    "echoed",
    ["…", "...", "<objective>", "string", "what this step is to achieve, in one sentence of your own about this task"],
)
async def test_an_answer_that_repeats_how_it_was_asked_for_has_a_code_of_its_own(
    field: str, echoed: str, content: ContentStore
) -> None:
    event = await selecting(json.dumps({**READ, field: echoed}), content)
    assert isinstance(event, SelectionRejected)
    assert (event.code, "words of your own" in event.reason) == ("answer_echoed", True)


async def test_a_plan_without_words_of_its_own_is_refused(content: ContentStore) -> None:
    task = {"objective": "…", "successCriteria": ["…"], "taskType": "lookup"}
    planner = Planner(Caller(model_saying(json.dumps({"tasks": [task]})), content), content, CATALOG)
    (event,) = await planner(Told().tell(requested()).workflow)
    assert isinstance(event, AnswerRejected)
    assert event.code == "answer_echoed"


@pytest.mark.req("D-04")
async def test_criteria_are_answered_by_their_numbers_and_kept_in_their_words(content: ContentStore) -> None:
    said = {
        "decision": "stop",
        "reason": "The estimate names it.",
        "hint": None,
        "classification": "success",
        "improvements": [],
        "criteriaProgress": {"1": {"met": True, "progress": 1000}},
    }
    at, told = At(), asked()
    told.tell(at.selected(), at.parameters(), at.started(), at.done(), at.observed())
    (event,) = await Refiner(Caller(model_saying(json.dumps(said)), content))(told.workflow)
    assert isinstance(event, RefinementDecided)
    assert [(each.criterion, each.met) for each in event.criteria_progress] == [(CRITERION, True)]
    assert event.model_call is not None
    assert event.model_call.normalised == ()


async def test_a_plan_may_use_the_words_of_the_request(content: ContentStore) -> None:
    task = {"objective": "Find the grand total", "successCriteria": ["The grand total is named"], "taskType": "lookup"}
    planner = Planner(Caller(model_saying(json.dumps({"tasks": [task]})), content), content, CATALOG)
    (event,) = await planner(Told().tell(requested()).workflow)
    assert isinstance(event, TasksPlanned)
