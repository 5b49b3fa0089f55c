"""Actionplan mode (deprecated): the whole list of a task's actions in one call, every one checked before the first runs."""

from typing import Any

import pytest
from doubles import World, script

from builders import At, Told, completed, follow_up, planned, requested, reviewed, step
from poweron_events.catalog import CATALOG
from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.fold.history import reverse_chronological
from poweron_events.request import EarlierRounds
from poweron_events.round_events import ActionsPlanned, AnswerRejected
from poweron_events.step_events import ActionSelected, Observation
from poweron_services.models.answers import Unacceptable
from poweron_services.models.call import Caller
from poweron_services.models.prompts import ActionsPrompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.parameterizer import Parameterizer
from poweron_services.roles.planner import Planner, generate_actions_prompt
from poweron_services.roles.selector import Selector

pytestmark = pytest.mark.usefixtures("logged")

READ = {
    "action": "document.extract",
    "actionObjective": "Read the estimate",
    "requiredInputDocuments": ["docList:round1_request"],
}
ANSWER = {
    "action": "ai.process",
    "actionObjective": "Answer from it",
    "requiredInputDocuments": ["docList:round1_task1_action1_extract"],
    "parameters": {"aiPrompt": "What is the grand total?"},
}
REPORT = {
    "action": "document.generateReport",
    "actionObjective": "Write the report",
    "requiredInputDocuments": ["docList:round1_task1_action2_process"],
}


def asked(plan: dict[str, Any] | None = None, **terms: Any) -> Told:
    return Told().tell(requested(workflow_mode="Actionplan", **terms), planned(**(plan or {})))


def answering(*answers: Any) -> ScriptedModel:
    told = [answer if isinstance(answer, str) else {"actions": answer} for answer in answers]
    return ScriptedModel(script(actions=told))


async def listed(
    told: Told, *answers: Any, model: ScriptedModel | None = None, content: ContentStore | None = None
) -> Any:
    content = content or ContentStore.at("memory:///")
    (event,) = await Planner(Caller(model or answering(*answers), content), content, CATALOG)(told.workflow)
    return event


@pytest.mark.req("A-01")
@pytest.mark.req("P-08")
async def test_the_whole_list_with_its_parameters_is_planned_in_one_call() -> None:
    event = await listed(asked(), [READ, ANSWER, REPORT])
    assert isinstance(event, ActionsPlanned)
    assert [action.action for action in event.actions] == ["document.extract", "ai.process", "document.generateReport"]
    assert event.actions[1].parameters == {"aiPrompt": "What is the grand total?"}
    assert (event.round, event.task, event.attempt, event.model_call.tries) == (1, 1, 1, 1)
    assert (event.model_call.template, event.model_call.input_tokens) == ("actions.v3.md", 10)
    assert event.model_call.answer_ref is not None


LATE = {**ANSWER, "requiredInputDocuments": ["docList:round1_task1_action2_process"]}
WRONG: dict[str, tuple[Any, str]] = {
    "prose": ("First I would read the file.", "The answer is not one JSON object"),
    "nothing": ([], "The answer does not fit: actions"),
    "no such action": ([{**READ, "action": "files.delete"}], "Action 1 of the plan: 'files.delete' is not an action"),
    "denied": ([READ, {**ANSWER, "action": "web.search"}], "Action 2 of the plan: 'web.search' is not an action"),
    "no such document": (
        [READ, {**ANSWER, "requiredInputDocuments": ["docList:other"]}],
        (
            "'docList:other' names no document of this workflow; known are docList:round1_request. "
            "Earlier actions of the plan write docList:round1_task1_action1_extract."
        ),
    ),
    "no documents": ([{**READ, "requiredInputDocuments": []}], "document.extract works on documents"),
    "a path": (
        [{**READ, "requiredInputDocuments": ["../etc/passwd"]}],
        "Action 1 of the plan: The parameters do not fit document.extract: documentList.0",
    ),
    "its own result": ([READ, LATE], "Action 2 of the plan: 'docList:round1_task1_action2_process' names no document"),
    "a later result": (
        [ANSWER, READ],
        "Action 1 of the plan: 'docList:round1_task1_action1_extract' names no document",
    ),
    "a file yet to be written": (
        [READ, {**ANSWER, "requiredInputDocuments": ["docItem:r1t1a1d1:estimate.pdf.md"]}],
        "'docItem:r1t1a1d1:estimate.pdf.md' names no document",
    ),
    "no such connection": ([{**READ, "requiredConnection": "mail"}], "'mail' is no connection; known are none."),
    "no prompt": ([READ, {**ANSWER, "parameters": {}}], "Action 2 of the plan: aiPrompt must be given for ai.process."),
    "a parameter that does not fit": (
        [READ, {**ANSWER, "parameters": {"aiPrompt": "?", "processingMode": "magic"}}],
        "Action 2 of the plan: The parameters do not fit ai.process: processingMode",
    ),
    "too many actions": ([READ] * 4, "The plan has 4 actions; this task may take 3."),
    "an objective without end": ([{**READ, "actionObjective": "x" * 4_001}], "The answer does not fit: actions"),
    "too large": ([READ, {**ANSWER, "parameters": {"aiPrompt": "?", "unknown": "x" * 60_000}}], "keep it below 60000."),
}


@pytest.mark.req("A-01")
@pytest.mark.req("X-01")
@pytest.mark.req("D-04")
@pytest.mark.req("R-01")
@pytest.mark.req("P-05")
@pytest.mark.parametrize("name", WRONG)
async def test_a_plan_that_breaks_a_rule_is_refused_as_a_whole(name: str) -> None:
    answer, reason = WRONG[name]
    told = asked(max_steps=3, denied_methods=("web",))
    for _ in range(2):
        event = await listed(told, answer)
        assert isinstance(event, AnswerRejected)
        assert reason in event.reason
        told.tell(event)
    with pytest.raises(Unacceptable, match=r"^No actions could be planned\. "):
        await listed(told, answer)


@pytest.mark.req("S8")
async def test_what_settings_forbid_is_told_in_the_event_and_not_in_what_the_history_shows() -> None:
    denied = [{**READ, "action": "web.search"}]
    told = asked(denied_methods=("web",))
    for _ in range(2):
        event = await listed(told, denied)
        assert (event.code, event.detail) == ("action_not_allowed", "It is denied; denied are web.")
        told.tell(event)
    with pytest.raises(Unacceptable) as raised:
        await listed(told, denied)
    assert "'web.search' is not an action of this task" in str(raised.value)
    assert "denied" not in str(raised.value)


@pytest.mark.req("P-05")
@pytest.mark.req("R-01")
async def test_a_plan_names_documents_of_earlier_rounds_also_where_the_opening_left_them_out() -> None:
    content = ContentStore.at("memory:///")
    told = Told().tell(requested(), planned(), *step(), reviewed(), completed())

    said = reverse_chronological(told.workflow.current.messages)
    ref = await content.put(told.id, dumps([message.model_dump(mode="json", by_alias=True) for message in said]))
    earlier = EarlierRounds(last_round=1, documents_left_out=2, history_ref=ref)
    told.tell(follow_up(earlier=earlier, workflow_mode="Actionplan"), planned(round_number=2))
    by_id = {**READ, "requiredInputDocuments": ["docItem:doc-estimate.pdf"]}
    event = await listed(told, [READ, by_id], content=content)
    assert [action.required_input_documents for action in event.actions] == [
        ("docList:round1_request",),
        ("docItem:doc-estimate.pdf:estimate.pdf",),
    ]
    refused = await listed(told, [{**READ, "requiredInputDocuments": ["docList:round1_other"]}], content=content)
    assert "names no document of this workflow" in refused.reason


@pytest.mark.req("L-08")
async def test_a_task_of_one_step_is_planned_as_one_action() -> None:
    told = asked({"max_steps": 1})
    assert (await listed(told, [READ, ANSWER])).reason == "The plan has 2 actions; this task may take 1."
    assert len((await listed(told, [READ])).actions) == 1


@pytest.mark.req("A-01")
async def test_a_refused_plan_is_asked_for_once_more_with_the_reason_and_both_calls_count() -> None:
    model = answering([READ, {**ANSWER, "parameters": {}}], [READ, ANSWER])
    told = asked()
    told.tell(await listed(told, model=model))
    told.tell(await listed(told, model=model))
    assert (told.workflow.phase, told.workflow.task.used.input_tokens) == ("select", 20)
    shown = [prompt.render(fence="F").data for prompt in model.asked]
    assert "refused" not in shown[0]
    assert "<<< F\nAction 2 of the plan: aiPrompt must be given for ai.process.\n>>> F" in shown[1]


@pytest.mark.req("P-01")
@pytest.mark.req("P-07")
@pytest.mark.req("X-05")
def test_the_plan_sees_what_stage_1_sees_and_how_results_will_be_named() -> None:
    told = asked(max_steps=3, denied_methods=("web.*",))
    shown = generate_actions_prompt(told.workflow, CATALOG).render(fence="F").data
    assert "<<< F\nWhat is the grand total?\n>>> F" in shown
    assert "Objective of the task, which is of type lookup:\n<<< F\nFind the total\n>>> F\n" in shown
    assert "<<< F\n- [not met, 0 of 1000] The total is named\n>>> F\n" in shown
    assert "Actions in the plan: at most 3\n" in shown
    assert "the first result is docList:round1_task1_action1_LABEL" in shown
    assert "- document.generateReport(documentList,title,expectedDocumentFormats)\n" in shown
    assert "web.search" not in shown
    assert "docList:round1_request)" in shown


@pytest.mark.req("A-03")
@pytest.mark.req("M-08")
async def test_a_retry_plans_again_with_the_improvements_and_the_labels_go_on() -> None:
    failed = Observation(success=False, result_label="label", documents_count=0)
    told = asked().tell(await listed(asked(), [READ, ANSWER]))
    told.tell(At().selected(), At().parameters(), At().started(), At().done(), At().observed(observation=failed))
    told.tell(At().reviewed(status="retry", improvements=("Name the page",)))
    shown = generate_actions_prompt(told.workflow, CATALOG).render(fence="F").data
    assert "<<< F\n- Name the page\n>>> F\n" in shown
    assert "the first result is docList:round1_task1_action2_LABEL" in shown
    second = {**ANSWER, "requiredInputDocuments": ["docList:round1_task1_action2_extract"]}
    event = await listed(told, [READ, second])
    assert (event.attempt, len(event.actions)) == (2, 2)


@pytest.mark.req("A-02")
@pytest.mark.req("P-05")
@pytest.mark.req("D-03")
async def test_planned_steps_are_selected_and_parameterized_in_code_with_the_defaults_applied() -> None:
    told = asked({"task_type": "transform", "expected_formats": ("json",)})
    told.tell(
        await listed(told, [{**ANSWER, "requiredInputDocuments": ["docList:round1_request"], "learnings": ["So."]}])
    )
    model = ScriptedModel({})  # nobody asks it
    caller = Caller(model, ContentStore.at("memory:///"))
    (selected,) = await Selector(caller, ContentStore.at("memory:///"), CATALOG)(told.workflow)
    assert (selected.decided_by, selected.model_call, selected.learnings) == ("plan", None, ("So.",))
    (given,) = await Parameterizer(caller, CATALOG, ContentStore.at("memory:///"))(told.tell(selected).workflow)
    assert (given.decided_by, given.model_call) == ("plan", None)
    assert given.given == {"aiPrompt": "What is the grand total?"}
    assert given.parameters["documentList"] == ["docList:round1_request"]
    assert given.parameters["expectedDocumentFormats"] == ["json"]
    assert "expectedDocumentFormats" in given.defaulted


@pytest.mark.req("P-05")
async def test_the_result_of_an_earlier_action_is_resolved_when_its_step_runs() -> None:
    told = asked()
    told.tell(await listed(told, [READ, ANSWER]))
    caller = Caller(ScriptedModel({}), ContentStore.at("memory:///"))
    told.tell(*await Selector(caller, ContentStore.at("memory:///"), CATALOG)(told.workflow))
    told.tell(At().parameters(), At().started(), At().done(), At().observed())
    (selected,) = await Selector(caller, ContentStore.at("memory:///"), CATALOG)(told.workflow)
    assert isinstance(selected, ActionSelected)
    assert (selected.step, selected.required_input_documents) == (2, ("docList:round1_task1_action1_extract",))


@pytest.mark.req("L-10")
@pytest.mark.req("A-01")
async def test_a_round_whose_actions_cannot_be_planned_ends_with_the_reason() -> None:
    world = World([], script(actions=["nonsense"]))
    async with world.process():
        workflow = await world.ended(await world.ask(workflow_mode="Actionplan"))
    assert (
        "No actions could be planned. The model did not answer as it must. The answer"
        in world.accepted(workflow.id)[-1].message
    )
    assert len([prompt for prompt in world.model.asked if isinstance(prompt, ActionsPrompt)]) == 2
