"""Tools of servers in a process that serves: known from one file, asked about by default, allowed unless a list says no."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from doubles import Clock, World, script
from structlog.testing import capture_logs
from test_lying_server import ran
from test_wiring import SilentPool, connections
from tool_servers import KEY, lying, named, tools_of

from builders import follow_up
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.request import workflow_id
from poweron_events.step_events import ActionCompleted, ApprovalRequested, ParametersRejected
from poweron_services.action_resources import opened_actions
from poweron_services.actions.registry import actions
from poweron_services.decider.approval import Approval

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("MUSEUM_KEY", KEY)
    return {"home": tmp_path / "home", "mcp": named(tmp_path, {"lying": lying(tmp_path)})}


@pytest.mark.req("C-08")
async def test_a_process_that_runs_nothing_makes_the_same_specs_and_starts_no_server_once_they_are_known(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    async with opened_actions(actions, connections(SilentPool(), **settings), {"executor"}) as work:
        first = {name: action.spec for name, action in work.actions.items()}
    assert "lying.count" in first
    assert (tmp_path / "started").read_text().count("\n") == 1
    async with opened_actions(actions, connections(SilentPool(), **settings), {"selector"}) as work:
        assert {name: action.spec for name, action in work.actions.items()} == first
    assert (tmp_path / "started").read_text().count("\n") == 1


@pytest.mark.req("E-08")
async def test_what_does_not_say_that_it_only_reads_waits_for_a_person(settings: dict[str, Any]) -> None:
    given = connections(SilentPool(), **settings, approve="ai.*")
    async with opened_actions(actions, given, {"executor"}) as work:
        marked = work.approval.patterns
    assert marked == {"ai.*", "lying.again", "lying.count", "lying.count_and_die", "lying.count_and_wait"}


@pytest.mark.req("E-08")
async def test_what_the_entry_trusts_runs_without_asking(tmp_path: Path) -> None:
    path = named(tmp_path, {"lying": lying(tmp_path, trust=["count"])})
    async with tools_of(path, tmp_path / "home") as known:
        assert not known["lying.count"].spec.needs_approval
        assert known["lying.again"].spec.needs_approval


@pytest.mark.req("E-08")
async def test_the_loop_waits_for_the_answer_before_the_server_is_called(tmp_path: Path) -> None:
    async with tools_of(named(tmp_path, {"lying": lying(tmp_path)}), tmp_path / "home") as known:
        chosen = {"action": "lying.count", "actionObjective": "Count"}
        filled = {"schema": "parameters_v1", "parameters": {"text": "one"}}
        world = World(known.values(), script(selection=[chosen], parameters=[filled]))
        unasked = frozenset(name for name, action in known.items() if action.spec.needs_approval)
        async with world.process(approval=Approval(unasked)):
            await world.ask()
            await world.phase(ID, "approve")
    assert any(isinstance(event, ApprovalRequested) for event in world.accepted(ID))
    assert not (tmp_path / "count").exists()


@pytest.mark.req("X-01")
@pytest.mark.parametrize(
    ("lists", "may"),
    [({}, True), ({"deny": "lying.*"}, False), ({"allow_lookup": "ai.*"}, False), ({"allow_lookup": "ai.*,lying.*"}, True)],
)  # fmt: skip
async def test_who_names_a_server_may_use_it_unless_a_list_that_is_set_says_otherwise(
    settings: dict[str, Any], lists: dict[str, str], may: bool
) -> None:
    given = connections(SilentPool(), **settings, **lists)
    async with opened_actions(actions, given, {"intake"}) as work:
        found = work.lists
    assert ("lying.*" in found.allowed["lookup"] and "lying.*" not in found.denied) == may


async def test_a_server_that_cannot_be_started_is_told_of_and_the_rest_works(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    entries = {"gone": {"command": "/nowhere/at-all"}, "lying": lying(tmp_path)}
    given = connections(SilentPool(), home=tmp_path / "home", mcp=named(tmp_path, entries), approve="gone.*")
    with capture_logs() as logged:
        async with opened_actions(actions, given, {"executor"}) as work:
            assert "lying.count" in work.actions
            assert "ai.process" in work.actions
    (told,) = [line for line in logged if line["event"] == "tool_server_unavailable"]
    assert told["error"] == (
        "The server 'gone' cannot be used. The program '/nowhere/at-all' could not be started: "
        "No such file or directory."
    )


@pytest.mark.req("E-08")
async def test_a_process_that_is_killed_in_the_middle_leaves_an_unknown_outcome_and_one_call(tmp_path: Path) -> None:
    path = named(tmp_path, {"lying": lying(tmp_path, trust=["*"], timeout=60)})
    async with tools_of(path, tmp_path / "home") as known:
        chosen = {"action": "lying.count_and_wait", "actionObjective": "Count"}
        filled = {"schema": "parameters_v1", "parameters": {"text": "one"}}
        world = World(known.values(), script(selection=[chosen], parameters=[filled]))
        first = world.start()
        await world.ask(max_retries=0)
        async with asyncio.timeout(10):
            while not (tmp_path / "count_and_wait").exists():  # noqa: ASYNC110 - a file of another process
                await asyncio.sleep(0.005)
        await first.kill()
        async with world.process(clock=Clock(ahead_ms=10 * 60_000)):
            await world.ended(ID)
    (completed,) = [event for event in world.accepted(ID) if isinstance(event, ActionCompleted)]
    assert completed.outcome == "unknown"
    assert (tmp_path / "count_and_wait").read_text() == "one\n"


@pytest.mark.req("E-04")
async def test_a_workflow_whose_server_is_gone_is_folded_and_followed_up(tmp_path: Path) -> None:
    world, _ = await ran(tmp_path, "read_text")
    world.actions = {}
    workflow = Workflow(ID)
    for recorded, _ in world.records(ID):
        workflow, verdict = evolve(workflow, recorded)
        assert verdict == "accepted"
    assert workflow.phase == "ended"
    assert any("lying.read_text" in str(message) for message in workflow.current.messages)
    async with world.process():
        await world.tell(ID, follow_up(2, max_retries=0))
        await world.until(ID, lambda workflow: len(workflow.openings) == 2)
        again = await world.ended(ID)
    assert again.current.number == 2


async def test_an_action_that_is_gone_between_its_selection_and_its_parameters_is_rejected(tmp_path: Path) -> None:
    async with tools_of(named(tmp_path, {"lying": lying(tmp_path)}), tmp_path / "home") as known:
        chosen = {"action": "lying.read_text", "actionObjective": "Read"}
        world = World(known.values(), script(selection=[chosen, chosen]))
        async with world.process(frozenset({"planner", "selector"})):
            await world.ask(max_retries=0)
            await world.phase(ID, "parameterize")
        world.actions = {}
        async with world.process():
            await world.ended(ID)
    rejected = [event.code for event in world.accepted(ID) if isinstance(event, ParametersRejected)]
    assert rejected
    assert {*rejected} == {"action_not_allowed"}
