"""Thinking ahead: roles of one process go on behind what is on its way to the log, and never further than thoughts."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from doubles import WHOLE_LOOP, Counting, Process, World, script, soon

from builders import cancellation
from poweron_events.content import ContentStore
from poweron_events.log import Message
from poweron_events.request import Budgets
from poweron_services.decider.approval import Approval
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import ParametersPrompt, Prompt, SelectionPrompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.runtime import worker

pytestmark = pytest.mark.req("E-17")

AHEAD_OF_A_CLAIM = ["TasksPlanned", "ActionSelected", "ParametersSet", "ActionStarted"]
AHEAD_OF_AN_ENDING = ["ActionCompleted", "ObservationRecorded", "RefinementDecided", "TaskReviewed"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose content is kept in a folder, where storing it suspends nobody; no thought counts as slow."""
    monkeypatch.setattr(worker, "QUICK", 60.0)
    world = World([Counting()])
    world.content = ContentStore.at(str(tmp_path))
    return world


def told(messages: Sequence[Message]) -> list[str]:
    return [message.value.rpartition(b'"type":"poweron.')[2].split(b".v")[0].decode() for message in messages]


def listening(process: Process, heard: Callable[[list[str]], Any]) -> None:
    """Tell of each append of the process before it is made."""
    append = process.log.append

    async def heard_first(topic: str, messages: Sequence[Message]) -> Any:
        coming = heard(told(messages))
        if coming is not None:
            await coming
        return await append(topic, messages)

    process.log.append = heard_first  # type: ignore[method-assign]


async def test_what_is_thought_without_waiting_is_appended_at_once_up_to_the_claim_and_to_the_ending(
    world: World,
) -> None:
    appends = list[list[str]]()
    async with world.process() as process:
        listening(process, appends.append)
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP
    assert [len(names) for names in appends] == [4, 4, 1]
    assert world.names(id_)[1:5] == AHEAD_OF_A_CLAIM
    assert world.names(id_)[5:9] == AHEAD_OF_AN_ENDING
    ahead = [recorded.envelope.cause.offset is None for recorded, _ in world.records(id_)[1:]]  # type: ignore[union-attr]
    assert ahead == [False, True, True, True, False, True, True, True, False]


async def test_an_action_runs_only_once_its_claim_was_read_back(world: World) -> None:
    action: Any = world.actions["test.pure"]
    runs_at_append = list[int]()
    async with world.process() as process:
        listening(process, lambda _: runs_at_append.append(len(action.runs)))
        await world.ended(await world.ask())
    assert runs_at_append == [0, 1, 1]


async def test_what_a_person_must_approve_is_asked_for_once_its_parameters_were_read_back(world: World) -> None:
    async with world.process(approval=Approval({"test.pure"}, expires_ms=1)):
        id_ = await world.ask()
        await world.ended(id_)
    asked = next(recorded for recorded, _ in world.records(id_) if "approval.requested" in recorded.envelope.type)
    assert asked.envelope.cause is not None
    assert asked.envelope.cause.offset is not None


async def test_thoughts_behind_an_event_that_has_no_effect_have_none_either_and_are_told(world: World) -> None:
    other = world.start(frozenset({"planner"}))
    id_ = await world.ask()
    await world.phase(id_, "select")
    await other.stop()
    async with world.process() as process:
        cancelling = [cancellation()]

        async def cancelled_just_before() -> None:
            if cancelling:
                await world.tell(id_, cancelling.pop())

        listening(process, lambda _: cancelled_just_before())
        await world.ended(id_)
    assert world.names(id_, "superseded") == ["ActionSelected", "ParametersSet", "ActionStarted"]
    assert world.names(id_)[-2:] == ["CancellationRequested", "RoundCancelled"]
    thought = [recorded.envelope.event for recorded, verdict in world.records(id_) if verdict == "superseded"]
    assert [getattr(event, "model_call", None) is not None for event in thought] == [True, True, False]


class Slow(ScriptedModel):
    """Takes its time to choose an action, and stops at the parameters until it may go on."""

    def __init__(self) -> None:
        super().__init__(script())
        self.reached = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.seen = list[type[Prompt]]()

    async def complete(self, prompt: Prompt) -> Completion:
        self.seen.append(type(prompt))
        if isinstance(prompt, SelectionPrompt):
            began = asyncio.get_running_loop().time()
            await soon(lambda: asyncio.get_running_loop().time() > began + 0.03)
        if isinstance(prompt, ParametersPrompt):
            self.reached.set()
            await self.may_go_on.wait()
        return await super().complete(prompt)


async def test_an_answer_that_took_long_is_in_the_log_before_the_next_thought_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "QUICK", 0.02)
    world.model = model = Slow()
    async with world.process():
        id_ = await world.ask()
        await model.reached.wait()
        assert world.names(id_)[1:] == ["TasksPlanned", "ActionSelected"]
        model.may_go_on.set()
        await world.ended(id_)


async def test_who_waits_for_an_append_goes_on_ahead_of_what_is_read_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "QUICK", -1.0)
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    ahead = [recorded.envelope.cause.offset is None for recorded, _ in world.records(id_)[1:]]  # type: ignore[union-attr]
    assert ahead == [False, True, True, True, False, True, True, True, False]


async def test_who_reads_a_cancellation_thinks_no_further(world: World) -> None:
    world.model = model = Slow()
    async with world.process():
        id_ = await world.ask()
        await model.reached.wait()
        await world.tell(id_, cancellation())
        await world.ended(id_)
    assert world.names(id_)[-2:] == ["CancellationRequested", "RoundCancelled"]
    assert model.seen[-1] is ParametersPrompt


async def test_a_budget_counts_what_is_thought_ahead(world: World) -> None:
    async with world.process():
        id_ = await world.ask(budgets=Budgets(round_tokens=1))
        await world.ended(id_)
    assert [recorded.code for recorded in world.accepted(id_) if hasattr(recorded, "stage")] == ["token_budget"]


async def test_an_append_whose_outcome_is_unknown_is_repeated_before_what_was_thought_behind_it(world: World) -> None:
    mishaps = iter(["unknown", "lost", "first only"])
    async with world.process(mishap=lambda: next(mishaps, "")):
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP
