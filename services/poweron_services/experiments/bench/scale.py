"""How throughput grows with the number of processes, and the memory of open workflows, while models take their time.

Each process gets the same number of workflows at once, so that twice as many processes have twice as much work. A call
of the model takes a second, as with a real one: what is measured is the waiting that a process can bear, until the
cores are busy.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import psutil

from poweron_events.client import send
from poweron_events.request import RequestWorkflow
from poweron_projections.connection import acquire
from poweron_services.experiments.bench.loop_speed import BENCH_SOURCE, DEADLINE, WorkflowRunner, workflow_runner
from poweron_services.experiments.bench.processes import CpuMeter, running
from poweron_services.experiments.sandbox.servers import Sandbox, until
from poweron_services.wiring import ROLES

ANSWER_TIME: Final = 1.0  # seconds of a model call
OPEN_ANSWER_TIME: Final = 3_600.0  # seconds: no call is answered while open workflows are counted
PERIOD: Final = 0.2  # seconds between two queries of the number of open workflows
ROLES_OF_ONE: Final = tuple(role for role in ROLES if role != "projector")
SENT_AT_ONCE: Final = 50  # requests
_OPEN: Final = "SELECT count(*) FROM workflows WHERE round > 0"


@dataclass(frozen=True, slots=True)
class ScaledRun:
    """The rate of some processes, and the CPU seconds that each kind of process used for each second of it."""

    processes: int
    iterations_per_second: float
    cores: Mapping[str, float]

    def told(self) -> str:
        """Describe the run: the limit is the kind of process that uses most of the cores."""
        used = ", ".join(f"{name} {share:.2f}" for name, share in self.cores.items())
        return f"{self.processes} of roles: {self.iterations_per_second:,.1f} iterations/s. Cores used: {used}."


async def scaled(
    sandbox: Sandbox, processes: int, *, at_once: int, steps: int, counted: Callable[[int], None]
) -> ScaledRun:
    """Measure the rate of some processes that have `at_once` workflows each, twice one after the other."""
    async with role_processes(sandbox, processes, ANSWER_TIME, counted) as (runner, meter):
        workflows = at_once * processes
        async with asyncio.timeout(DEADLINE):
            await runner.run_many(workflows, 1, at_once=workflows)  # every process has its partitions, and is warm
            clock, before = asyncio.get_running_loop().time, meter.read()
            began = clock()
            await runner.run_many(2 * workflows, steps, at_once=workflows)
            seconds, after = clock() - began, meter.read()
    used = {name: (after[name] - before[name]) / seconds for name in before}
    return ScaledRun(processes, 2 * workflows * steps / seconds, _by_kind(used))


async def open_memory_mb(sandbox: Sandbox, workflows: int) -> float:
    """Return the MB (10^6 bytes) of a process of all roles that holds this many open workflows."""
    limits = {"POWERON_MAX_OPEN": str(2 * workflows)}
    async with role_processes(sandbox, 1, OPEN_ANSWER_TIME, environment=limits) as (runner, meter):
        before = await _count(runner)
        async with asyncio.timeout(DEADLINE):
            requests = iter(range(workflows))
            async with asyncio.TaskGroup() as group:
                for _ in range(SENT_AT_ONCE):
                    group.create_task(_send_some(runner, requests))

            async def opened() -> bool:
                return await _count(runner) - before >= workflows

            await until(opened, PERIOD)
        memory: int = psutil.Process(meter.processes["roles"].pid).memory_info().rss
    return memory / 1_000_000


async def _send_some(runner: WorkflowRunner, requests: Iterator[int]) -> None:
    for number in requests:
        request = RequestWorkflow(prompt=f"Name repair {number}.", max_steps=1)
        await send(runner.connections.log, request, source=BENCH_SOURCE, request_id=f"open {number}", start=0)


async def _count(runner: WorkflowRunner) -> int:
    async with acquire(runner.connections.pool) as connection:
        count: int = await connection.fetchval(_OPEN)
    return count


@asynccontextmanager
async def role_processes(
    sandbox: Sandbox,
    count: int,
    answer_time: float = 0.0,
    counted: Callable[[int], None] = lambda _: None,
    *,
    environment: Mapping[str, str] | None = None,
    roles: Sequence[str] = ROLES_OF_ONE,
    projector: bool = True,
) -> AsyncGenerator[tuple[WorkflowRunner, CpuMeter], None]:
    """Run these roles in each of `count` processes whose model calls take `answer_time` seconds, and a projector."""
    names = ["roles"] if count == 1 else [f"roles {number}" for number in range(1, count + 1)]
    played = {**({"projector": ("projector",)} if projector else {}), **dict.fromkeys(names, roles)}
    async with AsyncExitStack() as stack:
        started = {
            name: await stack.enter_async_context(
                running(sandbox, name, "serve", str(answer_time), *named, environment=environment or {})
            )
            for name, named in played.items()
        }
        runner = await stack.enter_async_context(workflow_runner(sandbox.connections, counted))
        yield runner, CpuMeter.of(sandbox, **{name: process.pid for name, process in started.items()})


def _by_kind(used: Mapping[str, float]) -> dict[str, float]:
    """Add up the processes of the roles."""
    roles = sum(share for name, share in used.items() if name.startswith("roles"))
    return {**{name: share for name, share in used.items() if not name.startswith("roles")}, "roles": roles}
