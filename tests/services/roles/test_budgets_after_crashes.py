"""Budgets after crashes: however often the workers die, what is used and why it ends is the same, and so in a replay."""

from dataclasses import dataclass
from typing import Any

import pytest
from doubles import Counting, World, our_actions
from minds import Honest
from modes import MODES

from poweron_events.event import DocumentRef
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.request import Budgets, workflow_id
from poweron_services.decider.rules import retries_used_up, used_up
from poweron_services.models.prompts import Prompt, RefinementPrompt, ReviewPrompt

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
LETTER = b"The exhibition opens on 3 May."
SMALL: dict[str, dict[str, int]] = {
    "the tokens of a workflow": {"workflow_tokens": 4_500},
    "the tokens of a round": {"round_tokens": 4_500},
    "the tokens of a task": {"task_tokens": 4_000},
    "the money of a workflow": {"workflow_cost_nano_usd": 70},
    "the money of a task": {"task_cost_nano_usd": 40},
    "the steps of a workflow": {"workflow_steps": 2},
    "the retries of a workflow": {"workflow_retries": 1},
    "nothing but the limit of retries": {},
}
SAID = {
    "the tokens of a workflow": "tokens",
    "the tokens of a round": "The round's budget of 4,500 tokens",
    "the tokens of a task": "tokens",
    "the money of a workflow": "budget of $",
    "the money of a task": "budget of $",
    "the steps of a workflow": "The workflow's budget of 2 steps is used up: 2 steps.",
    "the retries of a workflow": "The workflow's budget of 1 retry is used up: 1 retry.",
    "nothing but the limit of retries": "The limit of 2 retries is reached.",
}


class Tireless(Honest):
    """Never has enough, so that only budgets and limits end what it does."""

    def said(self, prompt: Prompt) -> str | dict[str, Any]:
        match prompt:
            case RefinementPrompt():
                return {"decision": "continue", "reason": "More.", "classification": "success"}
            case ReviewPrompt():
                return {"status": "retry", "reason": "Once more."}
            case _:
                return super().said(prompt)


@dataclass
class Told:
    """What the log tells of a round: its events but for claims, with what was used up after each, and its end."""

    events: list[tuple[str, str | None, str | None, str | None]]
    ending: Any
    kills: int


def replayed(world: World) -> list[tuple[str, str | None, str | None, str | None]]:
    """Each accepted event, with what is used up after it; a claim made again after a crash is no use of anything."""
    workflow, found = Workflow(ID), []
    for recorded, _ in world.records(ID):
        workflow, verdict = evolve(workflow, recorded)
        name = type(recorded.envelope.event).__name__
        if verdict == "accepted" and name != "ActionStarted":
            spent = used_up(workflow), used_up(workflow, for_a_step=True), retries_used_up(workflow)
            found.append((name, *spent))
    return found


async def run(budgets: dict[str, int], mode: str, *, killing: bool) -> Told:
    """A round; with `killing` its process dies at each turn of it, and another one goes on."""
    world = World([*await our_actions(), Counting("web.read")], model=Tireless())
    content = await world.content.put(ID, LETTER)
    letter = DocumentRef(
        document_id="d1", document_name="letter.txt", mime_type="text/plain", size=len(LETTER), content=content
    )
    asked = {"workflow_mode": mode, "documents": (letter,), "budgets": Budgets(**budgets), "max_steps": 4}
    process, turns = world.start(), set[Any]()
    await world.ask(prompt="When does it open?", **asked)
    while True:
        workflow = await world.until(ID, lambda now: now.phase == "ended" or (now.place, now.phase) not in turns)
        if workflow.phase == "ended":
            break
        turns.add((workflow.place, workflow.phase))
        if killing:
            await process.kill()
            process = world.start()
    await process.stop()
    return Told(replayed(world), world.accepted(ID)[-1], len(world.processes) - 1)


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("budget", SMALL)
async def test_budgets_are_the_same_after_crashes_and_in_a_replay(budget: str, mode: str) -> None:
    calm = await run(SMALL[budget], mode, killing=False)
    shaken = await run(SMALL[budget], mode, killing=True)
    assert shaken.kills >= 4
    assert shaken.events == calm.events
    assert (type(shaken.ending), shaken.ending.message) == (type(calm.ending), calm.ending.message)
    assert shaken.ending.totals == calm.ending.totals
    assert type(calm.ending).__name__ == "RoundFailed"
    assert SAID[budget] in calm.ending.reason
