"""The speed of PowerOn itself: workflows are requested over Kafka, as by any client, and followed to their end."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from poweron_events import topics
from poweron_events.client import send
from poweron_events.errors import Refused
from poweron_events.log import Follower, Record
from poweron_events.outcome import RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.refinement import RefinementDecided
from poweron_events.request import RequestWorkflow
from poweron_projections import bootstrap
from poweron_projections.connection import acquire
from poweron_services.client.connect import Connections
from poweron_services.embedded.folders import Folders
from poweron_services.experiments.bench.instant import filled
from poweron_services.experiments.bench.processes import CpuMeter
from poweron_services.experiments.sandbox.polling import until

_SIZE: Final = "SELECT pg_database_size(current_database())"
_TOPICS: Final = ("poweron.*", "__consumer_offsets-*")
BENCH_SOURCE: Final = "/poweron/bench"
POLL_TIMEOUT: Final = 1.0  # seconds
POSITION_PERIOD: Final = 0.005  # seconds between two queries of the projector's position
DEADLINE: Final = 300.0  # seconds for one measurement
EVENTS_TOPIC: Final = topics.EVENTS.name

Amount = TypeVar("Amount", int, float)

_STEP_END = f'"type":"{RefinementDecided.TYPE}"}}'.encode()  # keys are sorted: the type is the last one
_COMPLETED = f'"type":"{RoundCompleted.TYPE}"}}'.encode()
_OTHER_ENDS = tuple(f'"type":"{end.TYPE}"}}'.encode() for end in (RoundFailed, RoundCancelled))


@dataclass(slots=True)
class EventListener:
    """Reads every event and remembers when the steps of each workflow ended."""

    follower: Follower
    ended: dict[str, "asyncio.Future[None]"] = field(default_factory=dict)
    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def run(self) -> None:
        while True:
            polled = await self.follower.poll(POLL_TIMEOUT)
            now = time.perf_counter()
            for record in polled.records:
                self._take(record, now)

    def _take(self, record: Record, now: float) -> None:
        value, workflow = record.value or b"", (record.key or b"").decode()
        if value.endswith(_STEP_END):
            self.steps[workflow].append(now)
        elif value.endswith(_COMPLETED) and workflow in self.ended and not self.ended[workflow].done():
            self.ended[workflow].set_result(None)
        elif value.endswith(_OTHER_ENDS):
            raise Refused(f"A workflow of the measurement did not complete: {value.decode(errors='replace')[:1_000]}")


@dataclass(frozen=True, slots=True)
class WorkflowRunner:
    """Requests workflows of a given number of steps and waits for them to end."""

    connections: Connections
    listener: EventListener
    on_iterations: Callable[[int], None] = lambda _: None
    """Called with the number of new iterations whenever a workflow has ended."""

    async def run(self, steps: int) -> str:
        """Run one workflow from its request to its end and return its id."""
        request = RequestWorkflow(prompt=filled("Name every repair. ", 200), max_steps=steps)
        request_id = uuid4().hex
        sent = await send(self.connections.log, request, source=BENCH_SOURCE, request_id=request_id, start=0)
        self.listener.ended.setdefault(sent.workflow_id, asyncio.get_running_loop().create_future())
        await self.listener.ended[sent.workflow_id]
        done = len(self.listener.steps[sent.workflow_id])
        if done != steps:
            raise Refused(f"A workflow of the measurement made {done} steps, where {steps} were to be measured.")
        self.on_iterations(steps)
        return sent.workflow_id

    async def run_many(self, count: int, steps: int, *, at_once: int) -> None:
        numbers = iter(range(count))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, count)):
                group.create_task(self._run_some(numbers, steps))

    async def _run_some(self, numbers: Iterator[int], steps: int) -> None:
        for _ in numbers:
            await self.run(steps)

    async def projected(self) -> None:
        """Wait until the rows hold everything that is in the log now."""
        ends = await self.connections.log.ends(EVENTS_TOPIC)

        async def reached() -> bool:
            positions = await bootstrap.positions(self.connections.pool)
            return all(positions.get(partition, 0) >= end for partition, end in ends.items())

        await until(reached, POSITION_PERIOD)


@asynccontextmanager
async def workflow_runner(
    connections: Connections, on_iterations: Callable[[int], None] = lambda _: None
) -> AsyncGenerator[WorkflowRunner, None]:
    """Open a runner whose listener reads all events from now on, while the block lasts."""
    async with connections.log.follow(EVENTS_TOPIC, f"poweron.bench-{uuid4().hex}") as follower:
        await _seek_to_the_end(connections, follower)
        listener = EventListener(follower)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(listener.run())
            yield WorkflowRunner(connections, listener, on_iterations)
            listening.cancel()


async def _seek_to_the_end(connections: Connections, follower: Follower) -> None:
    ends, assigned = await connections.log.ends(EVENTS_TOPIC), set[int]()
    while assigned != set(ends):
        assigned |= (await follower.poll(POLL_TIMEOUT)).assigned
    for partition, end in ends.items():
        await follower.seek(partition, end)


@dataclass(frozen=True, slots=True)
class Throughput:
    """The result of running many workflows at once; seconds are counted from the first request."""

    iterations: int
    ended: float  # seconds until the last round had ended
    projected: float  # seconds until the rows of all of them were in Postgres
    cpu: Mapping[str, float]  # seconds, by process
    disk: Mapping[str, int]  # bytes, by server

    @property
    def cpu_per_iteration(self) -> float:
        """CPU seconds per iteration, of all processes together."""
        return sum(self.cpu.values()) / self.iterations

    @property
    def bytes_per_iteration(self) -> float:
        """Bytes per iteration, of Kafka, Postgres and the content store together."""
        return sum(self.disk.values()) / self.iterations


async def throughput(
    runner: WorkflowRunner, meter: CpuMeter, *, workflows: int, steps: int, at_once: int
) -> Throughput:
    """Run many workflows at once and measure them."""
    async with asyncio.timeout(DEADLINE):
        disk = await occupied(runner.connections)
        before, began = meter.read(), time.perf_counter()
        await runner.run_many(workflows, steps, at_once=at_once)
        ended = time.perf_counter() - began
        await runner.projected()
        projected = time.perf_counter() - began
    cpu = _grown(before, meter.read())
    return Throughput(workflows * steps, ended, projected, cpu, _grown(disk, await occupied(runner.connections)))


def _grown(before: Mapping[str, Amount], after: Mapping[str, Amount]) -> dict[str, Amount]:
    return {name: after[name] - amount for name, amount in before.items()}


async def latencies(runner: WorkflowRunner, *, workflows: int, steps: int) -> list[float]:
    """Run one workflow at a time and return the ms from the end of each step to the end of the next."""
    found: list[float] = []
    async with asyncio.timeout(DEADLINE):
        for _ in range(workflows):
            ends = runner.listener.steps[await runner.run(steps)]
            found += [1_000 * (end - begin) for begin, end in pairwise(ends)]
    return found


async def warm_up(runner: WorkflowRunner, *, workflows: int, steps: int, at_once: int) -> None:
    """Wait until every process is up, and warm up the servers and interpreters."""
    async with asyncio.timeout(DEADLINE):
        await runner.run_many(workflows, steps, at_once=at_once)
        await runner.projected()


async def occupied(connections: Connections) -> dict[str, int]:
    """Return the bytes that the log, including its consumer offsets, the database and the content store take up."""
    async with acquire(connections.pool) as connection:
        rows: int = await connection.fetchval(_SIZE)
    data, contents = Folders.of(connections.settings.home).kafka / "data", Path(connections.settings.content_place)
    return {
        "Kafka": await asyncio.to_thread(_segments, data),
        "Postgres": rows,
        "contents": await asyncio.to_thread(_blocks, contents),
    }


def _blocks(folder: Path) -> int:
    """Return the bytes of the blocks that the files below a folder occupy."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _segments(data: Path) -> int:
    return sum(path.stat().st_size for topic in _TOPICS for path in data.glob(f"{topic}/*.log"))
