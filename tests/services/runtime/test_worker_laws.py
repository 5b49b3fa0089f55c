"""The laws under fire: whatever befalls the workers, every round ends once and nothing runs twice that must not."""

import asyncio
import random
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from doubles import EVENTS, ROLES, Clock, Counting, Process, World, script
from structlog.testing import capture_logs

from builders import cancellation
from poweron_events import retry
from poweron_events.step_events import ActionCompleted, ActionStarted
from poweron_services.roles import claims
from poweron_services.runtime import worker

RUNS = 100
FALSE_ALARMS = {"event_without_effect", "workflow_stuck"}
WORKFLOWS = 4
TROUBLES = 6
SPLITS = ([ROLES], [ROLES, ROLES], [ROLES - {"executor"}, frozenset({"executor"})], [frozenset({one}) for one in ROLES])


class Chaos:
    """One seeded run: workers come and go, appends go wrong, Postgres lags and goes away."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.calm = False
        kinds = ("pure", "idempotent", "at_most_once")
        self.actions = [Counting(f"test.{kind.replace('_', '')}", kind, result=self._result) for kind in kinds]
        lines = script(
            selection=[lambda _: {"action": self.random.choice(self.actions).name, "actionObjective": "Do it"}],
            refinement=[lambda _: self._refinement()],
            review=[lambda _: {"status": self.random.choice(["success", "success", "retry"])}],
        )
        self.world = World(self.actions, lines)
        self.clock = Clock()
        self.groups = self.random.choice(SPLITS)

    def _result(self) -> Any:
        if self.random.random() < 0.1:
            raise RuntimeError("a bug")
        return Counting().result()

    def _refinement(self) -> dict[str, Any]:
        decision = self.random.choice(["continue", "stop"])
        return {"decision": decision, "reason": "So be it.", "classification": "success"}

    def mishap(self) -> str:
        mishaps = ["lost", "unknown", "first only", "doubled"]
        return self.random.choice(mishaps) if not self.calm and self.random.random() < 0.15 else ""

    def start(self, roles: Any) -> Process:
        return self.world.start(roles, clock=self.clock, mishap=self.mishap, concurrency=2)

    async def run(self) -> None:
        alive = [self.start(roles) for roles in self.groups]
        ids = [await self.world.ask(str(number)) for number in range(WORKFLOWS)]
        for _ in range(TROUBLES):
            await self._turns(self.random.randint(1, 150))
            await self._trouble(alive, ids)
        self.calm, self.world.postgres.away, self.world.postgres.lagging = True, False, False
        self.clock.ahead_ms += 5 * 60_000  # claims of the dead are over, rounds are not
        for process in alive:
            await process.stop()
        alive = [self.start(roles) for roles in self.groups]
        for id_ in ids:
            await self.world.ended(id_)
        for process in self.world.processes:
            if process.task is not None and not process.task.done():
                await process.stop()
        self.check(ids)

    async def _turns(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    async def _trouble(self, alive: list[Process], ids: list[str]) -> None:
        place = self.random.randrange(len(alive))
        postgres = self.world.postgres
        match self.random.choice(["kill", "zombie", "rebalance", "postgres", "lag", "cancel", "foreign"]):
            case "kill":
                await alive[place].kill()
                alive[place] = self.start(self.groups[place])
            case "zombie":
                if alive[place].log.followers:
                    self.world.log.expel(alive[place].log.followers[0])
                alive[place] = self.start(self.groups[place])
            case "rebalance":
                alive.append(self.start(self.groups[place]))
                self.groups = [*self.groups, self.groups[place]]
            case "postgres":
                postgres.away = not postgres.away
            case "lag":
                postgres.lagging = True
                await postgres.project(self.random.randint(1, 5))
            case "cancel" if self.random.random() < 0.5:
                await self.world.tell(self.random.choice(ids), cancellation())
            case _:
                self.world.log.write(EVENTS, self.random.choice(ids).encode(), b"nonsense")

    def check(self, ids: list[str]) -> None:
        runs = Counter(key for key in self._of("at_most_once").runs)
        assert all(count == 1 for count in runs.values()), "an at_most_once effect ran twice"
        for id_ in ids:
            accepted = self.world.accepted(id_)
            assert sum(type(event).__name__.startswith("Round") for event in accepted) == 1
            places = [
                [_place(event) for event in accepted if isinstance(event, kind)]
                for kind in (ActionStarted, ActionCompleted)
            ]
            assert set(places[0]) == set(places[1]), "a started action has no outcome"
            assert len(places[1]) == len(set(places[1]))
        for process in self.world.processes:
            self._compare(process)

    def _of(self, kind: str) -> Counting:
        return next(action for action in self.actions if action.effect_class == kind)

    def _compare(self, process: Process) -> None:
        """What a process that was there to the end holds is what the full fold says."""
        partitions_held = process.worker._held
        for partition in partitions_held.partitions.values() if partitions_held else ():
            end = len(self.world.log._topics[EVENTS][partition.number])
            for held in partition.fold.workflows.values() if partition.position == end else ():
                full, _ = self.world.folded(held.id)
                assert (held.phase, held.head, held.openings) == (full.phase, full.head, full.openings)


def _place(event: Any) -> tuple[int, int, int, int]:
    return (event.round, event.task, event.attempt, event.step)


@pytest.mark.req("E-03")
@pytest.mark.req("E-06")
@pytest.mark.req("E-07")
@pytest.mark.req("E-08")
@pytest.mark.parametrize(
    "first", [*range(0, 50, 10), *(pytest.param(first, marks=pytest.mark.soak) for first in range(50, RUNS, 10))]
)
async def test_whatever_befalls_the_workers_the_laws_hold(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "DRAIN_TIMEOUT", 0.01)
    monkeypatch.setattr(retry, "LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(claims, "GRACE_MS", 30_000)
    for seed in range(first, first + 10):
        with _told(seed), capture_logs() as lines:
            await Chaos(seed).run()
            assert not FALSE_ALARMS & {line["event"] for line in lines}


@contextmanager
def _told(seed: int) -> Generator[None, None, None]:
    """Names the seed of a run that failed."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
