"""The speed of rebuilding rows from a long log, compared with a bare COPY of the same bytes, and of folding the log.

The log repeats one real workflow under many ids, interleaving as many of them as usually run at once.
"""

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from poweron_events import topics
from poweron_events.codec import decode, encode, read_record, sha256
from poweron_events.envelope import Cause, Envelope, event_id
from poweron_events.errors import Refused
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Message, Record
from poweron_events.log.kafka import connect as connect_kafka
from poweron_events.request import RequestIdentity, WorkflowRequested, workflow_id
from poweron_projections.connection import Pool, acquire
from poweron_projections.connection import connect as connect_postgres
from poweron_projections.fold_process import folders
from poweron_projections.folder import Folder
from poweron_projections.projection import View
from poweron_projections.rebuild import rebuild
from poweron_projections.shadow import BATCH
from poweron_services.experiments.bench.loop_speed import BENCH_SOURCE, EVENTS_TOPIC, WorkflowRunner
from poweron_services.experiments.sandbox.servers import Sandbox

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
