"""Cancelling on the real servers: what runs is stopped, the round ends soon, and nothing stays behind."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import papers
import pytest
from commands import NOBODY, Ended, Shell, ended, told

from builders import Told, refused, requested
from poweron_events import topics
from poweron_events.actor import Actor
from poweron_projections.verify import verify
from poweron_services.client import follow
from poweron_services.client.cancel import cancel
from poweron_services.client.client_errors import NotServed, RowsBehind
from poweron_services.client.connect import Connections
from poweron_services.models.builtin import BuiltinModel
from poweron_services.standalone import local_identity

pytestmark = [pytest.mark.system]

WITHIN = 2.0  # seconds from the accepted cancellation to the end of the round
REASON = "No longer needed."


async def cancelled(shell: Shell, workflow: str) -> tuple[Ended, list[dict[str, Any]]]:
    """Cancel, and the events of the workflow afterwards."""
    said = await shell("cancel", workflow, "--reason", REASON)
    events = (await shell("events", workflow, "--json")).lines
    return said, [event for event in events if event["verdict"] == "accepted"]


def seconds(events: list[dict[str, Any]]) -> float:
    """From the cancellation to the end, in broker time."""
    times = {event["type"]: datetime.fromisoformat(event["time"]) for event in events}
    return (times["poweron.round.cancelled.v1"] - times["poweron.cancellation.requested.v1"]).total_seconds()


async def test_a_model_call_that_hangs_is_cancelled_and_the_round_ends(
    shell: Shell, service: Connections, model
) -> None:
    model.gate.clear()
    asking = await shell.start("ask", "Write it.", "--no-serve", "--json")
    workflow = (await told(asking, "Workflow ")).split()[1]
    async with asyncio.timeout(30):
        while not model.waiting:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)

    said, events = await cancelled(shell, workflow)

    assert said.code == 0, said.err
    assert said.out.startswith(f"Round 1 of workflow {workflow} is cancelled.")
    assert "cancelling  No longer needed." in said.err
    assert (seconds(events) < WITHIN, model.waiting) == (True, 0)
    (end,) = (event["data"] for event in events if event["type"] == "poweron.round.cancelled.v1")
    assert end["message"] == f"The round was cancelled. Reason: {REASON}"
    assert "poweron.request.refused.v1" not in [event["type"] for event in events]
    asked = await ended(asking)
    assert (asked.code, asked.lines[-1]["status"]) == (3, "cancelled")

    again = await shell("cancel", workflow)
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith(f"Round 1 of workflow {workflow} has already ended: there is nothing to cancel.")
    unknown = await shell("cancel", NOBODY, "--json")
    assert unknown.lines[-1]["code"] == "unknown_workflow"
    assert (unknown.code, unknown.err.startswith(f"There is no workflow {NOBODY}.")) == (1, True)
    model.gate.set()
    followed_up = await shell("ask", "Write it now.", "--workflow", workflow, "--no-serve", "--json")
    assert (followed_up.code, followed_up.lines[-1]["round"]) == (0, 2)
    assert (await verify(service.log, service.pool)).differences == []


class TestActions:
    @pytest.fixture
    def model(self) -> BuiltinModel:
        return BuiltinModel()

    async def test_an_action_that_hangs_is_cancelled_together_with_its_process(
        self, shell: Shell, service: Connections, tmp_path: Path
    ) -> None:
        (tmp_path / "long.csv").write_text("a,b\n" + "1,2\n" * 200_000)
        asking = await shell.start("ask", "What is the total?", "--document", "long.csv", "--no-serve", "--json")
        workflow = (await told(asking, "Workflow ")).split()[1]
        async with asyncio.timeout(30):
            while not (reading := papers.reading()):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        for child in reading:
            child.suspend()  # from now on it hangs

        said, events = await cancelled(shell, workflow)

        assert said.code == 0, said.err
        completed = next(event["data"] for event in events if event["type"] == "poweron.action.completed.v1")
        assert (completed["outcome"], completed["success"]) == ("cancelled", False)
        assert seconds(events) < WITHIN
        assert not any(child.is_running() for child in reading)
        assert (papers.reading(), (await ended(asking)).code) == ([], 3)


async def test_a_cancellation_that_nobody_takes_is_left_standing(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "HINT_AFTER", {"cancellation": 0.2})
    monkeypatch.setattr(follow, "TAKEN_WITHIN", 1.0)
    running, said = Told().tell(requested()), list[str]()
    await connections.log.append(topics.EVENTS.name, running.messages)

    with pytest.raises(NotServed, match=r"No process has taken the cancellation within 1 s\. It remains in the log"):
        await cancel(
            connections,
            running.id,
            reason="",
            actor=Actor(id="Ada"),
            identity=local_identity(),
            callbacks=follow.Callbacks(requested=said.append, untaken=said.append),
        )

    assert said == [running.id, "cancellation"]
    assert sum((await connections.log.ends(topics.REQUESTS.name)).values()) == 1


async def test_an_answer_that_the_rows_do_not_hold_is_said_to_be_in_the_log(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an end, of a refusal and of an approval alike."""
    monkeypatch.setattr(follow, "PROJECTED_WITHIN", 0.1)
    workflow = Told().tell(requested(), refused()).workflow
    with pytest.raises(RowsBehind, match=f"The answer is in the log of workflow {workflow.id}, but the rows in"):
        await follow.wait_for_rows(connections, 0, workflow)
