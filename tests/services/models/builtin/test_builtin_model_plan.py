"""The built-in model's plan of a whole task (mode Actionplan, deprecated): what stage 1 would come to, step by step."""

from typing import Any

import pytest
from asked import TEMPLATE, ask

from poweron_events.catalog import CATALOG
from poweron_events.event import CriterionProgress
from poweron_events.fold.state import ChatMessage
from poweron_services.models.answers import ActionAnswer, ActionsAnswer, parse
from poweron_services.models.prompts import ActionsPrompt, DocumentLine
from poweron_services.roles.prompt_context import catalog_lines

REQUESTED = DocumentLine("docItem:d1:letter.pdf", "round1_request", "letter.pdf", "application/pdf", 900)
ANSWERED = DocumentLine("docItem:d3:answer.md", "round1_task1_action2_process", "answer.md", "text/markdown", 50)


async def plan(**fields: Any) -> tuple[ActionAnswer, ...]:
    given: dict[str, Any] = {
        "user_prompt": "What is the total?",
        "language": None,
        "objective": "Find the total",
        "progress": (CriterionProgress(criterion="The total is stated", met=False),),
        "task_type": "lookup",
        "expected_formats": (),
        "catalog": catalog_lines({name: spec for name, spec in CATALOG.items() if not name.startswith("web.")}),
        "documents": (REQUESTED,),
        "connections": (),
        "history": (),
        "earlier": "",
        "improvements": (),
        "refusal": None,
        "max_steps": 5,
        "place": "round1_task1",
        "first_action": 1,
    }
    return parse(await ask(ActionsPrompt(template=TEMPLATE, **(given | fields))), ActionsAnswer).actions


@pytest.mark.req("A-01")
@pytest.mark.req("M-08")
async def test_documents_are_read_and_then_answered_from_by_the_label_that_they_will_have() -> None:
    read, answer = await plan()
    assert (read.action, read.required_input_documents) == ("document.extract", ("docList:round1_request",))
    assert (answer.action, answer.required_input_documents) == ("ai.process", ("docList:round1_task1_action1_extract",))
    assert (read.parameters, answer.parameters) == ({}, {"aiPrompt": "What is the total?"})


async def test_one_step_is_enough_for_the_report_and_for_an_answer() -> None:
    (report,) = await plan(task_type="report", documents=(ANSWERED, REQUESTED), max_steps=1, place="round1_task2")
    assert report.action == "document.generateReport"
    assert report.required_input_documents == ("docList:round1_task1_action2_process",)
    (answer,) = await plan(max_steps=1)
    assert (answer.action, answer.required_input_documents) == ("ai.process", ("docList:round1_request",))


async def test_without_documents_the_web_is_looked_up_and_then_answered_from() -> None:
    look_up, answer = await plan(documents=(), catalog=catalog_lines(CATALOG))
    assert (look_up.action, look_up.parameters) == ("web.scrape", {"query": "What is the total?"})
    assert (answer.action, answer.required_input_documents) == ("ai.process", ("docList:round1_task1_action1_scrape",))


@pytest.mark.req("A-03")
async def test_after_a_failure_another_way_is_planned() -> None:
    failed = ChatMessage(
        seq=4,
        time_ms=0,
        kind="step",
        status="step",
        round=1,
        action="document.extract",
        success=False,
        message="It cannot be read.",
    )
    (answer,) = await plan(history=(failed,), improvements=("Answer directly.",), first_action=2)
    assert (answer.action, answer.required_input_documents) == ("ai.process", ("docList:round1_request",))
    assert answer.learnings == ("Answer directly.",)


async def test_a_longest_request_is_cut_to_what_fits_into_an_event() -> None:
    (*_, answer) = await plan(user_prompt="\N{GRINNING FACE}" * 20_000)
    assert 1_000 < len(answer.parameters["aiPrompt"]) <= 8_000
