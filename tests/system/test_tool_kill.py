"""`kill -9` around a tool that may run at most once: its server counts, and counts no more than one call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from followed_workflows import followed, send_request
from processes import MET, ONE_STEP, script, serving
from tool_servers import KEY, lying, named, tools_of

from poweron_events import RequestWorkflow
from poweron_events.fold.state import Workflow
from poweron_events.step_events import ActionCompleted, ActionStarted
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(400)]


def chosen(tool: str) -> dict[str, list[Any]]:
    """A script in which the tool is chosen."""
    refined = {"decision": "stop", "reason": "Counted.", "classification": "success", "criteriaProgress": MET}
    return {
        **ONE_STEP,
        "SelectionPrompt": [{"action": f"lying.{tool}", "actionObjective": "Count."}],
        "ParametersPrompt": [{"schema": "parameters_v1", "parameters": {}}],
        "RefinementPrompt": [refined],
    }


def counted(folder: Path, tool: str) -> int:
    return len((folder / tool).read_text().splitlines()) if (folder / tool).exists() else 0


def prepared(environment: dict[str, str], folder: Path, tool: str) -> None:
    environment["POWERON_MODEL"] = script(folder, chosen(tool))
    environment["POWERON_MCP"] = str(named(folder, {"lying": lying(folder, trust=["*"], timeout=2)}))
    environment["MUSEUM_KEY"] = KEY


@pytest.mark.req("E-08")
async def test_killed_at_every_turn_it_ran_at_most_once(
    connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    prepared(environment, tmp_path, "count")
    killed: list[str] = []
    with serving(environment, tmp_path, ["all"]) as processes:

        def kill(workflow: Workflow) -> None:
            killed.append(workflow.phase)
            processes.replace(["all"])

        workflow_id = await send_request(connections, RequestWorkflow(prompt="Count."))
        seen = await followed(connections, workflow_id, kill)
    started = [event for verdict, event in seen if verdict == "accepted" and isinstance(event, ActionStarted)]
    assert counted(tmp_path, "count") <= len(started) == 1
    assert all(event.tool_sha256 for event in started)
    assert {"select", "parameterize", "started"} <= set(killed)


@pytest.mark.req("E-08")
@pytest.mark.parametrize("tool", ["count", "count_and_wait"])
async def test_killed_once_it_has_counted_it_is_not_called_again(
    connections: Connections, environment: dict[str, str], tmp_path: Path, tool: str
) -> None:
    prepared(environment, tmp_path, tool)
    with serving(environment, tmp_path, ["all"]) as processes:
        workflow_id = await send_request(connections, RequestWorkflow(prompt="Count."))
        following = asyncio.create_task(followed(connections, workflow_id, lambda _: None))
        async with asyncio.timeout(60):
            while not counted(tmp_path, tool):  # noqa: ASYNC110 - a file of another process
                await asyncio.sleep(0.001)
        processes.replace(["all"])
        seen = await following
    (completed,) = [event for verdict, event in seen if verdict == "accepted" and isinstance(event, ActionCompleted)]
    assert completed.outcome in ("unknown", "done")
    if tool == "count_and_wait":
        assert completed.outcome == "unknown"
    assert counted(tmp_path, tool) == 1


@pytest.mark.req("E-08")
@pytest.mark.parametrize(
    ("moment", "times"),
    [
        ("initialize came", 0),
        ("initialize was answered", 0),
        ("tools/list was answered", 0),
        ("tools/call came", 1),
        ("counted", 1),
        ("tools/call was answered", 1),
    ],
)
async def test_killed_by_the_server_itself_at_any_moment_of_a_call_it_is_not_called_again(
    connections: Connections, environment: dict[str, str], tmp_path: Path, moment: str, times: int
) -> None:
    prepared(environment, tmp_path, "count")
    async with tools_of(tmp_path / "mcp.json", Path(environment["POWERON_HOME"]) / "mcp"):
        pass  # known from here on, so that the server is started at the call
    (tmp_path / "strike").write_text(moment)
    with serving(environment, tmp_path, ["all"]) as processes:
        workflow_id = await send_request(connections, RequestWorkflow(prompt="Count."))
        following = asyncio.create_task(followed(connections, workflow_id, lambda _: None))
        async with asyncio.timeout(60):
            while processes.running["all"].poll() is None:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
        assert (tmp_path / "struck").exists()
        processes.replace(["all"])
        seen = await following
    accepted = [event for verdict, event in seen if verdict == "accepted"]
    assert len([event for event in accepted if isinstance(event, ActionStarted)]) == 1
    (completed,) = [event for event in accepted if isinstance(event, ActionCompleted)]
    assert completed.outcome in ("unknown", "done")
    assert counted(tmp_path, "count") == times
