"""Reservations: where a budget applies, the log holds the most that a call may use before the provider gets it."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Any

import pytest
import replays
from doubles import Counting, Process, World, our_actions
from minds import Honest, completion
from modes import MODES
from providers import Playing, failing, opened, playing_stages, saying
from pytest_httpserver import HTTPServer

from poweron_events.event import DocumentRef
from poweron_events.fold.costs import reported
from poweron_events.fold.state import Used
from poweron_events.request import Budgets, workflow_id
from poweron_services.models import call
from poweron_services.models.call_reservations import reserve_call
from poweron_services.models.chat_model import Completion, free
from poweron_services.models.prompts import ProcessPrompt, Prompt
from poweron_services.models.providers.http_client import WRAPPING

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
LETTER = b"The exhibition opens on 3 May."
ANSWER = 1_000  # tokens that an answer may have
AMPLE = Budgets(task_tokens=900_000, workflow_tokens=1_000_000)


@dataclass
class Charging(Honest):
    """Honest, and paid: it reserves as a provider's model does. What `interrupts` says of a call happens to it."""

    interrupts: Callable[[int, Prompt], bool] = lambda *_: False
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    charged: int = 0
    """All that the calls can have taken, in tokens."""

    async def complete(self, prompt: Prompt) -> Completion:
        length, reserved = len(str(prompt.render())), prompt.allowance is None
        most = Used(length, ANSWER)
        while prompt.allowance is not None and not reserved:
            most = Used(length, prompt.allowance.longest_answer(length, ANSWER, free))
            reserved = await reserve_call(prompt.allowance, most)
        self.asked.append(prompt)
        self.charged += most.tokens
        if self.interrupts(len(self.asked), prompt):
            self.interrupted.set()
            await asyncio.Event().wait()
        return completion(prompt, self.said(prompt))


async def begun(model: Any, budgets: Budgets, mode: str = "React", **terms: Any) -> tuple[World, Process]:
    world = World([*await our_actions(), Counting("web.read")], model=model)
    content = await world.content.put(ID, LETTER)
    letter = DocumentRef(
        document_id="d1", document_name="letter.txt", mime_type="text/plain", size=len(LETTER), content=content
    )
    process = world.start()
    asked = "When does it open? Write it as a PDF."  # a short answer alone needs no final message
    await world.ask(prompt=asked, workflow_mode=mode, documents=(letter,), budgets=budgets, **terms)
    return world, process


async def killed(world: World, process: Process, model: Charging) -> Process | None:
    """Kill the process while it waits for the model, so that another one takes over; None where the round has ended."""
    struck, ended = (asyncio.ensure_future(each) for each in (model.interrupted.wait(), world.ended(ID)))
    await asyncio.wait([struck, ended], timeout=10, return_when=asyncio.FIRST_COMPLETED)
    over = ended.done()
    struck.cancel()
    ended.cancel()
    if over:
        await process.stop()
        return None
    model.interrupted.clear()
    await process.kill()
    return world.start()


def reservations(world: World) -> list[Any]:
    return [event for event in world.accepted(ID) if type(event).__name__ == "CallReserved"]


def told(world: World) -> list[Any]:
    """All calls that accepted events report."""
    return [call for event in world.accepted(ID) for call in reported(event)]


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize("kind", ["workflow", "round"])
async def test_kills_during_calls_do_not_raise_the_budget(kind: str) -> None:
    model = Charging(interrupts=lambda *_: True)
    budget = 18_000
    world, process = await begun(model, Budgets(**{f"{kind}_tokens": budget}))
    while (following := await killed(world, process, model)) is not None:
        process = following
    ending = world.accepted(ID)[-1]
    assert len(model.asked) >= 3
    assert (ending.code, model.charged <= budget) == ("token_budget", True)
    assert f"It counts {model.charged:,} tokens for interrupted calls" in ending.reason
    assert ending.totals.input_tokens + ending.totals.output_tokens == model.charged


@pytest.mark.req("B-02")
@pytest.mark.parametrize("mode", MODES)
async def test_every_call_is_reserved_once_and_settled_by_the_event_that_reports_it(mode: str) -> None:
    """Also the calls of actions, those thought ahead of the log, and the final message."""
    model = Charging()
    world, process = await begun(model, AMPLE, mode)
    workflow = await world.ended(ID)
    await process.stop()
    assert type(world.accepted(ID)[-1]).__name__ == "RoundCompleted"
    numbers = [*range(1, len(model.asked) + 1)]
    assert [event.reservation for event in reservations(world)] == numbers
    assert [number for call in told(world) for number in call.reservations] == numbers
    assert workflow.current.reservations == ()
    assert world.names(ID, "superseded") == []
    used, totals = Used.by(told(world)), workflow.current.totals
    assert (totals.input_tokens, totals.output_tokens) == (used.input_tokens, used.output_tokens)
    assert world.accepted(ID)[-1].totals == totals


@pytest.mark.req("B-02")
async def test_without_a_budget_of_tokens_or_money_nothing_is_reserved() -> None:
    world, process = await begun(Charging(), Budgets(workflow_steps=9, task_duration_ms=600_000))
    await world.ended(ID)
    await process.stop()
    assert reservations(world) == []
    assert all(call.reservations == () for call in told(world))


@pytest.mark.req("B-02")
@pytest.mark.req("E-06")
@pytest.mark.parametrize("stage", ["plan", "parameterize", "process", "refine", "message"])
async def test_a_round_goes_on_after_a_kill_and_counts_the_interrupted_call_at_its_most(stage: str) -> None:
    killed_once = False

    def first_of_stage(_: int, prompt: Prompt) -> bool:
        nonlocal killed_once
        strikes, killed_once = prompt.stage == stage and not killed_once, killed_once or prompt.stage == stage
        return strikes

    model = Charging(interrupts=first_of_stage)
    world, process = await begun(model, AMPLE)
    following = await killed(world, process, model)
    assert following is not None
    workflow = await world.ended(ID)
    await following.stop()
    (left,) = workflow.current.reservations
    used, totals = Used.by(told(world)) + left.most, workflow.current.totals
    assert type(world.accepted(ID)[-1]).__name__ == "RoundCompleted"
    assert (totals.input_tokens, totals.output_tokens) == (used.input_tokens, used.output_tokens)
    assert world.accepted(ID)[-1].totals == totals
    assert [each.decision for each in await replays.of_world(world, ID) if each.decision != "same"] == []


@pytest.mark.req("B-02")
@pytest.mark.req("E-08")
async def test_an_answer_that_an_action_was_given_before_a_kill_settles_its_reservation() -> None:
    """It is kept with the step, and the next process reports the call that the first one made."""
    model = Charging()
    world, process = await begun(model, AMPLE)
    keep = world.content.remember

    async def killed_after(*arguments: Any) -> None:
        await keep(*arguments)
        if arguments[1] == "answers" and len(world.processes) == 1:
            process.log.cut_off = True
            model.interrupted.set()

    world.content.remember = killed_after  # type: ignore[method-assign]
    following = await killed(world, process, model)
    assert following is not None
    workflow = await world.ended(ID)
    await following.stop()
    assert sum(isinstance(prompt, ProcessPrompt) for prompt in model.asked) == 1
    assert workflow.current.reservations == ()
    assert Used.by(told(world)).tokens == workflow.current.totals.input_tokens + workflow.current.totals.output_tokens


@pytest.mark.req("S41")
async def test_each_request_to_a_provider_is_reserved_before_it_is_sent(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "FIRST_PAUSE", 0.001)
    stages = playing_stages("It is found", "It is found.", answer_select={"action": "web.read", "actionObjective": "x"})
    playing = Playing(
        httpserver, "openai", [failing("openai", 500, "Out of order"), saying("openai", "no plan"), stages]
    )
    async with aclosing(opened(httpserver, "openai")) as model:
        world, process = await begun(model, AMPLE)
        workflow = await world.ended(ID)
        await process.stop()
    reserved, events = reservations(world), world.accepted(ID)
    sent = [len(request.get_data()) + WRAPPING for request, _ in httpserver.log]
    assert [event.input_tokens for event in reserved] == sent
    assert {event.output_tokens for event in reserved} == {asked["max_completion_tokens"] for asked in playing.asked}
    rejected = next(event for event in events if type(event).__name__ == "AnswerRejected")
    assert [(each.code, each.reservations) for each in rejected.failed_calls] == [("model_unavailable", (1,))]
    assert rejected.model_call.reservations == (2,)
    assert workflow.current.reservations == ()


@pytest.mark.req("B-02")
async def test_a_stage_waits_for_the_log_to_take_its_reservation_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka is unavailable for longer than a stage may take; nothing is sent meanwhile, and nothing fails."""
    outage, model = asyncio.Event(), Charging()
    monkeypatch.setattr(World, "start", partialmethod(World.start, mishap=lambda: "" if outage.is_set() else "lost"))
    world, process = await begun(model, AMPLE, stage_timeout_ms=1_000)
    await asyncio.sleep(1.3)  # the outage itself
    assert model.asked == []
    outage.set()
    await world.ended(ID)
    await process.stop()
    assert type(world.accepted(ID)[-1]).__name__ == "RoundCompleted"
