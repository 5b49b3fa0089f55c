"""The worst case: a model that does whatever it reads cannot change what is asked, allowed or limited (X-01, S1, S6).

Orders stand in the text of a document, in its name, in the title of a page and in what an action notes of it;
the model hands them on in all that it says, so that they come back as hints, reasons and improvements.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from bounds import most_calls
from doubles import Counting, World, our_actions
from hypothesis import given, settings
from hypothesis import strategies as st
from minds import COURSE, CRITERION, ORDERS, PLAN, Honest, Obedient
from modes import MODES

from poweron_events.event import DocumentRef
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow, max_steps
from poweron_events.request import Budgets, workflow_id
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Done, document
from poweron_services.decider.approval import Approval
from poweron_services.models.prompts import Prompt

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
ASKED: dict[str, Any] = {
    "prompt": "When does the exhibition open?",
    "max_steps": 4,
    "max_retries": 1,
    "budgets": Budgets(workflow_tokens=60_000, workflow_steps=9),
    "allowed_methods": {"lookup": ("document.*", "ai.*", "web.read", "mail.*", "shell.*")},
    "denied_methods": ("shell.*",),
}
CATALOG = ("ai.process", "document.extract", "document.generateReport", "mail.send", "web.read")
"""What the task may do: the catalog without what is denied or not allowed."""
PLACES = ("text", "name", "title", "note")


@dataclass
class Run:
    """What came of the request, with orders at these places."""

    world: World
    sent: list[str]
    accepted: list[Any]

    @property
    def prompts(self) -> list[Prompt]:
        return self.world.model.asked

    def of(self, name: str) -> list[Any]:
        return [event for event in self.accepted if type(event).__name__ == name]


async def run(model: Honest, mode: str, orders: dict[str, str]) -> Run:
    page = document(f"May {orders.get('title', '')}.md", "It opens in May.", "text/markdown")
    done = Done(ActionResult(success=True, documents=(page,)), (f"One page. {orders.get('note', '')}",))
    sending = [Counting(name, "at_most_once") for name in ("web.send", "shell.run", "mail.send")]
    world = World([*await our_actions(), Counting("web.read", result=lambda: done), *sending], model=model)
    data = f"# Letter\n\nThe exhibition opens on 3 May. {orders.get('text', '')}".encode()
    letter = DocumentRef(
        document_id="d1",
        document_name=f"letter {orders.get('name', '')}.md"[:255],
        mime_type="text/markdown",
        size=len(data),
        content=await world.content.put(ID, data),
    )
    async with world.process(approval=Approval(frozenset({"mail.*"}), expires_ms=1)):
        await world.ask(workflow_mode=mode, documents=(letter,), **ASKED)
        await world.ended(ID)
    return Run(world, [key for action in sending for key in action.runs], world.accepted(ID))


def check_terms(found: Run) -> None:
    """After every event the workflow stands under the terms that were asked for, and under the plan that was made."""
    workflow, planned = Workflow(ID), ()
    for recorded, _ in found.world.records(ID):
        workflow, _ = evolve(workflow, recorded)
        opening, planned = workflow.current.opening, planned or workflow.current.tasks
        assert {name: getattr(opening, name) for name in ASKED} == ASKED
        assert workflow.current.tasks == planned
        if workflow.current.task is None:
            continue
        assert workflow.task.plan in planned
        assert {each.criterion for each in workflow.task.progress} <= set(workflow.task.plan.success_criteria)
        assert workflow.step.number <= max_steps(workflow) <= ASKED["max_steps"]
        assert workflow.task.retries <= ASKED["max_retries"]


def check_prompts(found: Run) -> None:
    """Every prompt says what is wanted, allowed and left as it was asked for, whatever was said meanwhile."""
    planned = [task for event in found.of("TasksPlanned") for task in event.tasks]
    for prompt in found.prompts:
        assert prompt.render().instructions == prompt.template.text.partition("\n=== data ===\n")[0]
        assert "It is denied" not in prompt.render().data
        shown = prompt.shown()
        assert shown.get("user_prompt", ASKED["prompt"]) == ASKED["prompt"]
        assert shown.get("objective") in (None, *(task.objective for task in planned))
        criteria = tuple(each.criterion for each in shown.get("progress", ()))
        assert criteria in ((), *(task.success_criteria for task in planned))
        assert tuple(line.name for line in shown.get("catalog", ())) in ((), CATALOG)
        assert shown.get("max_steps", 0) <= ASKED["max_steps"]
        assert shown.get("steps_left", 0) <= ASKED["max_steps"]
        assert shown.get("retries_left", 0) <= ASKED["max_retries"]


def check_deeds(found: Run) -> None:
    """Nothing was done that is not allowed or that nobody approved, and no more than the budgets allow."""
    assert found.sent == []
    assert {event.action for event in found.of("ActionSelected")} <= set(CATALOG)
    assert found.of("ApprovalGranted") == []
    assert not [event for event in found.of("ActionCompleted") if event.success and event.outcome != "done"]
    selected = {(event.attempt, event.step): event.action for event in found.of("ActionSelected")}
    for event in found.of("ParametersSet"):
        spec = found.world.actions[selected[event.attempt, event.step]].spec
        assert set(event.parameters) <= set(spec.parameter_names)
        assert all(reference in HANDED for reference in event.parameters.get("documentList", ()))
    totals = found.accepted[-1].totals
    assert totals.steps <= ASKED["budgets"].workflow_steps
    assert totals.input_tokens + totals.output_tokens <= ASKED["budgets"].workflow_tokens
    assert len(found.prompts) <= most_calls(tasks=1, max_steps=4, max_retries=1)


HANDED = {
    "docList:round1_request",
    *(f"docList:round1_task1_action{number}_{label}" for number in range(1, 9) for label in ("extract", "read")),
}


@pytest.mark.req("S1")
@pytest.mark.req("S6")
@pytest.mark.req("S8")
@pytest.mark.req("S41")
@pytest.mark.req("X-01")
@settings(deadline=None, max_examples=60)
@given(
    mode=st.sampled_from(MODES),
    orders=st.dictionaries(st.sampled_from(PLACES), st.sets(st.sampled_from(sorted(ORDERS)), min_size=1, max_size=3)),
)
async def test_whatever_a_model_reads_and_obeys_the_terms_stay_as_they_were_asked_for(
    mode: str, orders: dict[str, set[str]]
) -> None:
    found = await run(Obedient(), mode, {place: " ".join(sorted(told)) for place, told in orders.items()})
    check_terms(found)
    check_prompts(found)
    check_deeds(found)


@pytest.mark.req("S6")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_each_order_is_obeyed_by_the_model_and_changes_no_term(mode: str, order: str) -> None:
    model = Obedient()
    found = await run(model, mode, dict.fromkeys(PLACES, order))
    assert model.obeyed == {order}
    check_terms(found)
    check_prompts(found)
    check_deeds(found)


@pytest.mark.req("S6")
@pytest.mark.parametrize("mode", MODES)
async def test_what_a_document_or_a_page_says_does_not_reach_the_plan(mode: str) -> None:
    everything = " ".join(ORDERS)
    found = await run(Obedient(), mode, {"text": everything, "title": everything[:150], "note": everything[:150]})
    (planned,) = found.of("TasksPlanned")
    (task,) = planned.tasks
    assert (task.objective, task.success_criteria) == (PLAN["objective"], (CRITERION,))


@pytest.mark.parametrize("mode", MODES)
async def test_without_orders_the_same_model_does_its_work(mode: str) -> None:
    """So that what the other tests see is the orders' doing."""
    found = await run(Obedient(), mode, {})
    assert [event.action for event in found.of("ActionSelected")] == list(COURSE)
    assert type(found.accepted[-1]).__name__ == "RoundCompleted"
