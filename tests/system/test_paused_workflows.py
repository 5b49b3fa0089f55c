"""Pause, resume, restart and cancel on the real servers, one workflow or many, whatever becomes of the processes."""

import asyncio
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from beside import beside
from commands import Shell
from followed_workflows import Followed, send_request
from processes import ONE_STEP, script, serving
from surviving import until
from test_cancelled_while_killed import PLAYED, RUNS
from test_tool_kill import counted, prepared

from poweron_events import RequestWorkflow
from poweron_events.client import send
from poweron_events.fold.state import Phase
from poweron_events.request import RequestPause, RequestResume
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections
from poweron_services.settings.config import local_user

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


@pytest.mark.soak
@pytest.mark.parametrize("runs", [RUNS])
async def test_a_pause_sent_while_no_process_serves_comes_before_any_work_and_survives_every_kill(
    connections: Connections, environment: dict[str, str], tmp_path: Path, runs: int
) -> None:
    prepared(environment, tmp_path, "count")
    for run, phase in enumerate(islice(cycle(reversed(PLAYED)), runs)):
        names = await _events_after_the_kill(connections, environment, tmp_path, phase)
        assert names[:2] == ["RoundPaused", "RoundResumed"], (run, phase)
        assert names[-1] == "RoundCompleted", (run, phase)
        assert counted(tmp_path, "count") == run + 1
    assert (await verify(connections.log, connections.pool)).differences == []


async def _events_after_the_kill(
    connections: Connections, environment: dict[str, str], folder: Path, phase: Phase
) -> list[str]:
    """Leave a workflow in a phase, kill its process, pause, serve others, kill again, resume: the events since then."""
    with serving(environment, folder, [PLAYED[phase]]) as processes:
        followed = Followed(connections.log, await send_request(connections, RequestWorkflow(prompt="Count.")))
        async with beside(followed.follow()):
            id_ = followed.workflow.id
            await until(lambda: followed.workflow.phase == phase, f"the workflow is in phase {phase}")
            processes.kill(PLAYED[phase])
            known, calls = len(followed.accepted), counted(folder, "count")
            pause = RequestPause(workflow_id=id_, round=1, reason="We look at it first.")
            await send(connections.log, pause, source="/tests", request_id=f"pause-{id_}")
            processes.start("all")
            await until(lambda: followed.workflow.is_paused, "the workflow is paused")
            processes.replace(["all"])
            await _another_ends(connections)
            assert (followed.workflow.is_paused, counted(folder, "count")) == (True, calls + 1)  # that of the other
            (folder / "count").write_text("counted\n" * calls)
            resume = RequestResume(workflow_id=id_, round=1)
            await send(connections.log, resume, source="/tests", request_id=f"resume-{id_}")
            await followed.ended()
    return [type(event).__name__ for event in followed.accepted[known:]]


async def _another_ends(connections: Connections) -> None:
    """Whoever serves now has had the time to work on everything that it may work on."""
    other = Followed(connections.log, await send_request(connections, RequestWorkflow(prompt="Count.")))
    async with beside(other.follow()):
        await other.ended()


async def test_many_are_paused_resumed_restarted_and_cancelled_with_a_result_for_each(
    shell: Shell, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    environment |= {"POWERON_MODEL": script(tmp_path, ONE_STEP), "POWERON_APPROVE": "*"}
    waiting = ("--where", "phase=approve and age<1h", "--where", "source=/tests/followed")
    with serving(environment, tmp_path, ["all"]):
        ids = [await send_request(connections, RequestWorkflow(prompt="Write it.")) for _ in range(3)]
        await _until_all(shell, ids, phase="approve")

        asked = await shell("pause", *waiting)
        assert (asked.code, asked.err.splitlines()[0]) == (2, "3 workflows match:")
        assert asked.err.splitlines()[-1] == "Nothing was done: add --yes to pause them without a question."
        paused = await shell("pause", *waiting, "--reason", "We look first.", "--yes", "--json")
        assert (paused.code, _results(paused.lines)) == (0, dict.fromkeys(ids, ("paused", None)))
        listed = {line["workflowId"]: line for line in (await shell("workflows", "--json")).lines}
        assert {(listed[id_]["status"], listed[id_]["pauseReason"]) for id_ in ids} == {("paused", "We look first.")}
        assert listed[ids[0]]["pauseActor"]["id"] == local_user()

        resumed = await shell("resume", ids[0], "00000000-0000-5000-8000-000000000000", ids[0], "--json")
        assert (resumed.code, resumed.lines[0]["status"]) == (1, "resumed")
        assert (resumed.lines[1]["status"], resumed.lines[1]["code"]) == ("failed", "unknown_workflow")
        again = await shell("resume", ids[0])
        assert (again.code, again.out.split(maxsplit=2)[2].strip()) == (1, "Round 1 is not paused.")

        (restarted,) = (await shell("restart", ids[0], "--json")).lines
        new = restarted["newWorkflowId"]
        await _until_all(shell, [new], phase="approve")
        listed = {line["workflowId"]: line for line in (await shell("workflows", "--json")).lines}
        assert (listed[new]["restartedFrom"], listed[ids[0]]["restartedAs"]) == (ids[0], [new])
        assert listed[new]["prompt"] == "Write it."

        cancelled = await shell("cancel", *ids, new, "--reason", "No longer needed.", "--json")
        assert (cancelled.code, _results(cancelled.lines)) == (0, dict.fromkeys([*ids, new], ("cancelled", None)))
    assert (await verify(connections.log, connections.pool)).differences == []


def _results(lines: list[Any]) -> dict[str, tuple[str, str | None]]:
    return {line["workflowId"]: (line["status"], line["code"]) for line in lines}


async def _until_all(shell: Shell, ids: list[str], *, phase: str) -> None:
    async with asyncio.timeout(60):
        while True:
            phases = {line["workflowId"]: line["phase"] for line in (await shell("workflows", "--json")).lines}
            if all(phases.get(id_) == phase for id_ in ids):
                return
