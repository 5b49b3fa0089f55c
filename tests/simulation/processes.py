"""Processes of the simulated world: each plays some roles with the code that ships, over a cable of its own."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from simulation.clock import Owner, VirtualLoop
from simulation.faults import Chance
from simulation.minds import CLASSES, SPECS, Effect, Mind, Shelf
from simulation.postgres import Postgres, SimulatedPool
from simulation.wire import Cable, SimulatedLog

from poweron_events.content import ContentStore
from poweron_events.envelope import idempotency_key
from poweron_events.fold.state import Workflow
from poweron_events.stream import WorkflowEvent
from poweron_projections import projector
from poweron_services.decider.approval import Approval
from poweron_services.intake.request_intake import Intake
from poweron_services.models.call import Caller
from poweron_services.roles.action_execution import Execution
from poweron_services.roles.executor import Executor
from poweron_services.runtime.daily_use import DailyUse
from poweron_services.runtime.worker import Worker
from poweron_services.wiring import FOLDING, PostgresPorts, group_of, stage_functions

BROKER_START_MS = 1_800_000_000_000
CONCURRENCY = 3
MOST_SKEW_MS = 300
MOST_OPEN = (1, 2, 1_000)  # workflows; intakes need not agree

THINKING = FOLDING - {"executor"}
ALL = FOLDING | {"intake", "projector"}
LAYOUTS: list[list[frozenset[str]]] = [
    [ALL],
    [ALL, ALL],
    [FOLDING, frozenset({"intake", "projector"})],
    [FOLDING, frozenset({"executor", "intake"}), frozenset({"projector"})],
    [THINKING, frozenset({"executor", "projector"}), frozenset({"intake"})],
    [
        frozenset({"planner", "selector", "parameterizer"}),
        frozenset({"executor", "observer"}),
        frozenset({"refiner", "reviewer", "intake", "projector"}),
    ],
]
"""Which roles the processes play; every role is played by somebody."""


@dataclass(frozen=True, slots=True)
class WatchedPorts(PostgresPorts):
    """Counts how often intake found no room for a workflow."""

    chance: Chance

    async def count_open(self, most: int) -> int:
        found = await PostgresPorts.count_open(self, most)
        self.chance.struck["no room"] += found == most
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedExecution(Execution):
    """Tells the world when an action begins."""

    began: Callable[[Workflow], None]

    async def run(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        self.began(workflow)
        return await Execution.run(self, workflow)


class Process:
    """One process. Alive, paused or dead, always behind its own cable, pool and clock."""

    def __init__(
        self,
        name: str,
        roles: frozenset[str],
        *,
        loop: VirtualLoop,
        log: SimulatedLog,
        postgres: Postgres,
        shelf: Shelf,
        chance: Chance,
        approval: Approval,
        is_told: bool,
        happened: Callable[..., None],
        took: Callable[[int], None],
        begins: Callable[..., None],
        fails: Callable[[], None],
    ) -> None:
        self.name, self.roles = name, roles
        self.owner = Owner(name)
        self.cable = Cable(log, loop, chance)
        self.pool: Any = SimulatedPool(postgres)
        self.worker: Worker | None = None
        self.dead = self.stopped = False
        self.began = loop.time()
        self._loop, self._chance = loop, chance
        self._content = ContentStore(shelf)  # type: ignore[arg-type] # it keeps the promises that are asked of it
        self._skew_ms = chance.random.randint(-MOST_SKEW_MS, MOST_SKEW_MS) if chance.strikes("clock skewed", 0.5) else 0
        self._approval, self._happened, self._took = approval, happened, took
        self._begins, self._fails = partial(begins, self), fails
        self._executes_by = approval if is_told else Approval(expires_ms=approval.expires_ms)
        self.task = loop.begin(self.owner, self._serve())

    @property
    def serves(self) -> bool:
        """Whether it still does its work, though perhaps not just now."""
        return not self.dead and not self.stopped and not self.task.done()

    def now_ms(self) -> int:
        return BROKER_START_MS + round(self._loop.time() * 1000) + self._skew_ms

    def die(self) -> None:
        """End without a word: nothing that it does from here on reaches anybody."""
        self.dead = self.owner.halted = self.cable.cut = self.pool.dead = True
        self.cable.swallows = self._chance.often(0.5)

    def stop(self) -> None:
        """Ask it to end; it gives work in hand a moment."""
        self.stopped = True
        self.task.cancel()

    def bury(self) -> None:
        """Let a process, dead or alive, end its tasks after the world has ended."""
        self.cable.cut = self.cable.swallows = self.pool.dead = True
        self._loop.resume(self.owner)
        for task in self.owner.tasks:
            task.cancel()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            if "projector" in self.roles:
                group.create_task(projector.run(self.cable, self.pool))
            if "intake" in self.roles:
                group.create_task(self._intake().run())
            if self.roles & FOLDING:
                self.worker = self._worker(self.roles & FOLDING)
                group.create_task(self.worker.run())

    def _intake(self) -> Intake:
        return Intake(
            event_log=self.cable,
            queries=WatchedPorts(self.pool, self._chance),
            content=self._content,
            instance=self.name,
            now_ms=self.now_ms,
            actions=CLASSES,
            default_language=None,
            max_open=self._chance.one_of(MOST_OPEN),
            approve=self._approval.patterns,
            specs=SPECS,
        )

    def _worker(self, roles: frozenset[str]) -> Worker:
        daily = DailyUse(PostgresPorts(self.pool), self.now_ms)
        caller = Caller(Mind(self._chance, self._took, self._begins, self._fails), self._content, day_budgets=daily)
        actions = {name: Effect(name, self._effect, self._chance) for name in CLASSES}
        known = stage_functions(caller, self._content, SPECS)
        execution = WatchedExecution(
            began=self._acts,
            actions=actions,
            caller=caller,
            content=self._content,
            observes="observer" in roles,
            now_ms=self.now_ms,
            approval=self._executes_by,
        )
        executor = Executor(execution, worker=self.name, concurrency=CONCURRENCY)
        return Worker(
            event_log=self.cable,
            snapshots=PostgresPorts(self.pool),
            stage_functions={role: function for role, function in known.items() if role in roles},
            executor=executor if "executor" in roles else None,
            group=group_of(roles),
            instance=self.name,
            concurrency=CONCURRENCY,
            now_ms=self.now_ms,
        )

    def _acts(self, workflow: Workflow) -> None:
        self._begins(workflow.id, idempotency_key(workflow.id, workflow.place))

    def _effect(self, key: str, action: str) -> None:
        self._happened(self, key, action)
