"""The benchmark: what it measures, in which order and how often."""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Final

from poweron_events.envelope import Envelope
from poweron_services.bench import document_speed, yardsticks
from poweron_services.bench.figures import Figures, percentile, why_void
from poweron_services.bench.first_step import cold_ms, warm_ms
from poweron_services.bench.growth import EARLY_STEP, LATE_STEP, growth, prompts_kept
from poweron_services.bench.history_page import page_p50_ms
from poweron_services.bench.loop_speed import (
    Throughput,
    WorkflowRunner,
    latencies,
    throughput,
    warm_up,
    workflow_runner,
)
from poweron_services.bench.peer import PeerFigures, measured_peer, speed_told
from poweron_services.bench.processes import CpuMeter, running, until_ready
from poweron_services.bench.rebuild_speed import (
    copy_rate,
    events_of_workflow,
    evolve_rate,
    fold_rate,
    long_log,
    rebuild_rate,
)
from poweron_services.bench.run_directories import run_directories
from poweron_services.sandbox.servers import Sandbox, open_sandbox
from poweron_services.wiring import ROLES

PARTS: Final = ("ask", "documents", "latency", "throughput", "growth", "history", "rebuild")
"""The parts that can be measured separately, in this order."""

DIGITS: Final = 3  # decimal places of a figure

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """The amount of work in a run; a measurement that is repeated usually reports its median."""

    times: int = 3
    processes: int = 1
    workflows: int = 200
    steps: int = 5
    at_once: int = 64
    beside_a_peer: int = 5
    alone: int = 3
    alone_steps: int = 41
    laps_alone: int = 200
    asks: int = 3
    pages: int = 300
    events: int = 100_000
    page_rows: int = 1_000_000
    page_workflows: int = 100

    def iterations(self, parts: Collection[str], *, times: int | None = None) -> int:
        """Return the number of loop iterations that these parts make, including the warm-up."""
        warm = self.at_once * self.steps
        latency = self.alone * self.alone_steps * ("latency" in parts)
        return warm + (times or self.times) * (latency + self.workflows * self.steps * ("throughput" in parts))


@dataclass(slots=True)
class Benchmark:
    """One run and the figures it has measured so far."""

    sandbox: Sandbox
    plan: BenchmarkPlan
    progress: Progress
    fsync: bool
    found: dict[str, float]
    on_iterations: Callable[[int, int], None] = lambda _, __: None
    """Called with the number of iterations made so far and the number planned."""
    _made: int = 0
    _planned: int = 0

    async def measure_beside(self, peer: Sequence[str]) -> None:
        """Measure PowerOn and a peer's command in turn."""
        self._planned = self.plan.iterations(("latency", "throughput"), times=self.plan.beside_a_peer)
        ours, alone, theirs = list[Throughput](), list[float](), list[PeerFigures]()
        await self._check()
        async with self._loop() as (runner, meter):
            for time in range(self.plan.beside_a_peer):
                self._tell("Ours, then the peer's", time, of=self.plan.beside_a_peer)
                times = await self._alone(runner)
                alone += times
                ours.append(await self._many(runner, meter))
                theirs.append(await measured_peer(peer))
                rate = ours[-1].iterations / ours[-1].projected
                self.progress(f"  {speed_told('Ours', rate, percentile(times, 50))} {theirs[-1].told()}")
        self.found["iteration_p50_ms"] = percentile(alone, 50)
        self.found["iteration_p99_ms"] = percentile(alone, 99)
        self._find_throughput(ours)
        self.found["peer_iteration_p50_ms"] = median(each.iteration_p50_ms for each in theirs)
        self.found["peer_iterations_per_second"] = median(each.iterations_per_second for each in theirs)
        cpu = median(each.cpu_seconds_per_1000_iterations for each in theirs)
        self.found["peer_cpu_seconds_per_1000_iterations"] = cpu

    async def measure(self, parts: Collection[str]) -> None:
        self._planned = self.plan.iterations(parts)
        events: Sequence[Envelope] = ()
        await self._check()
        async with self._loop() as (runner, meter):
            if "latency" in parts:
                await self._latency(runner)
            if "throughput" in parts:
                await self._throughput(runner, meter)
            if "growth" in parts:
                await self._growth(runner)
            if "history" in parts:
                await self._history(runner)
            if "rebuild" in parts:
                events = await events_of_workflow(runner)
        if events:
            await self._rebuild(events)

    @asynccontextmanager
    async def _loop(self) -> AsyncGenerator[tuple[WorkflowRunner, CpuMeter], None]:
        """Run all roles in one process, or in several sharing the work, and the projector in another; warm them up."""
        self.progress("Starting the roles and the projector…")
        roles = [role for role in ROLES if role != "projector"]
        played = {"projector": ["projector"], **dict.fromkeys(_names("roles", self.plan.processes), roles)}
        async with AsyncExitStack() as stack:
            started = {
                name: await stack.enter_async_context(running(self.sandbox, name, "serve", *its_roles))
                for name, its_roles in played.items()
            }
            runner = await stack.enter_async_context(workflow_runner(self.sandbox.connections, self._count))
            await warm_up(runner, workflows=self.plan.at_once, steps=self.plan.steps, at_once=self.plan.at_once)
            yield runner, CpuMeter.of(self.sandbox, **{name: process.pid for name, process in started.items()})

    def _count(self, iterations: int) -> None:
        self._made += iterations
        self.on_iterations(self._made, max(self._made, self._planned))

    async def _check(self) -> None:
        """Measure the bare ring and report at once if the machine is busy.

        Its figures are final unless a later part measures the ring again.
        """
        self.progress("How fast the bare ring is…")
        self.found["ring_p50_ms"] = percentile(await self._lap_times(), 50)
        self.found["ring_iterations_per_second"] = await self._ring_rate()
        void = why_void(Figures(**self.found), fsync=self.fsync)
        if void:
            self.progress(f"The machine is busy. {void} If that does not change, the run is void.")

    async def _latency(self, runner: WorkflowRunner) -> None:
        ours: list[float] = []
        laps: list[float] = []
        for time in range(self.plan.times):
            self._tell("One workflow at a time, and one lap of the ring at a time", time)
            laps += await self._lap_times()
            ours += await self._alone(runner)
        self.found["ring_p50_ms"] = percentile(laps, 50)
        self.found["iteration_p50_ms"] = percentile(ours, 50)
        self.found["iteration_p99_ms"] = percentile(ours, 99)

    async def _alone(self, runner: WorkflowRunner) -> list[float]:
        return await latencies(runner, workflows=self.plan.alone, steps=self.plan.alone_steps)

    async def _many(self, runner: WorkflowRunner, meter: CpuMeter) -> Throughput:
        plan = self.plan
        return await throughput(runner, meter, workflows=plan.workflows, steps=plan.steps, at_once=plan.at_once)

    async def _lap_times(self) -> list[float]:
        async with yardsticks.ring(self.sandbox.kafka_settings) as ring:
            await ring.run(self.plan.laps_alone // 10 + 1, at_once=1)  # warm
            ends = await ring.run(self.plan.laps_alone, at_once=1)
        return [1_000 * (end - begin) for begin, end in pairwise(ends)]

    async def _throughput(self, runner: WorkflowRunner, meter: CpuMeter) -> None:
        ours: list[Throughput] = []
        bare: list[float] = []
        projected: list[float] = []
        plan = self.plan
        for time in range(self.plan.times):
            self._tell(f"{plan.workflows} workflows, {plan.at_once} at once, and as many laps of the ring", time)
            bare.append(await self._ring_rate())
            projected.append(await self._projected_ring_rate())
            ours.append(await self._many(runner, meter))
        self.found["ring_iterations_per_second"] = median(bare)
        self.found["ring_projected_iterations_per_second"] = median(projected)
        self._find_throughput(ours)

    def _find_throughput(self, ours: Sequence[Throughput]) -> None:
        self.found["iterations_per_second"] = median(each.iterations / each.projected for each in ours)
        self.found["cpu_seconds_per_1000_iterations"] = median(1_000 * each.cpu_per_iteration for each in ours)
        self.found["bytes_per_iteration"] = mean(each.bytes_per_iteration for each in ours)
        self._tell_details(ours)

    def _tell_details(self, ours: Sequence[Throughput]) -> None:
        ended = median(each.iterations / each.ended for each in ours)
        self.progress(f"  {ended:,.0f} iterations/s until the last round had ended.")
        middle = sorted(ours, key=lambda each: each.cpu_per_iteration)[len(ours) // 2]
        used = [f"{name} {1_000 * seconds / middle.iterations:.2f}" for name, seconds in middle.cpu.items()]
        self.progress(f"  CPU seconds for 1,000 iterations: {', '.join(used)}.")
        grown = [f"{name} {mean(each.disk[name] / each.iterations for each in ours):,.0f}" for name in middle.disk]
        self.progress(f"  Bytes on the disk for an iteration: {', '.join(grown)}.")

    async def _ring_rate(self) -> float:
        laps = self.plan.workflows * self.plan.steps
        async with yardsticks.ring(self.sandbox.kafka_settings) as ring:
            await ring.run(2 * self.plan.at_once, at_once=self.plan.at_once)  # warm
            ends = await ring.run(laps, at_once=self.plan.at_once)
        return laps / (ends[-1] - ends[0])

    async def _projected_ring_rate(self) -> float:
        laps, at_once = self.plan.workflows * self.plan.steps, self.plan.at_once
        async with (
            running(self.sandbox, "yardstick", "project") as writer,
            yardsticks.ring(self.sandbox.kafka_settings) as ring,
        ):
            await until_ready(writer)
            rows = yardsticks.RingRows(self.sandbox.connections.pool)
            await ring.run(2 * at_once, at_once=at_once)  # warm
            await rows.reach(2 * at_once * len(yardsticks.HOPS))
            began = (await ring.run(laps, at_once=at_once))[0]
            return laps / (await rows.reach((2 * at_once + laps) * len(yardsticks.HOPS)) - began)

    async def _growth(self, runner: WorkflowRunner) -> None:
        self.progress(f"What the {EARLY_STEP}th and the {LATE_STEP}th step of a workflow write…")
        self.found["bytes_ratio_step_40_to_4"] = await growth(runner)
        self.found["prompt_share_kept"] = await prompts_kept(runner)

    async def _history(self, runner: WorkflowRunner) -> None:
        plan = self.plan
        self.progress(f"Filling a table with {plan.page_rows:,} messages, and reading pages of it…")
        self.found["history_page_p50_ms"] = await page_p50_ms(
            runner, self.sandbox.postgres.dsn, rows=plan.page_rows, workflows=plan.page_workflows
        )

    async def _rebuild(self, events: Sequence[Envelope]) -> None:
        self.progress(f"Writing a log of {self.plan.events:,} events…")
        async with long_log(self.sandbox, events, self.plan.events) as long:
            copied: list[float] = []
            rebuilt: list[float] = []
            folded: list[float] = []
            for time in range(self.plan.times):
                self._tell("Copying its bytes, rebuilding the rows from it, folding it", time)
                copied.append(await copy_rate(long))
                rebuilt.append(await rebuild_rate(long))
                folded.append(await fold_rate(long))
            self.progress(f"  {await evolve_rate(long):,.0f} events/s are read and judged by one process.")
        self.found["copy_events_per_second"] = median(copied)
        self.found["rebuild_events_per_second"] = median(rebuilt)
        self.found["fold_events_per_second"] = median(folded)

    def _tell(self, what: str, time: int, of: int | None = None) -> None:
        self.progress(f"{what} ({time + 1} of {of or self.plan.times})…")


def _names(name: str, count: int) -> list[str]:
    """Return one name for each process, numbered if there are several."""
    return [name] if count == 1 else [f"{name} {number}" for number in range(1, count + 1)]


async def measure(
    home: Path,
    progress: Progress,
    *,
    parts: Collection[str] = PARTS,
    fsync: bool = False,
    peer: Sequence[str] | None = None,
    plan: BenchmarkPlan | None = None,
    on_iterations: Callable[[int, int], None] = lambda _, __: None,
) -> Figures:
    """Measure on separate servers below this data directory, and remove everything they wrote afterwards.

    Args:
        home: the user's data directory; the server software already downloaded there is reused.
        progress: called with sentences that describe the progress.
        parts: the parts to measure, from `PARTS`.
        fsync: make the broker flush each record to the disk.
        peer: a command to measure in turn with PowerOn, instead of the parts.
        plan: the amount of work.
        on_iterations: called with the number of loop iterations made so far and the number planned.

    Raises:
        Refused: another run is in progress, or something must be fixed first; the message says what.
        Unavailable: a server or a process of the run does not start or stay up.
    """
    plan, found = plan or BenchmarkPlan(), dict[str, float]()
    async with run_directories(home, progress) as (asked, measured):
        if peer is not None:
            async with open_sandbox(measured, progress, fsync=fsync) as sandbox:
                await Benchmark(sandbox, plan, progress, fsync, found, on_iterations).measure_beside(peer)
            parts = ()
        if "ask" in parts:
            progress("How long `poweron ask` takes to its first step…")
            found["ask_cold_ms"] = await cold_ms(asked)
            found["ask_warm_ms"] = await warm_ms(asked, lambda _: None, times=plan.asks)
        if "documents" in parts:
            for kind in document_speed.KINDS:
                progress(f"Reading a PDF of {plan.pages:,} pages: {kind}…")
                found[f"{kind}_pages_per_second"] = await document_speed.pages_per_second(kind, plan.pages)
        if set(parts) - {"ask", "documents"}:
            async with open_sandbox(measured, progress, fsync=fsync) as sandbox:
                await Benchmark(sandbox, plan, progress, fsync, found, on_iterations).measure(parts)
    return Figures(**{name: round(figure, DIGITS) for name, figure in found.items()})
