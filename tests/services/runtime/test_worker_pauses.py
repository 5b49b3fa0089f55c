"""Pauses that a worker reads after it has lost its partition, while it still works on a stage, and got it back."""

import asyncio
from typing import Any

import pytest
from doubles import WHOLE_LOOP, Counting, Process, World, script, soon

from builders import paused, resumed
from poweron_events.errors import Unavailable
from poweron_services.models import call
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt, SelectionPrompt
from poweron_services.models.scripted import ScriptedModel

pytestmark = pytest.mark.usefixtures("logged")

STAGE_MS = 1_000  # the shortest that a request may set


class Hanging(ScriptedModel):
    """Does not answer the first selection until the gate opens; then it is away, or answers."""

    def __init__(self, *, away: bool) -> None:
        super().__init__(script())
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.selections = 0
        self._away = away

    async def complete(self, prompt: Prompt) -> Completion:
        self.selections += isinstance(prompt, SelectionPrompt)
        if isinstance(prompt, SelectionPrompt) and self.selections == 1:
            self.begun.set()
            await self.gate.wait()
            if self._away:
                raise Unavailable("busy")
        return await super().complete(prompt)


async def take_partitions(world: World, process: Process) -> None:
    """Take all partitions away from a process, which keeps running."""
    world.log.expel(process.log.followers[0])
    await soon(lambda: not process.worker._held.partitions)


async def give_partitions_back(world: World, process: Process, id_: str) -> None:
    """Give the process its partitions back and wait until it has read all that is there."""
    process.log.followers[0].assign(frozenset(range(12)))
    world.log.wake()
    number = world.log.partition_of("poweron.events", id_.encode())
    end = (await world.log.ends("poweron.events"))[number]
    held = process.worker._held.partitions
    await soon(lambda: number in held and held[number].position == end and not held[number].pending)


def names(world: World, id_: str) -> list[str]:
    return [name for name in world.names(id_) if name not in ("RoundPaused", "RoundResumed")]


@pytest.mark.req("E-06")
@pytest.mark.parametrize("rows", ["are behind", "have the pause"])
async def test_a_call_that_failed_is_not_made_again_in_a_pause_that_began_while_the_partition_was_lost(
    rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "FIRST_PAUSE", 0.01)
    model = Hanging(away=True)
    world = World([Counting()], model=model)
    async with world.process() as process:
        id_ = await world.ask()
        await model.begun.wait()
        work: Any = process.worker._works[id_]
        await take_partitions(world, process)
        world.postgres.lagging = rows == "are behind"
        await world.tell(id_, paused())
        await give_partitions_back(world, process, id_)
        model.gate.set()
        await soon(work.task.done)
        assert model.selections == 1
        assert id_ not in process.worker._works
        await world.tell(id_, resumed())
        await world.ended(id_)
    assert model.selections == 2
    assert names(world, id_) == WHOLE_LOOP


@pytest.mark.req("E-16")
async def test_a_stage_has_no_time_limit_in_a_pause_that_began_while_the_partition_was_lost() -> None:
    model = Hanging(away=False)
    world = World([Counting()], model=model)
    async with world.process() as process:
        id_ = await world.ask(stage_timeout_ms=STAGE_MS)
        await model.begun.wait()
        limit: Any = process.worker._works[id_].limit
        await take_partitions(world, process)
        await world.tell(id_, paused())
        await give_partitions_back(world, process, id_)
        await soon(lambda: limit._timeout.when() is None)
        await world.tell(id_, resumed())
        model.gate.set()
        await world.ended(id_)
    assert names(world, id_) == WHOLE_LOOP
    assert model.selections == 1


@pytest.mark.req("E-16")
async def test_a_stage_has_its_time_limit_again_after_a_pause_that_ended_while_the_partition_was_lost() -> None:
    model = Hanging(away=False)
    world = World([Counting()], model=model)
    async with world.process() as process:
        id_ = await world.ask(stage_timeout_ms=STAGE_MS)
        await model.begun.wait()
        await world.tell(id_, paused())
        await soon(lambda: process.worker._works[id_].is_suspended)
        await take_partitions(world, process)
        await world.tell(id_, resumed())
        await give_partitions_back(world, process, id_)
        await world.ended(id_)
    failed = next(event for event in world.accepted(id_) if type(event).__name__ == "StageFailed")
    assert (failed.stage, failed.code) == ("select", "stage_timeout")
