"""Two sets of actions in one process; one holds an action that somebody else's server describes."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from doubles import Counting, World, our_actions, script
from modes import MODES

from poweron_events.catalog import ActionSpec
from poweron_events.event import DocumentRef
from poweron_events.request import workflow_id
from poweron_events.step_events import (
    ActionCompleted,
    ActionResult,
    ActionSelected,
    ActionStarted,
    ApprovalRequested,
    ObservationRecorded,
    ParametersRejected,
    ParametersSet,
    SelectionRejected,
)
from poweron_services.actions.action import Done, Order, document
from poweron_services.decider.approval import Approval
from poweron_services.models.prompts import (
    ActionsPrompt,
    ParametersPrompt,
    PlanningPrompt,
    RefinementPrompt,
    SelectionPrompt,
)

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
NAME = "my-server.do_something-else"
TICKETS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "subject": {"type": "string", "description": "What the ticket is about"},
        "how-many": {"anyOf": [{"$ref": "#/definitions/Count"}, {"type": "null"}], "default": None},
        "urgency": {"enum": ["low", "HIGH"], "default": "low"},
        "documentList": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["subject"],
    "additionalProperties": False,
    "definitions": {"Count": {"type": "integer", "minimum": 1}},
}
WEATHER = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


@dataclass
class Foreign:
    """An action of a server that describes it itself; it keeps what it was given."""

    schema: Mapping[str, Any]
    given: list[Order] = field(default_factory=list)

    @property
    def spec(self) -> ActionSpec:
        return ActionSpec(NAME, self.schema, "at_most_once", 60_000)

    async def __call__(self, order: Order) -> Done:
        self.given.append(order)
        return Done(ActionResult(success=True, documents=(document("done.md", "It is done.", "text/markdown"),)))


def says(parameters: dict[str, Any], *references: str) -> dict[type, list[Any]]:
    """A script in which the foreign action is chosen, in either mode."""
    chosen = {"action": NAME, "actionObjective": "Do it", "requiredInputDocuments": list(references)}
    fields = [{"name": name, "type": "object"} for name in parameters if name != "colour"]
    return script(
        selection=[{**chosen, "parametersSchema": {"fields": fields}}],
        actions=[{"actions": [{**chosen, "parameters": parameters}]}],
        parameters=[{"schema": "parameters_v1", "parameters": parameters}],
    )


async def run(world: World, mode: str, **asked: Any) -> list[Any]:
    source = DocumentRef(
        document_id="d1",
        document_name="a.txt",
        mime_type="text/plain",
        size=4,
        content=await world.content.put(ID, b"what"),
    )
    async with world.process():
        await world.ask(documents=(source,), workflow_mode=mode, **asked)
        await world.ended(ID)
    return world.accepted(ID)


def only(kind: type, events: list[Any]) -> Any:
    (found,) = (event for event in events if isinstance(event, kind))
    return found


@pytest.mark.req("C-08")
@pytest.mark.req("A-02")
@pytest.mark.parametrize("mode", MODES)
async def test_two_sets_of_actions_in_one_process_know_nothing_of_one_another(mode: str) -> None:
    tickets, weather = Foreign(TICKETS), Foreign(WEATHER)
    asked = says({"subject": 2026, "how-many": "3", "urgency": "high", "colour": "red"}, "docItem:d1:a.txt")
    one = World([*await our_actions(), tickets], asked)
    two = World([weather, Counting("test.pure")], says({"place": "Bern"}))
    first, second = await asyncio.gather(run(one, mode), run(two, mode))

    assert [order.parameters for order in tickets.given] == [
        {"subject": "2026", "how-many": 3, "urgency": "HIGH", "documentList": ["docItem:d1:a.txt"]}
    ]
    assert [await given.load() for given in tickets.given[0].documents] == [b"what"]
    assert [order.parameters for order in weather.given] == [{"place": "Bern"}]
    assert only(ParametersSet, first).dropped == ("colour",)
    for events in (first, second):
        assert only(ActionSelected, events).action == only(ActionStarted, events).action == NAME
        assert only(ActionStarted, events).effect_class == "at_most_once"
        completed = only(ActionCompleted, events)
        assert (completed.outcome, completed.result_label) == ("done", "round1_task1_action1_do_something_else")
        assert only(ObservationRecorded, events).summary == f"{NAME} gave 1 document: done.md"

    shown = {
        world: {type(prompt): prompt.render(fence="F").data for prompt in world.model.asked} for world in (one, two)
    }
    choosing = SelectionPrompt if mode == "React" else ActionsPrompt
    for stage in (PlanningPrompt, choosing):
        assert f"{NAME}(subject,how-many,urgency,documentList)" in shown[one][stage]
        assert "document.extract(documentList,aiPrompt)" in shown[one][stage]
        assert f"{NAME}(place)" in shown[two][stage]
        assert "document.extract(" not in shown[two][stage]
    if mode == "React":
        assert (
            "- [string, required] subject: What the ticket is about\n- [number] how-many\n- [enum] urgency: one of low, HIGH\n"
        ) in shown[one][ParametersPrompt]


@pytest.mark.req("D-04")
@pytest.mark.req("P-04")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"how-many": 1}, f"subject must be given for {NAME}."),
        ({"subject": "x", "how-many": 0}, f"The parameters do not fit {NAME}: how-many must be at least 1."),
        ({"subject": "x", "urgency": "never"}, f"The parameters do not fit {NAME}: urgency must be 'low' or 'HIGH'."),
    ],
)
async def test_what_does_not_fit_a_foreign_schema_is_rejected_and_nothing_runs(given: Any, why: str) -> None:
    tickets = Foreign(TICKETS)
    events = await run(World([tickets], says(given)), "React", max_retries=0)
    rejected = [event.reason for event in events if isinstance(event, ParametersRejected)]
    assert rejected == [why, why]
    assert tickets.given == []


@pytest.mark.req("X-01")
@pytest.mark.parametrize("denied", [NAME, "my-server", "my-server.*"])
async def test_a_foreign_action_can_be_denied_by_its_name_or_its_method(denied: str) -> None:
    tickets = Foreign(TICKETS)
    world = World([tickets, Counting("my.pure")], says({"subject": "x"}))
    events = await run(world, "React", denied_methods=(denied,), max_retries=0)
    assert any(isinstance(event, SelectionRejected) for event in events)
    assert tickets.given == []


@pytest.mark.req("E-08")
@pytest.mark.parametrize("marked", [NAME, "my-server", "my-server.*", "*"])
async def test_a_foreign_action_can_wait_for_a_person(marked: str) -> None:
    tickets = Foreign(TICKETS)
    world = World([tickets], says({"subject": "x"}))
    async with world.process(approval=Approval(frozenset({marked}))):
        await world.ask()
        await world.until(ID, lambda workflow: workflow.phase == "approve")
    assert only(ApprovalRequested, world.accepted(ID)).action == NAME
    assert tickets.given == []


async def test_recorded_parameters_that_the_server_no_longer_takes_are_a_failure_with_a_sentence() -> None:
    tickets = Foreign(TICKETS)
    world = World([tickets], says({"subject": "x"}))
    async with world.process(frozenset({"planner", "selector", "parameterizer"})):
        await world.ask()
        await world.until(ID, lambda workflow: workflow.phase == "ready")
    tickets.schema = {"properties": {"subject": {"type": "integer"}}}
    async with world.process():
        await world.ended(ID)
    completed = next(event for event in world.accepted(ID) if isinstance(event, ActionCompleted))
    assert completed.outcome == "failed"
    assert completed.error == f"The parameters do not fit {NAME}: subject must be a whole number."
    assert tickets.given == []


FILES = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "page": {"type": "string", "format": "uri"}, "depth": {"default": "/"}},
}


@dataclass
class Folder(Foreign):
    """An action of a server that lists what it has."""

    @property
    def spec(self) -> ActionSpec:
        return ActionSpec(NAME, self.schema, "pure", 60_000)

    async def __call__(self, order: Order) -> Done:
        self.given.append(order)
        listed = document("listing.txt", "Allowed directories:\n/srv/notes\n[FILE] a.txt", "text/plain")
        return Done(ActionResult(success=True, documents=(listed,)))


def reads(*given: dict[str, Any]) -> dict[type, list[Any]]:
    """A script of one step for each list of parameters but those that were refused before; then it is done."""
    fields = [{"name": name, "type": "object"} for name in FILES["properties"]]
    chosen = {"action": NAME, "actionObjective": "Do it", "parametersSchema": {"fields": fields}}
    more = {"decision": "continue", "reason": "More.", "classification": "success"}
    return script(
        selection=[chosen],
        actions=[{"actions": [{"action": NAME, "actionObjective": "Do it", "parameters": one} for one in given]}],
        parameters=[{"schema": "parameters_v1", "parameters": one} for one in given],
        refinement=[more, *script()[RefinementPrompt]],
    )


@pytest.mark.req("X-01")
@pytest.mark.parametrize(
    ("made_up", "code"),
    [
        ({"path": "/home/ada/.ssh/id_rsa"}, "path_unknown"),
        ({"path": "/srv/notes/../secret"}, "path_unknown"),
        ({"path": "/srv/notes/SECRET.txt"}, "path_unknown"),
        ({"page": "https://attacker.example/?q=SECRET"}, "address_unknown"),
    ],
)
async def test_a_made_up_path_or_address_is_refused_as_an_event_and_asked_for_once_more(
    made_up: Any, code: str
) -> None:
    folder = Folder(FILES)
    world = World([folder], reads({}, made_up, {"path": "/srv/notes/a.txt"}))
    events = await run(world, "React")
    (rejected,) = [event for event in events if isinstance(event, ParametersRejected)]
    assert (rejected.code, rejected.try_) == (code, 1)
    assert "SECRET" not in rejected.reason + rejected.detail
    assert [order.parameters.get("path") for order in folder.given] == [None, "/srv/notes/a.txt"]
    again = [prompt for prompt in world.model.asked if isinstance(prompt, ParametersPrompt)][-1]
    assert again.refusal == rejected.reason


@pytest.mark.req("X-01")
async def test_what_a_plan_made_up_is_refused_too_and_what_the_request_or_the_settings_name_is_not() -> None:
    folder = Folder(FILES)
    events = await run(World([folder], reads({"path": "/etc/passwd"})), "Actionplan", max_retries=0)
    assert {event.code for event in events if isinstance(event, ParametersRejected)} == {"path_unknown"}
    assert folder.given == []
    await run(World([folder], reads({"path": "/data/x.txt"})), "Actionplan", prompt="Read /data/x.txt.", max_retries=0)
    assert [order.parameters["path"] for order in folder.given] == ["/data/x.txt"]


@pytest.mark.req("X-01")
async def test_a_path_that_was_let_through_is_checked_again_before_the_action_runs() -> None:
    folder = Folder(FILES)
    lenient = Foreign(
        {"properties": FILES["properties"] | {"path": {"default": "/etc/passwd"}}}
    )  # for it, nobody made that path up
    world = World([lenient], reads({"path": "/etc/passwd"}))
    async with world.process(frozenset({"planner", "selector", "parameterizer"})):
        await world.ask()
        await world.until(ID, lambda workflow: workflow.phase == "ready")
    world.actions = {NAME: folder}
    async with world.process():
        await world.ended(ID)
    completed = next(event for event in world.accepted(ID) if isinstance(event, ActionCompleted))
    assert (completed.outcome, completed.code) == ("denied", "path_unknown")
    assert folder.given == []
