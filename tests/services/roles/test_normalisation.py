"""What is harmless in a model's answer is read as if it had been written exactly, and told; nothing is guessed."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from doubles import CRITERION, TASK, script
from hypothesis import given as supposing
from hypothesis import settings
from hypothesis import strategies as st

from builders import At, Told, document, planned, requested
from poweron_events.catalog import CATALOG
from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.event import Model
from poweron_events.step_events import ActionSelected, Observation, RefinementDecided, SelectionRejected
from poweron_services.decider.references import UnknownReference, as_listed, resolve
from poweron_services.models.answers import (
    ActionsAnswer,
    ParametersAnswer,
    PlanningAnswer,
    RefinementAnswer,
    ReviewAnswer,
    SelectionAnswer,
    parse,
    read,
)
from poweron_services.models.call import Caller
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.planner import Planner, generate_actions_prompt
from poweron_services.roles.refiner import Refiner, create_refinement_prompt
from poweron_services.roles.reviewer import Reviewer
from poweron_services.roles.selector import Selector, generate_react_plan_selection_prompt

READ = {
    "action": "document.extract",
    "actionObjective": "Read the estimate",
    "requiredInputDocuments": ["docItem:r1d1:estimate.pdf"],
    "parametersSchema": {"fields": [{"name": "aiPrompt", "type": "string"}]},
}
GO_ON = {"decision": "continue", "reason": "Not yet.", "classification": "success"}
REVIEWED = {"status": "success", "reason": "It is done."}
EXACT: Mapping[type[Model], dict[str, Any]] = {
    PlanningAnswer: {"tasks": [TASK, {**TASK, "taskType": "report"}]},
    ActionsAnswer: {"actions": [{key: value for key, value in READ.items() if key != "parametersSchema"}]},
    SelectionAnswer: {**READ, "requiredConnection": "crm"},
    ParametersAnswer: {"schema": "parameters_v1", "parameters": {"decision": "STOP", "type": None}},
    RefinementAnswer: GO_ON,
    ReviewAnswer: REVIEWED,
}
WORDS = {"decision", "classification", "status", "taskType", "type", "schema", "action", "requiredConnection"}
"""The fields of answers that take one of a closed set of words."""


def asked(**fields: Any) -> Told:
    given = {"documents": (document("estimate.pdf", document_id="r1d1"),), "connections": ("crm",)}
    return Told().tell(requested(**{**given, **fields}), planned())


@cache
def prompt_of(answer: type[Model]) -> Any:
    workflow = asked().workflow
    if answer is SelectionAnswer:
        return generate_react_plan_selection_prompt(workflow, CATALOG)
    return generate_actions_prompt(workflow, CATALOG) if answer is ActionsAnswer else None


@st.composite
def spelled(draw: st.DrawFn, word: str) -> str:
    """The word with blanks around it, and some of its letters in the other case."""
    letters = [letter.swapcase() if draw(st.booleans()) else letter for letter in word]
    blanks = st.text(" \t\n\u00a0", max_size=2)
    return draw(blanks) + "".join(letters) + draw(blanks)


@st.composite
def respelled(draw: st.DrawFn, value: Any) -> Any:
    """The answer, its closed words written in any way that can be read as one of them only."""
    if isinstance(value, dict):
        return {
            key: inner if key == "parameters" else draw(spelled(inner)) if key in WORDS else draw(respelled(inner))
            for key, inner in value.items()
        }
    return [draw(respelled(inner)) for inner in value] if isinstance(value, list) else value


@pytest.mark.req("L-02")
@pytest.mark.req("L-05")
@pytest.mark.req("S42")
@pytest.mark.parametrize("answer", EXACT)
@settings(max_examples=50)
@supposing(data=st.data())
def test_whatever_way_a_closed_word_is_written_the_answer_is_the_exact_one(
    answer: type[Model], data: st.DataObject
) -> None:
    said = data.draw(respelled(EXACT[answer]))
    found = read(dumps(said).decode(), answer, prompt=prompt_of(answer))
    assert found.answer == parse(dumps(EXACT[answer]).decode(), answer)
    assert bool(found.normalised) == (said != EXACT[answer])


@pytest.mark.req("S42")
@pytest.mark.parametrize(
    ("answer", "said", "told"),
    [
        (RefinementAnswer, {"decision": "CONTINUE", "classification": " Success\n"}, ("classification", "decision")),
        (RefinementAnswer, {"improvements": "Name the page"}, ("improvements",)),
        (RefinementAnswer, {"hint": None, "more": "x"}, ()),
        (RefinementAnswer, {"criteriaProgress": [{"criterion": "c", "met": "true"}]}, ("criteriaProgress.met",)),
        (ReviewAnswer, {"status": "Failed"}, ("status",)),
        (PlanningAnswer, {"tasks": [{**TASK, "taskType": "Lookup"}, {**TASK, "taskType": "REPORT"}]}, ("tasks.taskType",)),
        (SelectionAnswer, {"action": {"method": "Document", "name": "Extract"}}, ("action",)),
        (ParametersAnswer, {"schema": "Parameters_V1"}, ("schema",)),
    ],
)  # fmt: skip
def test_what_was_read_otherwise_than_written_is_told_by_its_field(
    answer: type[Model], said: dict[str, Any], told: tuple[str, ...]
) -> None:
    text = dumps({**EXACT[answer], **said}).decode()
    assert read(text, answer, prompt=prompt_of(answer)).normalised == told


async def selected(told: Told, **changes: Any) -> Any:
    content = ContentStore.at("memory:///")
    caller = Caller(ScriptedModel(script(selection=[{**READ, **changes}])), content)
    (event,) = await Selector(caller, content, CATALOG)(told.workflow)
    return event


@pytest.mark.req("P-05")
@pytest.mark.req("R-01")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"requiredInputDocuments": ["docItem:r1d1"]}, ("requiredInputDocuments",)),
        ({"requiredInputDocuments": [" DocItem:r1d1:estimate.pdf "]}, ("requiredInputDocuments",)),
        ({"requiredConnection": "none"}, ("requiredConnection",)),
        ({"requiredConnection": " N/A"}, ("requiredConnection",)),
        ({"requiredConnection": "Null"}, ("requiredConnection",)),
        ({"requiredConnection": " "}, ("requiredConnection",)),
        ({"action": "Document.Extract"}, ("action",)),
        ({}, ()),
    ],
)
async def test_a_harmless_selection_is_the_exact_one_and_its_event_tells_what_was_normalised(
    changes: dict[str, Any], told: tuple[str, ...]
) -> None:
    exact, event = [await selected(asked(connections=()), **each) for each in ({}, changes)]
    assert isinstance(event, ActionSelected)
    assert event.model_copy(update={"model_call": None}) == exact.model_copy(update={"model_call": None})
    assert event.model_call is not None
    assert event.model_call.normalised == told


@pytest.mark.req("P-05")
@pytest.mark.req("R-01")
@pytest.mark.req("S42")
@pytest.mark.parametrize(
    ("opening", "changes", "reason"),
    [
        (
            {"connections": ("crm",)},
            {"requiredConnection": "none"},
            "'none' is no connection; known are crm. Leave requiredConnection out where none is needed.",
        ),
        ({"connections": ("crm", "CRM")}, {"requiredConnection": "Crm"}, "'Crm' is no connection; known are crm, CRM."),
        ({"connections": ()}, {"requiredConnection": "nothing"}, "'nothing' is no connection; known are none."),
        (
            {"documents": (document("a.pdf", document_id="d"), document("b.pdf", document_id="d"))},
            {"requiredInputDocuments": ["docItem:d"]},
            "'docItem:d' may mean docItem:d:a.pdf or docItem:d:b.pdf; name one of them.",
        ),
        ({}, {"requiredInputDocuments": ["docItem:r1d1:other.pdf"]}, "'docItem:r1d1:other.pdf' names no document"),
        ({}, {"requiredInputDocuments": ["docItem:r1d2"]}, "'docItem:r1d2' names no document of this workflow"),
        (
            {"documents": (document("a.pdf", document_id="d"), document("a.pdf", document_id="e"))},
            {"requiredInputDocuments": ["a.pdf"]},
            "'a.pdf' names no document of this workflow",
        ),
    ],
)  # fmt: skip
async def test_what_can_be_read_in_two_ways_or_in_none_is_refused_with_a_sentence(
    opening: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    event = await selected(asked(**opening), **changes)
    assert isinstance(event, SelectionRejected)
    assert event.reason.startswith(reason)


@pytest.mark.req("R-01")
@supposing(names=st.lists(st.sampled_from(("a.pdf", "b:c.pdf", "ä.md")), min_size=1, max_size=3))
def test_an_id_without_a_name_is_the_only_document_of_that_id_or_refused(names: list[str]) -> None:
    labelled = {f"round{number}_request": (document(name, document_id="d"),) for number, name in enumerate(names, 1)}
    found = as_listed("docItem:d", labelled)
    if len(set(names)) == 1:
        assert resolve([found], labelled) == labelled["round1_request"]
    else:
        with pytest.raises(UnknownReference, match=r"^'docItem:d' may mean .+ or .+; name one of them\.$"):
            resolve([found], labelled)


@pytest.mark.req("A-02")
async def test_a_plan_of_actions_is_normalised_as_a_selection_is() -> None:
    told = asked(workflow_mode="Actionplan", connections=())
    exact = EXACT[ActionsAnswer]["actions"][0]
    again = {"action": "AI.process", "actionObjective": "Answer", "parameters": {"aiPrompt": "?"}}
    harmless = [{**exact, "requiredInputDocuments": ["docItem:r1d1"], "requiredConnection": "None"}, again]
    harmless[1]["requiredInputDocuments"] = "docList:round1_task1_action1_extract "
    content = ContentStore.at("memory:///")
    caller = Caller(ScriptedModel(script(actions=[{"actions": harmless}])), content)
    (event,) = await Planner(caller, content, CATALOG)(told.workflow)
    assert [action.action for action in event.actions] == ["document.extract", "ai.process"]
    assert [action.required_input_documents for action in event.actions] == [
        ("docItem:r1d1:estimate.pdf",),
        ("docList:round1_task1_action1_extract",),
    ]
    assert [action.required_connection for action in event.actions] == [None, None]
    assert event.model_call.normalised == (
        "actions.action",
        "actions.requiredConnection",
        "actions.requiredInputDocuments",
    )


@pytest.mark.req("L-05")
@pytest.mark.parametrize(
    ("success", "decision", "classification"),
    [
        (True, "continue", "success"),
        (True, "stop", "success"),
        (False, "continue", "retry"),
        (False, "STOP", "failed"),
    ],
)
async def test_a_classification_that_is_missing_follows_from_the_decision_and_from_what_the_action_came_to(
    success: bool, decision: str, classification: str
) -> None:
    seen = Observation(success=success, result_label="label", documents_count=0)
    told = asked().tell(At().selected(), At().parameters(), At().started(), At().done())
    told.tell(At().observed(observation=seen))
    for left_out in ({}, {"classification": None}):
        event = await refined(told, {"decision": decision, "reason": "So.", **left_out})
        assert (event.decision, event.classification) == (decision.lower(), classification)
        assert event.model_call is not None
        assert "classification" in event.model_call.normalised


async def refined(told: Told, answer: Any) -> RefinementDecided:
    caller = Caller(ScriptedModel(script(refinement=[answer])), ContentStore.at("memory:///"))
    (event,) = await Refiner(caller)(told.workflow)
    assert isinstance(event, RefinementDecided)
    return event


@pytest.mark.req("L-05")
def test_a_refinement_is_still_asked_for_its_classification_in_exact_words() -> None:
    asked_for = RefinementAnswer.model_json_schema()
    assert "classification" in asked_for["required"]
    assert asked_for["properties"]["decision"]["enum"] == ["continue", "stop"]


@pytest.mark.req("L-05")
@pytest.mark.req("L-07")
async def test_plan_refinement_and_review_tell_in_their_events_what_was_normalised() -> None:
    content = ContentStore.at("memory:///")
    lines = script(
        planning=[{"tasks": [{**TASK, "taskType": "Lookup"}]}],
        refinement=[{"decision": "Stop", "reason": "Done.", "classification": "SUCCESS"}],
        review=[{"status": "Success", "criteriaProgress": [{"criterion": f"{CRITERION.upper()} ", "met": True}]}],
    )
    caller = Caller(ScriptedModel(lines), content)
    told = Told().tell(requested())
    (plan,) = await Planner(caller, content, CATALOG)(told.workflow)
    told.tell(plan, At().selected(), At().parameters(), At().started(), At().done(), At().observed())
    assert create_refinement_prompt(told.workflow, At().observed().observation)
    (refinement,) = await Refiner(caller)(told.workflow)
    (review,) = await Reviewer(caller, content)(told.tell(refinement).workflow)
    assert [event.model_call.normalised for event in (plan, refinement, review)] == [
        ("tasks.taskType",),
        ("classification", "decision"),
        ("criteriaProgress.criterion", "status"),
    ]
    assert [one.met for one in review.criteria_progress] == [True]
    assert (plan.tasks[0].task_type, refinement.decision, review.status) == ("lookup", "stop", "success")


@pytest.mark.req("L-05")
@pytest.mark.parametrize(("said", "read_as"), [(10_000, 1000), (-3, 0), (1000, 1000), (0, 0), (250, 250)])
async def test_a_progress_beyond_its_scale_is_at_its_end(said: int, read_as: int) -> None:
    """Some servers hold a model to a schema and leave out the bounds of its numbers."""
    progress = {"criterion": CRITERION, "met": True, "progress": said}
    lines = script(refinement=[{**GO_ON, "criteriaProgress": [progress]}])
    told = Told().tell(requested(), planned(), At().selected(), At().parameters(), At().started(), At().done())
    told.tell(At().observed())
    (event,) = await Refiner(Caller(ScriptedModel(lines), ContentStore.at("memory:///")))(told.workflow)
    assert isinstance(event, RefinementDecided)
    assert event.model_call is not None
    assert [one.progress for one in event.criteria_progress] == [read_as]
    assert event.model_call.normalised == (() if said == read_as else ("criteriaProgress.progress",))
