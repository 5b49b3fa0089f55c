"""Whoever is at work stops for longer than his session lasts, and comes back when another has taken over: a zombie."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from surviving import Survival, Witnesses, until, witnesses

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

BEFORE_THE_ACTION = ("PlanningPrompt", "SelectionPrompt", "ParametersPrompt")
AFTER_THE_ACTION = ("RefinementPrompt", "ReviewPrompt", "MessagePrompt")
THINKS = 0.7  # seconds: time enough to come between


async def pause_until_another_takes_over(processes: Witnesses, at_work: Callable[[], list[int]], what: str) -> None:
    """Pause who is at work until another works on the same; then both do."""
    await until(at_work, what)
    first = at_work()[0]
    name = processes.name_of(first)
    processes.pause(name)
    await until(lambda: set(at_work()) - {first}, f"another takes over: {what}")
    processes.resume(name)


@pytest.mark.soak
@pytest.mark.req("E-03")
async def test_a_zombie_at_every_turn_harms_nothing(
    survival: Survival, environment: dict[str, str], tmp_path: Path
) -> None:
    with witnesses(environment, tmp_path, ["one", "two"]) as processes:
        await survival.settled(2)
        paused = await survival.request("brief", thinks=THINKS, gate="gate")  # a zombie's claim waits for its deadline
        for kind in BEFORE_THE_ACTION:
            await pause_until_another_takes_over(processes, partial(survival.thinking, kind), kind)
            await survival.request("once", times=2)
        await pause_until_another_takes_over(processes, partial(survival.running, paused), "the action")
        survival.open_gate("gate")
        for kind in AFTER_THE_ACTION:
            await pause_until_another_takes_over(processes, partial(survival.thinking, kind), kind)
            await survival.request("idempotent", times=2)
        await survival.all_ended()
        processes.expect_alive()
    assert survival.superseded > 0
    await survival.expect_all_well()


@pytest.mark.soak
@pytest.mark.req("E-08")
async def test_an_action_that_may_happen_once_is_not_begun_again_beside_a_zombie_or_after_a_long_sleep_of_all(
    survival: Survival, environment: dict[str, str], tmp_path: Path
) -> None:
    with witnesses(environment, tmp_path, ["one", "two"]) as processes:
        await survival.settled(2)
        once = await survival.request("once", gate="never")
        await until(lambda: survival.running(once), "the action is at work")
        name = processes.name_of(survival.running(once)[0])
        processes.pause(name)
        beside = await survival.request(beside=once)
        await until(lambda: survival.ended(beside), "another has taken over")
        processes.resume(name)
        await until(lambda: survival.ended(once), "the zombie says that it does not know")
        for each in ("one", "two"):
            processes.pause(each)
        await survival.request("once")
        await survival.forget_offsets()
        for each in ("one", "two"):
            processes.resume(each)
        await survival.all_ended()
        processes.expect_alive()
    assert survival.outcomes(once)[-1] == "unknown"
    await survival.expect_all_well()
