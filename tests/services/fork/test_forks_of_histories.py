"""Forks of workflows of every kind of ending, at every event, under the same terms and under others."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from doubles import Counting, World, script
from replays import HISTORIES
from simulated_workflows import simulated
from simulation.minds import CLASSES
from structlog.testing import capture_logs

from poweron_events import codec
from poweron_events.fold.evolve import answers_head, evolve
from poweron_events.fold.state import Opening, Phase, Workflow
from poweron_events.log import Message
from poweron_events.request import LAWS, Budgets, ForkedFrom, RequestIdentity, workflow_id
from poweron_events.step_events import EffectClass
from poweron_services.fork.original import Original
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt
from poweron_services.models.scripted import ScriptedModel

EVENTS = "poweron.events"
GO_ON = {"decision": "continue", "reason": "More.", "classification": "success"}
RETRY = {"status": "retry", "reason": "It is not enough."}
TERMS: Final[dict[str, dict[str, Any]]] = {
    "the same": {},
    "fewer steps": {"max_steps": 1},
    "no retries": {"max_retries": 0},
    "more of both": {"max_retries": 3, "max_steps": 9},
    "few tokens": {"budgets": Budgets(task_tokens=1_000)},
    "another prompt": {"prompt": "Who signed it?"},
    "the other mode": {"workflow_mode": "Actionplan"},
}
ACTIONS: Final[dict[str, EffectClass]] = {"web.read": "pure", **CLASSES}
Values = Sequence[bytes]


class Persistent:
    """A model that wants one more step and another attempt every time, so that only the terms of the fork end it."""

    async def complete(self, prompt: Prompt) -> Completion:
        changes: dict[str, Any] = {"refinement": [GO_ON], "review": [RETRY]}
        return await ScriptedModel(script(**changes)).complete(prompt)


def recorded(path: Path) -> Values:
    return [orjson.loads(line)["value"].encode() for line in path.read_bytes().splitlines()[:-1]]


def of_simulation(seed: int) -> list[Values]:
    """The records of each workflow of a simulated world."""
    (log,) = simulated([seed])
    records: dict[bytes, list[bytes]] = {}
    for record in log:
        if record.verdict is not None:
            records.setdefault(record.key, []).append(record.value)
    return list(records.values())


async def fork_everywhere(histories: Sequence[Values], seed: int = 0) -> int:
    """Fork each workflow at each event, under one of the terms after the other; return the number of forks."""
    world = World([Counting(name, effect) for name, effect in ACTIONS.items()], model=Persistent())
    forks = []
    for values in histories:
        id_ = codec.decode(values[0]).workflow_id
        await world.log.append(EVENTS, [Message(id_.encode(), value) for value in values])
    with capture_logs():
        async with world.process(concurrency=50):
            for values in histories:
                id_ = codec.decode(values[0]).workflow_id
                forks += [fork async for fork in _asked(world, id_, seed)]
            for fork in forks:
                await _ends(world, fork)
    return len(forks)


async def _asked(world: World, id_: str, seed: int) -> AsyncGenerator[str, None]:
    """Ask for a fork at every event; rounds before the one of the event are forked whole, as a client does."""
    openings = list[Opening]()
    for number, origin in enumerate(await world.accepted_events(id_)):
        if isinstance(origin.event, Opening):
            openings.append(origin.event)
        if not openings:
            continue  # it was refused first
        terms = list(TERMS.values())[(number + seed) % len(TERMS)]
        of = ForkedFrom(workflow=id_, seq=origin.seq, head=origin.sha256)
        first = RequestIdentity(source="/tests/forks", id=f"{id_} {origin.seq}")
        fork = workflow_id(first.source, first.id)
        for opening in openings:
            changes = terms if opening is openings[-1] else {}
            request = first.model_copy(update={"id": f"{first.id} {opening.round}"})
            common = {"request": request, "forked_from": of, "laws": LAWS, "deadline_ms": 300_000}
            await world.tell(fork, opening.model_copy(update={**common, **changes}))
            if opening is not openings[-1]:
                await _ends(world, fork, ["ended"])
        yield fork


async def _ends(world: World, fork: str, rests: Collection[Phase] = ("ended", "approve")) -> None:
    """The fork ends or waits for a person, and no role answers in vain."""
    workflow = await world.until(fork, lambda fork: fork.phase in rests or fork.asks_for_budget or fork.stuck)
    assert not workflow.stuck, (workflow.phase, world.names(fork), world.names(fork, "superseded"))
    workflow = Workflow(fork)
    for recorded, _ in world.records(fork):
        after, verdict = evolve(workflow, recorded)
        assert verdict == "accepted" or not answers_head(workflow, recorded), (workflow.phase, recorded.envelope)
        workflow = after


def histories(release: str) -> list[Values]:
    return [recorded(path) for path in sorted((HISTORIES / release).glob("*.jsonl"))]


async def test_every_fork_of_a_recorded_history_ends() -> None:
    assert await fork_everywhere(histories("v0.3.0")) > 200


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(len(TERMS)))
@pytest.mark.parametrize("release", ["v0.1.0", "v0.2.0", "v0.3.0"])
async def test_every_fork_of_every_recorded_history_ends_under_all_terms(release: str, seed: int) -> None:
    assert await fork_everywhere(histories(release), seed)


@pytest.mark.parametrize(
    "seeds", [range(1), *(pytest.param(range(first, first + 7), marks=pytest.mark.soak) for first in range(1, 58, 7))]
)
def test_every_fork_of_a_simulated_workflow_ends(seeds: range) -> None:
    for seed in seeds:
        assert asyncio.run(fork_everywhere(of_simulation(seed), seed))


async def test_a_fork_that_takes_over_what_does_not_fit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Original, "_is_accepted", lambda *_: True)
    with pytest.raises(AssertionError, match=r"superseded|StageFailed|ActionSelected"):
        await fork_everywhere(histories("v0.1.0"), seed=6)
