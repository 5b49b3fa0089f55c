"""Fair slots: senders take turns, waiters of one sender keep their order, no slot is lost."""

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import groupby

from doubles import Counting, World, script, soon
from hypothesis import given
from hypothesis import strategies as st

from builders import requested
from poweron_events import RequestIdentity, workflow_id
from poweron_services.fair_slots import FairSlots, current_sender
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt
from poweron_services.models.scripted import ScriptedModel


async def _waiters(slots: FairSlots, senders: str, served: list[tuple[str, int]]) -> list[asyncio.Task[None]]:
    """A task for each letter, which takes a slot and keeps it; all of them wait."""

    async def wait(sender: str, number: int) -> None:
        current_sender.set(sender)
        await slots.acquire()
        served.append((sender, number))

    tasks = [asyncio.create_task(wait(sender, number)) for number, sender in enumerate(senders)]
    await asyncio.sleep(0)
    return tasks


async def test_a_slot_that_is_free_is_taken_without_a_pause() -> None:
    slots = FairSlots(1)
    acquiring = slots.acquire()
    with suppress(StopIteration):
        acquiring.send(None)
    assert slots.locked()


async def test_the_only_waiter_of_a_sender_does_not_wait_for_all_of_another() -> None:
    slots, served = FairSlots(1), list[tuple[str, int]]()
    await slots.acquire()
    await _waiters(slots, "aaaaaaaab", served)
    for _ in range(2):
        slots.release()
        await asyncio.sleep(0)
    assert served == [("a", 0), ("b", 8)]


@given(
    senders=st.text("abc", max_size=30),
    cancelled=st.sets(st.integers(0, 29)),
    moments=st.lists(st.booleans(), min_size=30, max_size=30),
    count=st.integers(1, 3),
)
def test_senders_take_turns_and_every_slot_comes_back(
    senders: str, cancelled: set[int], moments: list[bool], count: int
) -> None:
    """A waiter is cancelled while it waits, or in the same moment in which it gets a slot."""

    async def story() -> None:
        slots, served = FairSlots(count), list[tuple[str, int]]()
        for _ in range(count):
            await slots.acquire()
        tasks = await _waiters(slots, senders, served)
        for number in sorted(cancelled):
            if number < len(tasks) and not moments[number]:
                tasks[number].cancel()
        await asyncio.sleep(0)
        released = 0
        while released < count + len(served):
            slots.release()
            released += 1
            for number in sorted(cancelled):
                if number < len(tasks) and moments[number]:
                    tasks[number].cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert {number for _, number in served} == set(range(len(senders))) - cancelled
        for sender in set(senders):
            assert (own := [number for each, number in served if each == sender]) == sorted(own)
        waiting = Counter(sender for sender, _ in served)
        if not cancelled:
            for sender, run in groupby(sender for sender, _ in served):
                others = [other for other in waiting if other != sender and waiting[other]]
                length = len(list(run))
                assert length == 1 or not others
                waiting[sender] -= length
        for _ in range(count):
            assert not slots.locked()
            await slots.acquire()
        assert slots.locked()

    asyncio.run(story())


class _Watched(ScriptedModel):
    """Answers after a moment, and lists whose workflows asked it."""

    def __init__(self) -> None:
        super().__init__(script())
        self.asked = list[str]()

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(current_sender.get())
        await asyncio.sleep(0)
        return await super().complete(prompt)


async def test_a_workflow_does_not_wait_in_each_stage_for_all_workflows_of_another_sender() -> None:
    """40 workflows of one sender share two slots; one after the other, they have some 40 stages for each of another's."""
    model = _Watched()
    world = World([Counting()], model=model)
    async with world.process(concurrency=2):
        for number in range(40):
            await _ask(world, "/greedy", str(number))
        await soon(lambda: len(model.asked) >= 20)
        before = len(model.asked)
        await world.ended(await _ask(world, "/modest", "only"))
        beside = Counter(model.asked[before:])
        assert beside["/modest"] > 4
        assert beside["/greedy"] < 8 * beside["/modest"]


async def _ask(world: World, source: str, request_id: str) -> str:
    id_ = workflow_id(source, request_id)
    opening = requested(request_id, documents=()).model_copy(
        update={"request": RequestIdentity(source=source, id=request_id)}
    )
    await world.tell(id_, opening)
    return id_
