"""`kill -9`, then a cancellation while no process serves: whoever serves next does no more work on the workflow."""

from itertools import cycle, islice
from pathlib import Path

import pytest
from beside import beside
from followed_workflows import Followed, send_request
from processes import serving
from surviving import until
from test_tool_kill import counted, prepared

from poweron_events import RequestWorkflow
from poweron_events.client import send
from poweron_events.fold.state import Phase
from poweron_events.request import RequestCancellation
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

PLAYED: dict[Phase, str] = {
    "select": "intake,projector,planner",
    "parameterize": "intake,projector,planner,selector",
    "ready": "intake,projector,planner,selector,parameterizer",
}
"""The roles of a process that brings a workflow into this phase and no further."""
RUNS = 30


@pytest.mark.req("E-08")
@pytest.mark.parametrize("runs", [1, pytest.param(RUNS, marks=pytest.mark.soak)])
async def test_a_cancellation_sent_while_no_process_serves_comes_before_any_work(
    connections: Connections, environment: dict[str, str], tmp_path: Path, runs: int
) -> None:
    prepared(environment, tmp_path, "count")
    for run, phase in enumerate(islice(cycle(reversed(PLAYED)), runs)):
        assert await _events_after_the_kill(connections, environment, tmp_path, phase) == [
            "CancellationRequested",
            "RoundCancelled",
        ], (run, phase)
    assert counted(tmp_path, "count") == 0


async def _events_after_the_kill(
    connections: Connections, environment: dict[str, str], folder: Path, phase: Phase
) -> list[str]:
    """Leave a workflow in a phase, kill its process, cancel, serve again; the events accepted after the kill."""
    with serving(environment, folder, [PLAYED[phase]]) as processes:
        followed = Followed(connections.log, await send_request(connections, RequestWorkflow(prompt="Count.")))
        async with beside(followed.follow()):
            await until(lambda: followed.workflow.phase == phase, f"the workflow is in phase {phase}")
            processes.kill(PLAYED[phase])
            known = len(followed.accepted)
            cancellation = RequestCancellation(workflow_id=followed.workflow.id, round=1, reason="No longer needed.")
            await send(connections.log, cancellation, source="/tests", request_id=f"cancel-{followed.workflow.id}")
            processes.start("all")
            await followed.ended()
    return [type(event).__name__ for event in followed.accepted[known:]]
