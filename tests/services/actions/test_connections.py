"""A connection's secret is told to the action that needs it, and nobody reads it anywhere afterwards."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import structlog
from doubles import EVENTS, World, script
from intake_world import Rows, committed, events, request, running
from modes import MODES
from stored_files import stored_files

from poweron_events.catalog import ActionSpec
from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_events.event import UnreadDocument
from poweron_events.log.memory import MemoryLog
from poweron_events.request import RequestRefused, WorkflowRequested, workflow_id
from poweron_events.step_events import ActionCompleted, ActionResult, SelectionRejected
from poweron_projections.folder import LocalFolder
from poweron_services import telemetry
from poweron_services.actions.action import Done, Failed, Order, document
from poweron_services.actions.registry import offered
from poweron_services.cli.advice import advice_for
from poweron_services.models.prompts import ActionsPrompt, PlanningPrompt, ProcessPrompt, SelectionPrompt, Template
from poweron_services.roles.action_secrets import ActionSecrets
from poweron_services.settings.action_connections import ActionConnections

ID = workflow_id("/tests", "1")
NAME = "crm.find"
SECRET, OTHER = 'canary/"1234567890"+ä', "canary-of-another-0987654321"
SCHEMA = {
    "type": "object",
    "properties": {"connectionReference": {"type": "string", "connectionKind": "crm"}},
    "required": ["connectionReference"],
}
FILE = """
[crm]
kind = "crm"
url = "https://crm.example.org"
token = { env = "CRM_TOKEN" }
[other]
kind = "imap"
password = { env = "OTHER_PASSWORD" }
"""
TEMPLATE = Template("test.v1.md", "Read this.\n=== data ===\n{{ ai_prompt }}\n")


def forms() -> list[str]:
    """What nobody may find: the secrets as they are, and as they are written elsewhere."""
    return [
        form
        for secret in (SECRET, OTHER)
        for form in (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            quote(secret, safe=""),
            base64.b64encode(secret.encode()).decode(),
            base64.b64encode(b"u:" + secret.encode()).decode(),
            secret.encode().hex(),
        )
    ]


def said() -> str:
    """What a careless server says."""
    return " | ".join(forms())


@dataclass
class Careless:
    """An action that repeats its secret wherever something can be said."""

    ends: Callable[[], Done]
    given: list[Order] = field(default_factory=list)

    @property
    def spec(self) -> ActionSpec:
        return ActionSpec(NAME, SCHEMA, "pure", 60_000)

    async def __call__(self, order: Order) -> Done:
        self.given.append(order)
        structlog.get_logger("crm").warning("told", header=said(), order=repr(order))
        return self.ends()


def told_everywhere() -> Done:
    unread = UnreadDocument(document_name=f"{OTHER}.pdf", code="document_damaged", reason=f"{OTHER} is damaged.")
    documents = (
        document(f"{OTHER}.md", said(), "text/markdown"),
        document("said.json", json.dumps({"said": said()}), "application/json"),
    )
    return Done(
        ActionResult(success=True, documents=documents),
        (f"A note: {said()[:400]}",),
        (unread,),
        links=(f"https://crm.example.org/?token={quote(SECRET, safe='')}",),
    )


def failed() -> Done:
    return Done(ActionResult(success=False, error=f"It failed: {said()}"), code="action_failed", detail=said())


def refused() -> Done:
    raise Failed(f"No: {said()}", f"A note of {SECRET}")


def unavailable() -> Done:
    raise Unavailable(f"Away: {said()}")


def broken() -> Done:
    raise RuntimeError(said())


def connections(file: Path) -> ActionConnections:
    file.write_text(FILE)
    return ActionConnections.read(file, {"CRM_TOKEN": SECRET, "OTHER_PASSWORD": OTHER})


def chosen(action: str = NAME, connection: str | None = "crm") -> dict[type, list[Any]]:
    line = {"action": action, "actionObjective": "Find", "requiredConnection": connection}
    return script(selection=[line], actions=[{"actions": [{**line, "parameters": {}}]}])


async def run(action: Any, known: ActionConnections, folder: Path, mode: str = "React", **asked: Any) -> World:
    world = World(offered({NAME: action}, known).values(), chosen())
    world.content = ContentStore.at(str(folder / "content"))
    telemetry.configure("debug", telemetry.LogFile(folder / "log"))
    async with world.process(secrets=ActionSecrets(known)):
        await world.ask(workflow_mode=mode, max_retries=0, **{"connections": ("crm",), **asked})
        await world.ended(ID)
    return world


async def everything(world: World, folder: Path) -> list[str]:
    """All events, rows, prompts and lines of the log."""
    records = [record for records in world.log._topics[EVENTS] for record in records]
    rows = await LocalFolder().fold(records, _nothing_before)
    prompts = [str(prompt.render()) for prompt in world.model.asked]
    values = [(record.value or b"").decode() for record in records]
    return [*values, repr(rows), *_files(folder), *prompts, repr(world.processes)]


def _files(folder: Path) -> list[str]:
    """What files are called and what they hold."""
    contents = [content.decode(errors="replace") for content in stored_files(folder).values()]
    return [*map(str, folder.rglob("*")), *contents]


def leaks(found: list[str]) -> list[str]:
    """Where a secret stands, with what stands around it."""
    places = [(each, each.find(form)) for each in found for form in forms()]
    return [each[max(0, at - 80) : at + 60] for each, at in places if at >= 0]


async def _nothing_before(_: object) -> dict[str, Any]:
    return {}


@pytest.mark.req("R-03")
@pytest.mark.req("S27")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ends", [told_everywhere, failed, refused, unavailable, broken])
async def test_whatever_an_action_says_of_its_connection_no_secret_is_kept_anywhere(
    ends: Callable[[], Done], mode: str, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    action = Careless(ends)
    world = await run(action, connections(tmp_path / "connections.toml"), tmp_path / "kept", mode)

    held = action.given[0].connection
    assert held is not None
    assert held.secrets["token"].get_secret_value() == SECRET
    assert held.settings == {"url": "https://crm.example.org"}
    completed = next(event for event in world.accepted(ID) if isinstance(event, ActionCompleted))
    assert completed.outcome == ("done" if ends is told_everywhere else "failed")
    found = await everything(world, tmp_path / "kept")
    assert any('"event": "told"' in each for each in found)
    assert "[hidden]" in "".join(found)
    assert leaks(found) == []


@pytest.mark.req("R-03")
async def test_what_an_action_asks_a_model_holds_no_secret_either(tmp_path: Path) -> None:
    class Asking(Careless):
        async def __call__(self, order: Order) -> Done:
            await order.ask(
                ProcessPrompt(
                    template=TEMPLATE,
                    ai_prompt=f"Sum up {said()}",
                    custom_instructions="",
                    language=None,
                    output_format="markdown",
                    documents=(),
                )
            )
            return await super().__call__(order)

    (tmp_path / "kept").mkdir()
    known = connections(tmp_path / "connections.toml")
    world = await run(Asking(told_everywhere), known, tmp_path / "kept")
    found = await everything(world, tmp_path / "kept")
    asked = next(prompt for prompt in world.model.asked if isinstance(prompt, ProcessPrompt))
    assert "Sum up [hidden] | [hidden]" in str(asked.render())
    assert asked.template == TEMPLATE
    assert leaks(found) == []


@pytest.mark.req("R-03")
@pytest.mark.parametrize("mode", MODES)
async def test_an_action_is_offered_to_a_workflow_that_names_a_connection_of_its_kind_only(
    mode: str, tmp_path: Path
) -> None:
    known = connections(tmp_path / "connections.toml")
    for labels, there in ((("crm",), True), (("other",), False), ((), False)):
        action = Careless(told_everywhere)
        folder = tmp_path / "-".join(("kept", *labels))
        folder.mkdir()
        world = await run(action, known, folder, mode, connections=labels)
        kinds = (PlanningPrompt, SelectionPrompt, ActionsPrompt)
        shown = [prompt.render().data for prompt in world.model.asked if isinstance(prompt, kinds)]
        assert [f"{NAME}(" in each for each in shown] == [there] * len(shown)
        assert bool(action.given) is there


@pytest.mark.req("R-03")
async def test_a_connection_of_another_kind_is_none_of_the_action(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    action, known = Careless(told_everywhere), connections(tmp_path / "connections.toml")
    world = World(offered({NAME: action}, known).values(), chosen(connection="other"))
    async with world.process(secrets=ActionSecrets(known)):
        await world.ask(max_retries=0, connections=("crm", "other"))
        await world.ended(ID)
    rejected = [event for event in world.accepted(ID) if isinstance(event, SelectionRejected)]
    assert [(event.code, event.reason[:42]) for event in rejected] == [
        ("unknown_connection", "'other' is no connection; known are crm. L")
    ] * 2
    assert action.given == []


@pytest.mark.req("R-03")
async def test_a_connection_whose_secret_is_gone_is_a_failure_that_says_to_people_what_is_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "connections.toml").write_text(FILE)
    known = ActionConnections.read(tmp_path / "connections.toml", {"OTHER_PASSWORD": OTHER})
    action = Careless(told_everywhere)
    world = await run(action, known, tmp_path / "kept")
    completed = next(event for event in world.accepted(ID) if isinstance(event, ActionCompleted))
    assert (completed.outcome, completed.code) == ("failed", "connection_unusable")
    assert completed.error == "The connection 'crm' cannot be used now."
    assert "the variable CRM_TOKEN has no value" in completed.detail
    assert action.given == []


@pytest.mark.req("R-03")
async def test_a_result_in_which_nothing_can_stand_in_a_secrets_place_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    place = "https://crm.example.org"
    (tmp_path / "connections.toml").write_text(FILE)
    known = ActionConnections.read(tmp_path / "connections.toml", {"CRM_TOKEN": place, "OTHER_PASSWORD": OTHER})
    from poweron_events.event import WebPage
    from poweron_services.actions.action import Origin

    page = WebPage(url=f"{place}/a", fetched_at="2026-11-24T00:00:00Z", sha256="0" * 64, content="0" * 64)
    result = ActionResult(success=True, documents=(document("a.md", "x", "text/markdown"),))
    action = Careless(lambda: Done(result, origins=(Origin(page=page),)))
    world = await run(action, known, tmp_path / "kept")
    completed = next(event for event in world.accepted(ID) if isinstance(event, ActionCompleted))
    assert (completed.outcome, completed.code) == ("failed", "result_not_stored")
    assert completed.documents == ()


@pytest.mark.req("R-03")
async def test_where_no_connection_is_configured_a_request_that_names_one_is_told_so() -> None:
    log = MemoryLog()
    async with running(log, Rows(log)):
        await request(log, "1", connections=("crm",))
        await committed(log, 1)
    refused = [event for event in await events(log) if isinstance(event, RequestRefused)]
    assert [(event.code, event.detail) for event in refused] == [
        (
            "unknown_connection",
            "The request cannot be used: connections: 'crm' is not configured; no connection is.",
        )
    ]
    assert "POWERON_CONNECTIONS" in advice_for("unknown_connection")


@pytest.mark.req("R-03")
async def test_a_request_is_refused_that_names_a_connection_which_is_not_configured() -> None:
    log = MemoryLog()
    async with running(log, Rows(log), connections=("crm", "mail")):
        await request(log, "1", connections=("crm",))
        await request(log, "2", connections=("crm", "crn"))
        await committed(log, 2)
    found = await events(log)
    assert [event.connections for event in found if isinstance(event, WorkflowRequested)] == [("crm",)]
    assert [(event.code, event.detail) for event in found if isinstance(event, RequestRefused)] == [
        (
            "unknown_connection",
            "The request cannot be used: connections: 'crn' is not configured; configured are crm, mail.",
        )
    ]
