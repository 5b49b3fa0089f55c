"""Quotas on the real servers: who has used up a day waits or asks, others do not, and kills in between change nothing."""

import time
from base64 import b64encode
from pathlib import Path

import pytest
from beside import beside
from commands import Shell
from followed_workflows import Followed, send_request
from processes import serving
from surviving import until
from test_policies import Office, policy

from builders import person
from poweron_events import RequestWorkflow
from poweron_events.fold.day_use import ms_until_next_day
from poweron_events.request import InlineDocument
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

QUOTAS = """
name = "quotas"
apply = ["admins"]
otherwise = "allow"
limits.onBudget = "ask"
groups.admins.members = ["carla"]

[[perActor]]
startsPerDay = 2
tokensPerDay = 6_000
"""


def question(actor: str) -> RequestWorkflow:
    letter = InlineDocument(
        document_name="letter.txt", mime_type="text/plain", data=b64encode(b"The museum opens at 9.")
    )
    return RequestWorkflow(prompt="When does the museum open?", documents=(letter,), actor=person(actor))


@pytest.mark.req("B-02")
@pytest.mark.req("E-15")
async def test_an_actor_who_used_up_a_day_asks_for_more_or_waits_and_no_one_else_does(
    shell: Shell, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    """Given a quota of two rounds and of less tokens than they need, then the second asks and the third waits."""
    if ms_until_next_day(time.time_ns() // 1_000_000) < 300_000:
        pytest.skip("The day ends soon, and with it what this test waits for.")
    office = Office(shell)
    with serving(environment, tmp_path, ["all"]) as processes:
        assert (await office("carla", "policy", "apply", policy(tmp_path, QUOTAS))).code == 0
        first = Followed(connections.log, await send_request(connections, question("ada")))
        async with beside(first.follow()):
            await first.ended()
        second = Followed(connections.log, await send_request(connections, question("Ada ")))
        async with beside(second.follow()):
            await until(lambda: second.workflow.asks_for_budget, "the round asks for more")
            third = await send_request(connections, question("ada"))
            processes.replace(["all"])
            asked = second.workflow.current.question
            assert asked is not None
            assert asked.code == "daily_limit"
            assert asked.reason.startswith("The daily limit of 6,000 tokens for Ada")
            granted = await office("carla", "approve", second.workflow.id, "--tokens", "30000", "--json")
            assert granted.lines[0]["status"] == "approved"
            await second.ended()
        assert second.workflow.current.ending == "completed"
        processes.replace(["all"])
        other = Followed(connections.log, await send_request(connections, question("bob")))
        async with beside(other.follow()):
            await other.ended()
        pending = await office("ada", "show", third, "--json")
        assert (pending.code, pending.lines[0]["code"]) == (1, "workflow_pending")
        assert "ada has started 2 of 2 rounds that policy 1 allows per day" in pending.lines[0]["error"]
        assert (await office("ada", "cancel", third)).code == 0
        replayed = await office("ada", "replay", second.workflow.id, "--json")
        assert replayed.code == 0, replayed.out
    assert (await verify(connections.log, connections.pool)).differences == []
