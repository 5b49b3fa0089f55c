"""The benchmark: its measurements, their order, and how often each is repeated."""

import asyncio
import fcntl
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import mean, median
from typing import Final

import orjson

from poweron_events.envelope import Envelope
from poweron_events.errors import Refused, Unavailable
from poweron_events.request import workflow_id
from poweron_projections import reader
from poweron_projections.connection import acquire, connect
from poweron_projections.messages import MESSAGES
from poweron_projections.migrations import migrate
from poweron_projections.reader import stored_records
from poweron_services import embedded
from poweron_services.client.follow import step_words
from poweron_services.embedded.folders import explained, prepare
from poweron_services.experiments.bench import document_speed, ledger_speed, yardsticks
from poweron_services.experiments.bench.door_speed import door_of, follower_figures, list_figures, page_figures
from poweron_services.experiments.bench.figures import (
    BenchFigures,
    PeerFigures,
    measured_peer,
    percentile,
    speed_told,
    why_void,
)
from poweron_services.experiments.bench.ledger_speed import ROUNDS
from poweron_services.experiments.bench.loop_speed import (
    BENCH_SOURCE,
    Throughput,
    WorkflowRunner,
    copy_rate,
    events_of_workflow,
    evolve_rate,
    fold_rate,
    latencies,
    long_log,
    rebuild_rate,
    throughput,
    warm_up,
)
from poweron_services.experiments.bench.processes import CpuMeter, running, until_ready
from poweron_services.experiments.bench.scale import ROLES_OF_ONE, ScaledRun, open_memory_mb, role_processes, scaled
from poweron_services.experiments.sandbox.child_process import clean_environment, stop
from poweron_services.experiments.sandbox.servers import Sandbox, make, open_sandbox, remove

SPACE_NEEDED: Final = 3_000  # MB
NAMES: Final = ("asked", "measured")
PAGE_SCHEMA: Final = "paged"
READS: Final = 200
_OTHERS: Final = ", ".join(name for name in MESSAGES.columns if name not in {"workflow_id", "seq"})
_FILL: Final = f"""
INSERT INTO {PAGE_SCHEMA}.messages (workflow_id, seq, {_OTHERS})
SELECT id, seq, {_OTHERS}
  FROM generate_series(1, $1::integer) AS seq,
       unnest($2::uuid[]) AS id,
       (SELECT {_OTHERS} FROM messages WHERE workflow_id = $3::uuid AND kind = 'step' LIMIT 1) AS message
 ORDER BY seq
"""  # noqa: S608 - names from our own tables
EARLY_STEP, LATE_STEP = 4, 40  # steps
PROMPTED_STEPS = 10
_WHOLE: Final = "SELECT COALESCE(sum(pg_column_size({0}.*)), 0)::bigint FROM {0} WHERE workflow_id = $1::uuid"
_BY_SEQ: Final = f"{_WHOLE} AND seq BETWEEN $2 AND $3"
_STEP: Final = f"{_WHOLE.format('steps')} AND step = $2"
SEQUENTIAL: Final = ("records", "messages", "documents", "usage")
REPLACED: Final = ("workflows", "rounds", "tasks")
QUESTION: Final = "When does the exhibition open?"
LETTER: Final = "Dear Ada,\n\nthe exhibition opens on September 12, 2025, at six in the evening.\n\nYours, Grace\n"
FIRST_STEP: Final = step_words(1, 1).encode()
DEADLINE: Final = 120.0  # seconds
POWERON: Final = (sys.executable, "-c", "from poweron_services.cli.entry import main; main()")
PARTS: Final = ("ask", "documents", "latency", "throughput", "growth", "history", "rebuild", "door", "scale", "ledger")
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
    scaled_processes: tuple[int, ...] = (1, 2, 4, 8)
    scaled_at_once: int = 40
    scaled_steps: int = 3
    open_workflows: int = 5_000
    page_workflows: int = 100
    followers: int = 1_000
    followers_that_do_not_read: int = 50
    followed_seconds: int = 30
    listed_workflows: int = 100_000
    long_workflow_events: int = 10_000
    ledger_rows: int = 1_000_000
    bundle_events: int = 1_000

    def iterations(self, parts: Collection[str], *, times: int | None = None) -> int:
        """Return the number of loop iterations that these parts make, including the warm-up."""
        warm = self.at_once * self.steps
        latency = self.alone * self.alone_steps * ("latency" in parts)
        scale = self.scaled_at_once * (1 + 2 * self.scaled_steps) * sum(self.scaled_processes) * ("scale" in parts)
        many = self.workflows * self.steps
        repeated = (
            latency + many * ("throughput" in parts) + 2 * many * ("door" in parts) + 2 * many * ("ledger" in parts)
        )
        warm_ledger = (warm + sum(ROUNDS)) * ("ledger" in parts)
        return warm + warm_ledger + scale + ("door" in parts) + (times or self.times) * repeated


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
        await self._check()
        if set(parts) - {"scale", "ledger"}:
            await self._measure_loop(parts)
        if "scale" in parts:
            await self._scale()
        if "ledger" in parts:
            await self._ledger()

    async def _measure_loop(self, parts: Collection[str]) -> None:
        events: Sequence[Envelope] = ()
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
            if "door" in parts:
                await self._door(runner, meter)
        if events:
            await self._rebuild(events)

    @asynccontextmanager
    async def _loop(self) -> AsyncGenerator[tuple[WorkflowRunner, CpuMeter], None]:
        """Run all roles in one process, or in several sharing the work, and the projector in another; warm them up."""
        self.progress("Starting the roles and the projector…")
        async with role_processes(self.sandbox, self.plan.processes, counted=self._count) as (runner, meter):
            await warm_up(runner, workflows=self.plan.at_once, steps=self.plan.steps, at_once=self.plan.at_once)
            yield runner, meter

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
        void = why_void(BenchFigures(**self.found), fsync=self.fsync)
        if void:
            self.progress(f"The machine is busy. {void} If that does not change, the run is void.")

    async def _latency(self, runner: WorkflowRunner) -> None:
        ours: list[float] = []
        laps: list[float] = []
        for turn in range(self.plan.times):
            self._tell("One workflow at a time, and one lap of the ring at a time", turn)
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
        for turn in range(self.plan.times):
            self._tell(f"{plan.workflows} workflows, {plan.at_once} at once, and as many laps of the ring", turn)
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
            for turn in range(self.plan.times):
                self._tell("Copying its bytes, rebuilding the rows from it, folding it", turn)
                copied.append(await copy_rate(long))
                rebuilt.append(await rebuild_rate(long))
                folded.append(await fold_rate(long))
            self.progress(f"  {await evolve_rate(long):,.0f} events/s are read and judged by one process.")
        self.found["copy_events_per_second"] = median(copied)
        self.found["rebuild_events_per_second"] = median(rebuilt)
        self.found["fold_events_per_second"] = median(folded)

    async def _door(self, runner: WorkflowRunner, meter: CpuMeter) -> None:
        plan, beside, alone = self.plan, list[Throughput](), list[Throughput]()
        for turn in range(plan.times):
            self._tell("The roles alone, and beside a door", turn)
            alone.append(await self._many(runner, meter))
            async with door_of(self.sandbox, POWERON):
                beside.append(await self._many(runner, meter))
        self.found["doorless_iterations_per_second"] = median(each.iterations / each.projected for each in alone)
        self.found["door_iterations_per_second"] = median(each.iterations / each.projected for each in beside)
        async with door_of(self.sandbox, POWERON) as door:
            self.progress(f"{plan.followers:,} followers of one workflow…")
            idle, seconds = plan.followers_that_do_not_read, plan.followed_seconds
            self.found |= await follower_figures(door, runner, followers=plan.followers, idle=idle, seconds=seconds)
            self.progress("The page of a workflow with many events…")
            self.found |= await page_figures(door, runner, events=plan.long_workflow_events)
            self.progress(f"A list of {plan.listed_workflows:,} workflows…")
            self.found |= await list_figures(door, runner, workflows=plan.listed_workflows)

    async def _ledger(self) -> None:
        plan, alone = self.plan, tuple(role for role in ROLES_OF_ONE if role != "ledger")
        started = role_processes(self.sandbox, plan.processes, counted=self._count, roles=alone, projector=False)
        async with started as (runner, meter):
            async with ledger_speed.projecting(self.sandbox):
                await warm_up(runner, workflows=plan.at_once, steps=plan.steps, at_once=plan.at_once)
                self.progress(f"A workflow of {plan.bundle_events:,} events…")
                workflow = await ledger_speed.long_workflow(runner, plan.bundle_events)
                events = await events_of_workflow(runner)
            self.progress("The roles without a ledger, and beside one…")
            many = {"workflows": plan.workflows, "steps": plan.steps, "at_once": plan.at_once}
            self.found |= await ledger_speed.cost_figures(self.sandbox, runner, meter, times=plan.times, **many)
        self.progress(f"Entering {plan.events:,} events…")
        async with (
            long_log(self.sandbox, events, plan.events - len(workflow)) as long,
            ledger_speed.entered_log(self.sandbox, long, workflow) as entered,
        ):
            figures = ledger_speed.entered_figures(entered, times=plan.times, rows=plan.ledger_rows, tell=self.progress)
            self.found |= await figures

    async def _scale(self) -> None:
        plan, runs = self.plan, list[ScaledRun]()
        for processes in plan.scaled_processes:
            self.progress(f"{plan.scaled_at_once} workflows at once for each of {processes} processes…")
            at_once, steps = plan.scaled_at_once, plan.scaled_steps
            runs.append(await scaled(self.sandbox, processes, at_once=at_once, steps=steps, counted=self._count))
            self.progress(f"  {runs[-1].told()}")
            share = runs[-1].iterations_per_second / runs[0].iterations_per_second / processes
            if processes > 1:
                self.found[f"rate_share_of_{processes}_processes"] = share
        self.progress(f"Opening {plan.open_workflows:,} workflows…")
        self.found["open_workflows_mb"] = await open_memory_mb(self.sandbox, plan.open_workflows)

    def _tell(self, what: str, time: int, of: int | None = None) -> None:
        self.progress(f"{what} ({time + 1} of {of or self.plan.times})…")


async def measure(
    home: Path,
    progress: Progress,
    *,
    parts: Collection[str] = PARTS,
    fsync: bool = False,
    peer: Sequence[str] | None = None,
    plan: BenchmarkPlan | None = None,
    on_iterations: Callable[[int, int], None] = lambda _, __: None,
) -> BenchFigures:
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
    return BenchFigures(**{name: round(figure, DIGITS) for name, figure in found.items()})


async def cold_ms(home: Path) -> float:
    """Return the time with no server running and an empty data directory; only the software has been downloaded."""
    return await _asked(home)


async def warm_ms(home: Path, progress: Callable[[str], None], *, times: int) -> float:
    """Return the median time with both servers running."""
    await embedded.up(home, progress)
    try:
        return median([await _asked(home) for _ in range(times)])
    finally:
        await embedded.down(home)


async def _asked(home: Path) -> float:
    """Return the ms from the start of the command to the line of its first step."""
    letter = home / "letter.txt"
    await asyncio.to_thread(letter.write_text, LETTER)
    began = time.perf_counter()
    asking = await asyncio.create_subprocess_exec(
        *(*POWERON, "ask", QUESTION, "--document", str(letter), "--output", str(home / "output")),
        env=clean_environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert asking.stderr is not None
    try:
        async with asyncio.timeout(DEADLINE):
            seen = await _until_first_step(asking.stderr)
            await asking.stderr.read()
            await asking.wait()
    finally:
        await stop(asking)
    return 1_000 * (seen - began)


async def _until_first_step(stderr: asyncio.StreamReader) -> float:
    """Return when the first step was shown; raise `Unavailable` if the command ends without one."""
    lines: list[bytes] = []
    while line := await stderr.readline():
        if line.startswith(FIRST_STEP):
            return time.perf_counter()
        lines.append(line)
    raise Unavailable(f"`poweron ask` ended without a step: {b''.join(lines[-3:]).decode(errors='replace')}")


async def growth(runner: WorkflowRunner) -> float:
    """Return the bytes that the late step writes, divided by those of the early step."""
    return await _written_by(runner, LATE_STEP) / await _written_by(runner, EARLY_STEP)


async def _written_by(runner: WorkflowRunner, step: int) -> int:
    """Run a workflow of this many steps and return the bytes that its last step has written."""
    workflow = await runner.run(step)
    await runner.projected()
    records = await stored_records(runner.connections.pool, workflow)
    written = [record for record in records if orjson.loads(record.value)["data"].get("step") == step]
    async with acquire(runner.connections.pool) as connection:
        rows = [
            *[(_BY_SEQ.format(table), (workflow, written[0].seq, written[-1].seq)) for table in SEQUENTIAL],
            *[(_WHOLE.format(table), (workflow,)) for table in REPLACED],
            (_STEP, (workflow, step)),
        ]
        kept: list[int] = [await connection.fetchval(query, *named) for query, named in rows]
    return sum(len(record.value) for record in written) + sum(kept)


async def prompts_kept(runner: WorkflowRunner) -> float:
    """Return the share of a ten-step run's prompt characters, from 0 to 1, that repeat the previous prompt's start.

    A provider with a prompt cache reads an identical beginning from it. Each prompt is compared with the previous one
    of the same template.
    """
    workflow = await runner.run(PROMPTED_STEPS)
    await runner.projected()
    before: dict[str, str] = {}
    kept = written = 0
    for record in await stored_records(runner.connections.pool, workflow):
        call = orjson.loads(record.value)["data"].get("modelCall")
        if call is None:
            continue
        prompt = (await runner.connections.content.get(workflow, call["promptRef"])).decode()
        if (last := before.get(call["template"])) is not None:
            kept += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(last, prompt, strict=False)))
            written += len(prompt)
        before[call["template"]] = prompt
    return kept / written


async def page_p50_ms(runner: WorkflowRunner, dsn: str, *, rows: int, workflows: int) -> float:
    """Return the median time to read the newest page, going through the workflows in turn."""
    written = await runner.run(1)
    await runner.projected()
    ids = [workflow_id(BENCH_SOURCE, f"page {number}") for number in range(workflows)]
    async with connect(dsn, schema=PAGE_SCHEMA) as pool:
        await migrate(pool)
        async with acquire(runner.connections.pool) as connection:
            await connection.execute(f"ALTER TABLE {PAGE_SCHEMA}.messages SET UNLOGGED")  # it is only read
            await connection.execute(_FILL, rows // workflows, ids, written)
            await connection.execute(f"ANALYZE {PAGE_SCHEMA}.messages")
        took: list[float] = []
        for number in range(READS):
            began = time.perf_counter()
            await reader.history(pool, ids[number % len(ids)])
            took.append(1_000 * (time.perf_counter() - began))
        async with acquire(pool) as connection:
            await connection.execute(f"DROP SCHEMA {PAGE_SCHEMA} CASCADE")
    return percentile(took, 50)


@asynccontextmanager
async def run_directories(home: Path, progress: Callable[[str], None]) -> AsyncGenerator[tuple[Path, Path], None]:
    """Create two empty data directories, one for `poweron ask` and one for everything else.

    Raises:
        Refused: another run is in progress, or the location is unsuitable.
    """
    folders = await asyncio.to_thread(prepare, home)
    folder = folders.home / "bench"
    _expect_space(home)
    with explained(home), (folders.home / "bench.lock").open("a") as lock:
        _lock(lock.fileno())
        asked, measured = (folder / name for name in NAMES)
        await _clear(folder)  # remove what a killed run has left
        try:
            for directory in (asked, measured):
                make(directory, folders.software)
            yield asked, measured
        finally:
            progress("Removing what the measurement wrote…")
            await _clear(folder)


def _expect_space(home: Path) -> None:
    free = shutil.disk_usage(home).free // 1_000_000
    if free < SPACE_NEEDED:
        raise Refused(
            f"The disk of {str(home)!r} has {free} MB left, and a measurement writes up to {SPACE_NEEDED} MB, "
            "which it removes again. Free some space, or choose another data directory with POWERON_HOME."
        )


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refused("Another `poweron bench` is running; two at a time would measure each other.") from error


async def _clear(folder: Path) -> None:
    for name in NAMES:
        await remove(folder / name)
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
