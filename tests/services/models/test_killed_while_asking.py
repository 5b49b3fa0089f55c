"""A worker that dies while it asks a model: at most that one call is made again, and what was answered counts once."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from doubles import Counting, Process, World, our_actions, soon
from minds import Honest, completion
from modes import MODES

from poweron_events.event import DocumentRef
from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Used
from poweron_events.request import workflow_id
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt
from poweron_services.runtime import worker

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer counts as one that took long: it is in the log before the next is asked for (E-17)."""
    monkeypatch.setattr(worker, "QUICK", -1.0)


LETTER = b"The exhibition opens on 3 May."
ASKED = "When does it open? Write it as a PDF."  # a short answer alone needs no final message
CALLS = {
    "React": [
        "plan",
        *("select", "parameterize", "refine"),
        *("select", "parameterize", "refine"),
        *("select", "parameterize", "process", "refine"),
        "review",
        "message",
    ],
    "Actionplan": ["plan", "plan_actions", "process", "review", "message"],
}
"""What is asked for in a round that nothing befalls."""


@dataclass
class Struck(Honest):
    """Honest; at its call number `at` something befalls the process that asks: before the answer, or right after it."""

    at: int = 0
    answered: bool = False
    process: Process | None = None
    struck: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        answer = completion(prompt, self.said(prompt))
        if len(self.asked) == self.at:
            assert self.process is not None
            self.process.log.cut_off = self.answered
            self.struck.set()
            if not self.answered:
                await self.gate.wait()
        return answer

    @property
    def stages(self) -> list[str]:
        return [prompt.stage for prompt in self.asked]


async def begun(model: Struck, mode: str) -> World:
    world = World([*await our_actions(), Counting("web.read")], model=model)
    content = await world.content.put(ID, LETTER)
    letter = DocumentRef(
        document_id="d1", document_name="letter.txt", mime_type="text/plain", size=len(LETTER), content=content
    )
    model.process = world.start()
    await world.ask(prompt=ASKED, workflow_mode=mode, documents=(letter,))
    return world


async def undisturbed(mode: str) -> tuple[list[str], Any]:
    """The stages asked for and the end of the same round where nobody is killed."""
    model = Struck()
    world = await begun(model, mode)
    await world.ended(ID)
    await world.processes[0].stop()
    assert model.stages == CALLS[mode]
    return model.stages, world.accepted(ID)[-1]


def told(world: World, *verdicts: str) -> list[Any]:
    """The calls that events with these verdicts tell of."""
    return [
        call
        for recorded, verdict in world.records(ID)
        if verdict in verdicts and recorded.envelope.event is not None
        for call in model_calls(recorded.envelope.event)
    ]


EVERY_CALL = pytest.mark.parametrize(
    ("mode", "number"), [(mode, number) for mode in MODES for number in range(1, len(CALLS[mode]) + 1)]
)


@pytest.mark.req("E-06")
@pytest.mark.req("B-01")
@pytest.mark.parametrize("answered", [False, True], ids=["while it waits", "with the answer in hand"])
@EVERY_CALL
async def test_a_worker_killed_at_a_call_repeats_that_call_only(mode: str, number: int, answered: bool) -> None:
    """What an action was answered is kept at once, and is not even asked for again."""
    stages, ending = await undisturbed(mode)
    model = Struck(at=number, answered=answered)
    world = await begun(model, mode)
    await model.struck.wait()
    await world.processes[0].kill()
    async with world.process():
        await world.ended(ID)
    is_kept = answered and stages[number - 1] == "process"
    assert model.stages == [*stages[:number], *stages[number if is_kept else number - 1 :]]
    found = world.accepted(ID)[-1]
    assert (type(found), found.message, found.totals) == (type(ending), ending.message, ending.totals)
    assert len(told(world, "accepted", "superseded")) == len(stages)


@pytest.mark.req("B-01")
@pytest.mark.req("E-06")
@EVERY_CALL
async def test_an_answer_that_comes_after_another_worker_took_over_is_told_and_counts_for_no_budget(
    mode: str, number: int
) -> None:
    """It was paid, so that the log tells of it; it decided nothing, so that no total holds it twice."""
    stages, ending = await undisturbed(mode)
    model = Struck(at=number)
    world = await begun(model, mode)
    await model.struck.wait()
    world.log.expel(world.processes[0].log.followers[0])
    async with world.process():
        await world.ended(ID)
        model.gate.set()
        await soon(lambda: len(told(world, "accepted", "superseded")) == len(stages) + 1)
    assert model.stages == [*stages[:number], *stages[number - 1 :]]
    assert len(told(world, "accepted")) == len(stages)
    await world.processes[0].stop()
    used = Used.by(told(world, "accepted"))
    found = world.accepted(ID)[-1].totals
    assert found == ending.totals
    assert (found.input_tokens, found.output_tokens, found.cost_nano_usd) == used[:3]
