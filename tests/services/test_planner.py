"""The planner: cuts the request into tasks."""

import pytest
from doubles import TASK, script

from builders import Told, requested
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.planning import TasksPlanned
from poweron_services.models.answers import Unacceptable
from poweron_services.models.call import Caller
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.planner import Planner, generate_planning_prompt


def planner(*answers: object) -> Planner:
    return Planner(Caller(ScriptedModel(script(planning=list(answers))), ContentStore.at("memory:///")), CATALOG)


@pytest.mark.req("P-08")
async def test_a_request_becomes_tasks_and_the_call_names_template_prompt_and_answer() -> None:
    (event,) = await planner({"tasks": [TASK, TASK]})(Told().tell(requested()).workflow)
    assert isinstance(event, TasksPlanned)
    assert len(event.tasks) == 2
    assert event.model_call.template == "planner.v1.md"
    assert len(event.model_call.template_sha256) == len(event.model_call.prompt_ref) == 64
    assert event.model_call.answer_ref is not None


async def test_a_second_answer_may_be_better() -> None:
    (event,) = await planner("nonsense", {"tasks": [TASK]})(Told().tell(requested()).workflow)
    assert isinstance(event, TasksPlanned)
    assert event.model_call.tries == 2


@pytest.mark.req("L-10")
@pytest.mark.parametrize("answer", ["nonsense", {"tasks": []}, {"tasks": [{**TASK, "taskType": "hack"}]}])
async def test_no_plan_is_an_error_that_says_why(answer: object) -> None:
    with pytest.raises(Unacceptable, match=r"^No plan could be made\. The answer"):
        await planner(answer)(Told().tell(requested()).workflow)


def test_the_plan_sees_the_request_the_documents_and_the_tiny_catalog() -> None:
    data = generate_planning_prompt(Told().tell(requested()).workflow, CATALOG).render(fence="F").data
    assert data.startswith("Request of the user:\n<<< F\nWhat is the grand total?\n>>> F\n")
    assert "- document.generateReport(documentList,title)\n" in data
    assert "docItem:doc-estimate.pdf:estimate.pdf (application/pdf, 1000 bytes, list round1_request)" in data
