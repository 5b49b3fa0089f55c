"""The speed of PowerOn itself: of workflows, of rebuilding rows from a long log, and of folding that log.

Workflows are requested over Kafka, as by any client, and followed to their end. The long log repeats one real workflow
under many ids, interleaving as many of them as usually run at once; a rebuild is compared with a bare COPY of the same
bytes.
"""

import asyncio
import gc
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from poweron_events import topics
from poweron_events.client import send
from poweron_events.codec import decode, encode, read_record, sha256
from poweron_events.envelope import Cause, Envelope, event_id
from poweron_events.errors import Refused
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Follower, Message, Record
from poweron_events.log.kafka import connect as connect_kafka
from poweron_events.request import RequestIdentity, RequestWorkflow, WorkflowRequested, workflow_id
from poweron_events.round_events import RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.step_events import RefinementDecided
from poweron_projections import bootstrap
from poweron_projections.connection import Pool, acquire
from poweron_projections.connection import connect as connect_postgres
from poweron_projections.folder import Folder, folders
from poweron_projections.projection import View
from poweron_projections.rebuild import rebuild
from poweron_projections.shadow import BATCH
from poweron_services.client.connect import Connections
from poweron_services.embedded.folders import Folders
from poweron_services.experiments.bench.instant import filled
from poweron_services.experiments.bench.processes import CpuMeter
from poweron_services.experiments.sandbox.servers import Sandbox, until

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


NAME: Final = "rebuilt"  # of the schema, and the prefix of the topics
REPEATED_STEPS: Final = 6  # in the workflow that is repeated, which has 40 events
AT_ONCE: Final = 64

_PLAIN: Final = """
CREATE SCHEMA IF NOT EXISTS plain;
CREATE TABLE plain.copied (partition integer NOT NULL, log_offset bigint NOT NULL, key bytea, value bytea);
"""


@dataclass(frozen=True, slots=True)
class LongLog:
    """A long log, and an empty schema for its rows."""

    log: EventLog
    pool: Pool
    records: Sequence[Record]


@asynccontextmanager
async def long_log(sandbox: Sandbox, events: Sequence[Envelope], count: int) -> AsyncGenerator[LongLog, None]:
    """Write a separate log of this many events and read it back as Kafka stores it."""
    kafka = replace(sandbox.kafka_settings, prefix=f"{NAME}.")
    async with connect_kafka(kafka) as log, connect_postgres(sandbox.postgres.dsn, schema=NAME) as pool:
        for messages in _repeated(events, count):
            await log.append(EVENTS_TOPIC, messages)
        ends = await log.ends(EVENTS_TOPIC)
        records = [record async for some in log.read(EVENTS_TOPIC, {}, ends) for record in some]
        gc.freeze()  # so that garbage collection of the benchmark's own data does not slow down the measured code
        yield LongLog(log, pool, records)
        gc.unfreeze()


async def events_of_workflow(runner: WorkflowRunner) -> list[Envelope]:
    """Run a workflow and return its events."""
    log, workflow = runner.connections.log, await runner.run(REPEATED_STEPS)
    partition = log.partition_of(EVENTS_TOPIC, workflow.encode())
    end = (await log.ends(EVENTS_TOPIC))[partition]
    records = [record async for some in log.read(EVENTS_TOPIC, {partition: 0}, {partition: end}) for record in some]
    return [decode(record.value) for record in records if record.key == workflow.encode()]


def _repeated(events: Sequence[Envelope], count: int) -> Iterator[list[Message]]:
    """Repeat a workflow's events under other ids until there are this many, interleaving `AT_ONCE` workflows."""
    workflows = -(-count // len(events))
    for first in range(0, workflows, AT_ONCE):
        repeated = [with_request(events, str(number)) for number in range(first, min(first + AT_ONCE, workflows))]
        yield [message for messages in zip(*repeated, strict=True) for message in messages]


def with_request(events: Sequence[Envelope], request_id: str) -> list[Message]:
    """Return the events as those of another request, with each cause replaced by its counterpart."""
    identity = RequestIdentity(source=BENCH_SOURCE, id=request_id)
    name, causes, messages = workflow_id(BENCH_SOURCE, request_id), dict[str, Cause](), list[Message]()
    for envelope in events:
        event = envelope.event
        assert event is not None
        if isinstance(event, WorkflowRequested):
            event = event.model_copy(update={"request": identity})
        cause = causes[envelope.cause.id] if envelope.cause else None
        identifier = event_id(name, event)
        value = encode(envelope._replace(id=identifier, workflow_id=name, event=event, cause=cause))
        causes[envelope.id] = Cause(identifier, sha256(value))
        messages.append(Message(name.encode(), value))
    return messages


async def rebuild_rate(long: LongLog) -> float:
    """Return the events per second when rows are rebuilt from the log into a new schema."""
    async with acquire(long.pool) as connection:
        await connection.execute(f"DROP SCHEMA IF EXISTS {NAME} CASCADE")
    began = time.perf_counter()
    rebuilt = await rebuild(long.log, long.pool)
    took = time.perf_counter() - began
    if rebuilt.events != len(long.records):
        raise Refused(f"The rebuild made rows of {rebuilt.events} events, where there are {len(long.records)}.")
    return rebuilt.events / took


async def copy_rate(long: LongLog) -> float:
    """Return the events per second when records are copied unprocessed from memory into a table without indexes."""
    rows = [(record.partition, record.offset, record.key, record.value) for record in long.records]
    async with acquire(long.pool) as connection:
        await connection.execute(_PLAIN)
        began = time.perf_counter()
        for first in range(0, len(rows), BATCH):
            await connection.copy_records_to_table("copied", records=rows[first : first + BATCH], schema_name="plain")
        took = time.perf_counter() - began
        await connection.execute("DROP SCHEMA plain CASCADE")
    return len(rows) / took


async def fold_rate(long: LongLog) -> float:
    """Return the events per second when bytes are folded into rows in as many processes as `poweron verify` uses."""
    async with folders(len(long.records), topics.PARTITIONS) as chosen:
        shares: list[list[Record]] = [[] for _ in chosen]
        for record in long.records:
            shares[record.partition % len(chosen)].append(record)
        began = time.perf_counter()
        await asyncio.gather(*(_fold(*each) for each in zip(chosen, shares, strict=True)))
        return len(long.records) / (time.perf_counter() - began)


async def _fold(folder: Folder, records: Sequence[Record]) -> None:
    for first in range(0, len(records), BATCH):
        await folder.fold(records[first : first + BATCH], _never_seen)


async def _never_seen(_: Collection[str]) -> Mapping[str, View]:
    return {}


async def evolve_rate(long: LongLog) -> float:
    """Return the events per second that one process decodes and judges without making rows."""
    began = time.perf_counter()
    accepted = await asyncio.to_thread(_accepted, long.records)
    took = time.perf_counter() - began
    if accepted != len(long.records):
        raise Refused(f"Of {len(long.records)} events only {accepted} were accepted by the fold.")
    return accepted / took


def _accepted(records: Sequence[Record]) -> int:
    workflows: dict[str, Workflow] = {}
    accepted = 0
    for record in records:
        recorded = read_record(record)
        name = recorded.envelope.workflow_id
        workflows[name], verdict = evolve(workflows.get(name) or Workflow(name), recorded)
        accepted += verdict == "accepted"
    return accepted
