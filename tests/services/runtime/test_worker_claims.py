"""Whose action runs: claims of workers that are slow, revoked, gone or many."""

import asyncio
from typing import Any

import pytest
from doubles import EVENTS, WHOLE_LOOP, Clock, Counting, World, soon

from poweron_events.request import workflow_id

pytestmark = pytest.mark.usefixtures("logged")


@pytest.mark.req("E-08")
@pytest.mark.parametrize("effect_class", ["pure", "idempotent"])
async def test_what_may_run_again_is_taken_over_at_once(effect_class: Any) -> None:
    action = Counting(effect_class=effect_class, gate=asyncio.Event())
    world = World([action])
    first = world.start()
    id_ = await world.ask()
    await action.begun.wait()
    await first.kill()
    action.gate.set()
    async with world.process():
        await world.ended(id_)
    assert [event.try_ for event in world.accepted(id_) if type(event).__name__ == "ActionStarted"] == [1, 2]
    assert len(action.runs) == 2
    assert len(set(action.runs)) == 1  # the same idempotency key


@pytest.mark.req("E-08")
async def test_what_must_not_run_twice_is_given_up_after_its_deadline() -> None:
    action = Counting(effect_class="at_most_once", gate=asyncio.Event())
    world = World([action])
    first = world.start()
    id_ = await world.ask()
    await action.begun.wait()
    await first.kill()
    async with world.process(clock=Clock(ahead_ms=10 * 60_000)):
        workflow = await world.ended(id_)
    completed = world.accepted(id_)[5]
    assert (completed.outcome, completed.success) == ("unknown", False)
    assert "whether it had its effect is unknown" in completed.error
    assert len(action.runs) == 1
    assert workflow.phase == "ended"


@pytest.mark.req("E-03")
async def test_a_zombies_result_counts_and_the_new_owner_does_not_repeat_it() -> None:
    action = Counting(effect_class="at_most_once", gate=asyncio.Event())
    world = World([action])
    zombie = world.start()
    id_ = await world.ask()
    await action.begun.wait()
    _revoke(world, zombie)
    await soon(lambda: not zombie.worker._held.partitions)
    async with world.process():
        await soon(lambda: bool(world.processes[1].worker._held and world.processes[1].worker._works))
        action.gate.set()
        await world.ended(id_)
    await zombie.stop()
    assert world.names(id_) == WHOLE_LOOP
    assert len(action.runs) == 1


def _revoke(world: World, process: Any) -> None:
    """Take all partitions away from a process, which keeps running."""
    world.log.expel(process.log.followers[0])


@pytest.mark.req("E-08")
async def test_a_worker_that_loses_and_regains_its_partition_does_not_take_over_from_itself() -> None:
    action = Counting(gate=asyncio.Event())
    world = World([action])
    async with world.process() as process:
        id_ = await world.ask()
        await action.begun.wait()
        _revoke(world, process)
        await soon(lambda: not process.worker._held.partitions)
        process.log.followers[0].assign(frozenset(range(12)))
        world.log.wake()
        await soon(lambda: any(work.earlier for work in process.worker._works.values()))
        action.gate.set()
        await world.ended(id_)
    assert len(action.runs) == 1
    assert world.names(id_) == WHOLE_LOOP
    assert world.names(id_, "superseded") == []


@pytest.mark.req("E-08")
async def test_a_claim_that_is_revoked_before_it_begins_is_given_back() -> None:
    action = Counting(effect_class="at_most_once")
    world = World([action])
    async with world.process() as process:
        follower_end = process.log.followers
        id_ = await world.ask()
        await soon(lambda: bool(follower_end))
        follower_end[0].end = lambda number: 10**9  # never caught up
        await world.phase(id_, "started")
        await soon(lambda: bool(process.executor._claims))
        await soon(lambda: process.worker._works[id_].covers(world.folded(id_)[0]))
        _revoke(world, process)
        workflow = await world.until(id_, lambda found: found.phase == "observe" or found.step.completed is not None)
    assert workflow.step.completed.outcome == "not_begun"
    assert action.runs == []


@pytest.mark.req("E-06")
async def test_what_is_being_appended_is_in_the_log_before_its_partition_is_given_away() -> None:
    """Else whoever gets the partition meets a claim that it has to wait for, although nobody runs the action."""
    world, done = World([Counting()]), list[str]()
    async with world.process() as process:
        await soon(lambda: bool(process.log.followers))
        follower, gate = process.log.followers[0], asyncio.Event()
        append, poll = process.log.append, follower.poll

        async def slow_append(topic: str, messages: Any) -> Any:
            done.append("appending")
            await gate.wait()
            done.append("appended")
            return await append(topic, messages)

        async def noted_poll(timeout: float) -> Any:
            done.append("polled")
            polled = await poll(timeout)
            done.extend(["revoked"] if polled.revoked else [])
            return polled

        process.log.append, follower.poll = slow_append, noted_poll  # type: ignore[method-assign]
        await world.ask()
        await soon(lambda: "appending" in done)
        _revoke(world, process)
        await soon(lambda: "revoked" in done)
        for _ in range(10):  # turns of the loop, in which it could poll again
            await asyncio.sleep(0)
        gate.set()
        await soon(lambda: done[-1] == "polled")
    afterwards = done[done.index("revoked") :]
    assert afterwards.index("appended") < afterwards.index("polled")


@pytest.mark.req("E-08")
async def test_parameters_and_the_claim_of_a_free_worker_are_one_append() -> None:
    world = World([Counting(effect_class="at_most_once")])
    async with world.process() as process:
        appended: list[int] = []
        append = process.log.append

        async def counted(topic: str, messages: Any) -> Any:
            appended.append(len(messages))
            return await append(topic, messages)

        process.log.append = counted  # type: ignore[method-assign]
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP
    assert appended == [1, 1, 2, 2, 1, 1, 1]
    assert _authors(world, id_)[3:7] == ["parameterizer", "executor", "executor", "observer"]


def _authors(world: World, id_: str) -> list[str]:
    return [recorded.envelope.source.split("/")[2] for recorded, _ in world.records(id_)]


@pytest.mark.req("E-08")
async def test_parameters_read_back_before_their_claim_are_claimed_once() -> None:
    action = Counting(effect_class="at_most_once")
    world = World([action])
    async with world.process() as process:
        append, read_back = process.log.append, asyncio.Event()

        async def one_by_one(topic: str, messages: Any) -> Any:
            for message in messages:
                await append(topic, [message])
                if b"parameters.set" in message.value:
                    await soon(lambda: process.worker._held.partitions[number].position == 4)
                    read_back.set()

        process.log.append = one_by_one  # type: ignore[method-assign]
        number = world.log.partition_of(EVENTS, workflow_id("/tests", "1").encode())
        id_ = await world.ask()
        await world.ended(id_)
    assert read_back.is_set()
    assert world.names(id_) == WHOLE_LOOP
    assert world.names(id_, "superseded") == []
    assert len(action.runs) == 1


@pytest.mark.req("E-09")
async def test_no_more_actions_run_at_once_than_allowed_and_none_is_claimed_too_early() -> None:
    action = Counting(gate=asyncio.Event())
    world = World([action])
    async with world.process(concurrency=3):
        ids = [await world.ask(str(number)) for number in range(12)]
        await soon(lambda: action.running == 3)
        await soon(lambda: sum(world.folded(id_)[0].phase in ("ready", "started") for id_ in ids) == 12)
        assert sum(world.folded(id_)[0].phase == "started" for id_ in ids) == 3
        action.gate.set()
        for id_ in ids:
            await world.ended(id_)
    assert action.most_at_once == 3
