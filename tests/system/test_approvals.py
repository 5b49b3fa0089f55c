"""Approval on the real servers: what is marked waits for a person, whatever becomes of the processes meanwhile."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from commands import Shell, ended, told
from processes import ONE_STEP, script, serving

from poweron_events import topics
from poweron_events.codec import encode
from poweron_events.envelope import envelop
from poweron_events.log import Message
from poweron_events.request import RequestIdentity
from poweron_events.step_events import ApprovalGranted
from poweron_projections.verify import verify
from poweron_services.client.approve import waiting_approval
from poweron_services.client.client_errors import NothingToApprove
from poweron_services.client.connect import Connections
from poweron_services.settings.config import local_user

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


async def waiting(shell: Shell, workflow: str) -> dict[str, Any]:
    """What the workflow asks a person, as soon as it does."""
    async with asyncio.timeout(60):
        while True:
            for asked in (await shell("approvals", "--json")).lines:
                if asked["workflowId"] == workflow:
                    return asked  # type: ignore[no-any-return] # a line of JSON


async def outcome(shell: Shell, workflow: str) -> dict[str, Any]:
    """What became of the action."""
    events = (await shell("events", workflow, "--json")).lines
    (found,) = [event["data"] for event in events if event["type"] == "poweron.action.completed.v1"]
    return found  # type: ignore[no-any-return] # a line of JSON


async def forge_answer(connections: Connections, workflow: str) -> None:
    """Write past intake that other parameters are approved."""
    place = {"round": 1, "task": 1, "attempt": 1, "step": 1}
    approved = ApprovalGranted(**place, parameters_sha256="0" * 64, request=RequestIdentity(source="/forger", id="1"))
    envelope = envelop(approved, workflow_id=workflow, source="/poweron/intake/forger", time="2026-11-26T00:00:00.000Z")
    await connections.log.append(topics.EVENTS.name, [Message(workflow.encode(), encode(envelope))])


@pytest.mark.soak
@pytest.mark.req("E-08")
@pytest.mark.req("E-15")
async def test_what_waits_survives_a_kill_and_runs_once_it_is_approved(
    shell: Shell, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    environment |= {"POWERON_MODEL": script(tmp_path, ONE_STEP), "POWERON_APPROVE": "ai.process"}
    with serving(environment, tmp_path, ["all"]) as processes:
        asking = await shell.start("ask", "Write it.", "--no-serve", "--json")
        workflow = (await told(asking, "Workflow ")).split()[1]
        asked = await waiting(shell, workflow)
        assert (asked["action"], asked["parameters"]["aiPrompt"]) == ("ai.process", "Write it.")
        (listed,) = (await shell("workflows")).out.splitlines()
        assert (listed.split()[0], "  approval  " in listed) == (workflow, True)
        told_so = f'poweron approve {workflow} --reason "…"\n'
        assert told_so in (await shell("history", workflow)).err
        assert told_so not in (await shell("history", workflow, "--before", "1")).err
        assert told_so in (await shell("approvals")).out
        early = (await shell("ask", "And then?", "--workflow", workflow)).err
        assert f"still running. It waits for an approval, which `poweron approve {workflow}` and" in early
        await forge_answer(connections, workflow)
        processes.replace(["all"])

        said = await shell("approve", workflow, "--reason", "Go on.")

        assert (said.code, said.out.startswith("The action is approved.")) == (0, True), said.err
        assert '"aiPrompt": "Write it."' in said.err
        answered = await ended(asking)
        assert (answered.code, answered.lines[-1]["status"]) == (0, "completed")
        assert told_so in answered.err
        assert (await outcome(shell, workflow))["outcome"] == "done"
        assert '"approve":"ai.process"' in processes.log().replace(": ", ":")
        again = await shell("approve", workflow)
        assert again.code == 1
        assert again.err.startswith(
            f"Nothing in workflow {workflow} waits for an approval. Step 1 of task 1 in round 1 "
        )
        assert f" was approved by {local_user()} at " in again.err
        with pytest.raises(NothingToApprove) as nothing:
            await waiting_approval(connections, workflow)
        last = nothing.value.last
        assert last is not None
        assert (last.place, last.status) == ((1, 1, 1, 1), "approved")
        assert last.approver == local_user()
        assert "waits for a person" not in (await shell("history", workflow)).err

        asking = await shell.start("ask", "Write it again.", "--no-serve", "--json")
        workflow = (await told(asking, "Workflow ")).split()[1]
        await waiting(shell, workflow)
        said = await shell("deny", workflow, "--reason", "Not on a Friday.")
        assert (said.code, said.out.startswith("The action is denied.")) == (0, True), said.err
        await ended(asking)
        denied = await outcome(shell, workflow)
        assert denied["outcome"] == "denied"
        assert denied["error"].endswith(": Not on a Friday.")
    assert (await verify(connections.log, connections.pool)).differences == []


@pytest.mark.req("E-16")
async def test_what_nobody_answers_in_time_does_not_run(
    shell: Shell, environment: dict[str, str], tmp_path: Path
) -> None:
    environment |= {"POWERON_MODEL": script(tmp_path, ONE_STEP)}
    environment |= {"POWERON_APPROVAL_EXPIRES": "1s"}
    with serving(environment, tmp_path, ["all"]):
        # the setting of the one who asks, and of nobody who works
        asked = await shell("ask", "Write it.", "--no-serve", "--json", POWERON_APPROVE="*")
        found = await outcome(shell, asked.lines[-1]["workflowId"])
        late = await shell("approve", asked.lines[-1]["workflowId"])
    assert (" started  " in asked.err, " not run  " in asked.err) == (False, True)
    assert re.search(r"Step 1 of task 1 in round 1 expired at [-0-9: ]+ \(UTC\), which counts as denied\.", late.err)
    assert (found["outcome"], found["error"]) == ("denied", "Nobody approved the action in time.")
