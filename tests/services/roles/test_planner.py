"""The planner: cuts the request into tasks."""

import pytest
from doubles import TASK, script

from builders import At, Told, requested
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.round_events import AnswerRejected, TasksPlanned
from poweron_services.decider.rules import BudgetNeeded, BudgetUsedUp
from poweron_services.decider.rules import limits as budgets_of
from poweron_services.models.answers import Unacceptable
from poweron_services.models.call import Caller
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.planner import Planner, generate_planning_prompt


def planner(*answers: object) -> Planner:
    content = ContentStore.at("memory:///")
    return Planner(Caller(ScriptedModel(script(planning=list(answers))), content), content, CATALOG)


@pytest.mark.req("P-08")
async def test_a_request_becomes_tasks_and_the_call_names_template_prompt_and_answer() -> None:
    (event,) = await planner({"tasks": [TASK, TASK]})(Told().tell(requested()).workflow)
    assert isinstance(event, TasksPlanned)
    assert len(event.tasks) == 2
    assert event.model_call.template == "planner.v4.md"
    assert len(event.model_call.template_sha256) == len(str(event.model_call.prompt_ref)) == 64
    assert event.model_call.answer_ref is not None


@pytest.mark.req("L-10")
@pytest.mark.req("E-10")
@pytest.mark.parametrize(
    "answer",
    [
        "nonsense",
        {"tasks": []},
        {"tasks": [{**TASK, "taskType": "hack"}]},
        {"tasks": [{**TASK, "successCriteria": ["x" * 701]}]},
        {"tasks": [{**TASK, "expectedFormats": ["x" * 101]}]},
        {"tasks": [{**TASK, "objective": "\u20ac" * 2_000}] * 10},
    ],
    ids=["prose", "nothing", "no such type", "a criterion that prompts cut", "a format that is none", "too large"],
)
async def test_after_an_answer_that_is_no_plan_the_model_is_asked_once_more_and_told_why(answer: object) -> None:
    told = Told().tell(requested())
    for _ in range(2):
        (event,) = await planner(answer)(told.workflow)
        assert isinstance(event, AnswerRejected)
        told.tell(event)
        prompt = generate_planning_prompt(told.workflow, CATALOG)
        assert prompt.refusal == event.reason
        assert event.reason in prompt.render().data
    assert told.verdicts == ["accepted"] * 3
    with pytest.raises(
        Unacceptable, match=r"^No plan could be made\. The model did not answer as it must\. The answer"
    ):
        await planner(answer)(told.workflow)


@pytest.mark.req("B-02")
async def test_where_the_budget_is_used_up_no_model_is_asked() -> None:
    model = ScriptedModel({})
    content = ContentStore.at("memory:///")
    planner = Planner(Caller(model, content), content, CATALOG)
    with pytest.raises(BudgetUsedUp, match=r"^Nothing may be used: the workflow's budget is 0 tokens\.$"):
        await planner(Told().tell(requested(budgets={"workflow_tokens": 0})).workflow)
    assert not model.asked


@pytest.mark.req("S41")
async def test_a_prompt_that_what_is_left_cannot_hold_is_not_sent() -> None:
    model = ScriptedModel(script())
    content = ContentStore.at("memory:///")
    planner = Planner(Caller(model, content), content, CATALOG)
    with pytest.raises(
        BudgetUsedUp,
        match=r"^The workflow's budget of 10 tokens leaves 10 tokens, and the next call may take 15 tokens\.$",
    ):
        await planner(Told().tell(requested(budgets={"workflow_tokens": 10})).workflow)
    assert not model.asked
    await planner(Told().tell(requested(budgets={"workflow_tokens": 9_000})).workflow)
    assert model.asked[-1].allowance is not None


@pytest.mark.req("B-02")
async def test_a_round_that_asks_for_more_needs_a_larger_budget_until_one_is_granted_or_denied() -> None:
    model = ScriptedModel(script())
    content = ContentStore.at("memory:///")
    planner = Planner(Caller(model, content), content, CATALOG)
    told = Told().tell(requested(budgets={"workflow_tokens": 10, "round_tokens": 20}, on_budget="ask"))
    with pytest.raises(BudgetNeeded, match=r"budget of 10 tokens leaves 10 tokens"):
        await planner(told.workflow)

    told.tell(At.head(told.workflow).budget_requested("plan"), At.head(told.workflow).budget_granted(tokens=9_000))
    assert told.verdicts == ["accepted"] * 3
    await planner(told.workflow)
    assert [budget.limit for budget in budgets_of(told.workflow)] == [9_010, 9_020]

    denied = Told().tell(requested(budgets={"workflow_tokens": 10}, on_budget="ask"))
    at = At.head(denied.workflow)
    denied.tell(at.budget_requested("plan"), at.budget_denied(), at.budget_requested("plan"))
    assert denied.verdicts == ["accepted", "accepted", "accepted", "superseded"]
    with pytest.raises(BudgetUsedUp):
        await planner(denied.workflow)


@pytest.mark.req("X-01")
@pytest.mark.req("S8")
def test_the_plan_is_not_shown_what_no_task_may_use() -> None:
    only_documents = dict.fromkeys(("lookup", "analysis", "report", "transform"), ("ai", "document"))
    for limits in ({"denied_methods": ("web.*",)}, {"allowed_methods": only_documents}):
        prompt = generate_planning_prompt(Told().tell(requested(**limits)).workflow, CATALOG)
        assert [action.name for action in prompt.actions] == [
            "ai.process", "document.extract", "document.generateReport",
        ]  # fmt: skip
        assert "web." not in prompt.render().data
    some = generate_planning_prompt(Told().tell(requested(allowed_methods={"lookup": ("ai",)})).workflow, CATALOG)
    assert len(some.actions) == len(CATALOG), "a task of another type may use them"


def test_the_plan_sees_the_request_the_documents_and_the_tiny_catalog() -> None:
    data = generate_planning_prompt(Told().tell(requested()).workflow, CATALOG).render(fence="F").data
    assert data.startswith("Request of the user:\n<<< F\nWhat is the grand total?\n>>> F\n")
    assert "- document.generateReport(documentList,title,expectedDocumentFormats)\n" in data
    assert "docItem:doc-estimate.pdf:estimate.pdf (application/pdf, 1000 bytes, docList:round1_request)" in data
