"""What the ledger costs beside the work, and how fast it is verified, exported and made into rows.

The costs are measured in turn, with a ledger and without one. Everything else is measured on a long log of its own,
which contains one workflow of many events, with its contents; for the export, rows are added until there are as many
as asked for.
"""

import asyncio
import gc
import sys
import time
import zipfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

import orjson
import psutil

from poweron_events import topics
from poweron_events.client import send
from poweron_events.errors import Refused
from poweron_events.log import EventLog, Message
from poweron_events.request import RequestRound
from poweron_events.task_cancellation import cancel_task
from poweron_projections import offsets, projector
from poweron_projections.audit.bundle import bundle_of
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.full_verification import verify_everything
from poweron_projections.audit.ledger import Ledger
from poweron_projections.audit.ledger_entry import Head, heads_entry
from poweron_projections.audit.ledger_heads import listed_heads
from poweron_projections.audit.ledger_role import SIGN_ENTRIES, begun_ledger
from poweron_projections.audit.ledger_rows import (
    CHECKPOINTS,
    ENTRIES,
    SUBTREES,
    LedgerCheckpointRow,
    LedgerEntryRow,
    LedgerSubtreeRow,
    ledger_positions,
)
from poweron_projections.audit.ledger_tree import STORED, loaded_tree
from poweron_projections.audit.merkle_tree import GrowingTree, leaf_hash
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519, ML_DSA_44_COSIGNATURE, SignedNote
from poweron_projections.audit.verifier.bundle_claims import Trust
from poweron_projections.audit.verify_script import verify_script
from poweron_projections.connection import Pool, acquire
from poweron_projections.connection import connect as connect_postgres
from poweron_projections.migrations import migrate
from poweron_projections.rebuild import rebuild
from poweron_projections.records import RECORDS
from poweron_projections.shadow import Shadow
from poweron_projections.verify import catch_up, first_difference
from poweron_services.embedded.folders import Folders
from poweron_services.experiments.bench.figures import percentile
from poweron_services.experiments.bench.instant import filled
from poweron_services.experiments.bench.loop_speed import (
    BENCH_SOURCE,
    DEADLINE,
    POSITION_PERIOD,
    LongLog,
    Throughput,
    WorkflowRunner,
    throughput,
)
from poweron_services.experiments.bench.processes import CpuMeter, running
from poweron_services.experiments.sandbox.servers import Sandbox, until

KEYS: Final = [SigningKey("localhost/poweron/bench", kind, bytes(32)) for kind in (ED25519, ML_DSA_44_COSIGNATURE)]
TOPICS: Final = (topics.LEDGER, topics.CHECKPOINTS)
ROUNDS: Final = (100, 100)  # steps of the rounds of the long workflow, six events each
REBUILT: Final = "rebuilt_ledger"
COPIED: Final = 5_000  # rows, from one checkpoint to the next
_RELATIONS: Final = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname LIKE 'ledger_%' AND relkind = 'r'"
)
_MADE_UP: Final = {
    "workflow_id": "md5(workflow_id::text || number)::uuid",
    "log_offset": "log_offset + number * 100000000::bigint",
}
_COPY_RECORDS: Final = f"""
INSERT INTO records ({", ".join(RECORDS.columns)})
SELECT {", ".join(_MADE_UP.get(column, column) for column in RECORDS.columns)}
  FROM (SELECT * FROM records LIMIT $2) AS template
 CROSS JOIN generate_series(1, $1::integer) AS number
"""  # noqa: S608 - names from our own tables


@dataclass(frozen=True, slots=True)
class LedgerTurn:
    """A run with the ledger or without it: its speed, and the CPU seconds of the projector's process until the end."""

    run: Throughput
    cpu: float

    @property
    def rate(self) -> float:
        return self.run.iterations / self.run.projected


@asynccontextmanager
async def projecting(sandbox: Sandbox, *roles: str) -> AsyncGenerator[Process, None]:
    """Run a process that plays the projector and these roles."""
    async with running(sandbox, "projector", "serve", "0", "projector", *roles) as process:
        yield process


async def cost_figures(
    sandbox: Sandbox, runner: WorkflowRunner, meter: CpuMeter, *, times: int, workflows: int, steps: int, at_once: int
) -> dict[str, float]:
    """Run the same work beside a projector, and beside one in whose process a ledger is kept, in turn."""
    without, beside = list[LedgerTurn](), list[LedgerTurn]()
    lags, grown = list[int](), list[int]()
    for _ in range(times):
        for roles, turns in (((), without), (("ledger",), beside)):
            async with projecting(sandbox, *roles) as process:
                await _entered(runner, ledger=turns is beside)
                first, size = (await runner.connections.log.ends(topics.LEDGER.name))[0], await _occupied(sandbox)
                together = CpuMeter({**meter.processes, "projector": psutil.Process(process.pid)})
                before = together.read()
                run = await throughput(runner, together, workflows=workflows, steps=steps, at_once=at_once)
                await _entered(runner, ledger=turns is beside)
                turns.append(LedgerTurn(run, together.read()["projector"] - before["projector"]))
                if turns is beside:
                    grown.append(await _occupied(sandbox) - size)
                    lags += await _lags(runner.connections.log, first)
    alone = median(each.cpu for each in without)
    return {
        "ledger_cpu_ratio": median(each.cpu for each in beside) / alone - 1,
        "ledger_iterations_ratio": median(each.rate for each in beside) / median(each.rate for each in without),
        "ledger_lag_p99_ms": percentile(lags, 99),
        "ledger_bytes_per_iteration": float(median(grown)) / (workflows * steps),
    }


async def _entered(runner: WorkflowRunner, *, ledger: bool) -> None:
    """Wait until the rows hold everything in the log, and, with a ledger, its entries."""
    log, pool = runner.connections.log, runner.connections.pool
    ends = await log.ends(topics.EVENTS.name)

    async def reached() -> bool:
        end = (await log.ends(topics.LEDGER.name))[0]
        async with acquire(pool) as connection:
            positions = await ledger_positions(connection)
            taken = (await offsets.read(connection, topics.LEDGER.name)).get(0, 0)
        return taken >= end and all(positions.get(partition, 0) >= stop for partition, stop in ends.items())

    async with asyncio.timeout(DEADLINE):
        await runner.projected()
        if ledger:
            await until(reached, POSITION_PERIOD)


async def _occupied(sandbox: Sandbox) -> int:
    """Return the bytes of the topics and of the tables of the ledger."""
    async with acquire(sandbox.connections.pool) as connection:
        rows: int = await connection.fetchval(_RELATIONS)
    data = Folders.of(sandbox.home).kafka / "data"
    files = [path for topic in TOPICS for path in data.glob(f"{topic.name}-*/*.log")]
    return rows + sum(path.stat().st_size for path in files)


async def _lags(log: EventLog, first: int) -> list[int]:
    """Return for each entry from this one on how many ms after its record the broker got it."""
    found = list[int]()
    async for records in log.read(topics.LEDGER.name, {0: first}, await log.ends(topics.LEDGER.name)):
        for record in records:
            entry = orjson.loads(record.value or b"")
            if entry["kind"] == "event":
                found.append(record.time_ms - entry["time"])
    return found


async def long_workflow(runner: WorkflowRunner, events: int) -> list[Message]:
    """Run a workflow of several rounds and return its first events."""
    workflow = await runner.run(ROUNDS[0])
    for number, steps in enumerate(ROUNDS[1:], 1):
        await runner.projected()
        runner.listener.ended[workflow] = asyncio.get_running_loop().create_future()
        prompt = filled("Name every repair again. ", 200)
        request = RequestRound(workflow_id=workflow, after_round=number, prompt=prompt, max_steps=steps)
        await send(runner.connections.log, request, source=BENCH_SOURCE, request_id=uuid4().hex)
        await runner.listener.ended[workflow]
    log, key = runner.connections.log, workflow.encode()
    partition = log.partition_of(topics.EVENTS.name, key)
    end = (await log.ends(topics.EVENTS.name))[partition]
    reads = log.read(topics.EVENTS.name, {partition: 0}, {partition: end})
    found = [record.value or b"" async for records in reads for record in records if record.key == key]
    return [Message(key, value) for value in found[:events]]


@dataclass(frozen=True, slots=True)
class EnteredLog:
    """A long log with its rows, entered in a ledger and signed; one workflow of it has many events."""

    log: EventLog
    pool: Pool
    sandbox: Sandbox
    workflow_id: str
    events: int


@asynccontextmanager
async def entered_log(sandbox: Sandbox, long: LongLog, workflow: Sequence[Message]) -> AsyncGenerator[EnteredLog, None]:
    """Append the workflow to the log, make its rows, and enter everything."""
    for start in range(0, len(workflow), SIGN_ENTRIES):
        await long.log.append(topics.EVENTS.name, workflow[start : start + SIGN_ENTRIES])
    await rebuild(long.log, long.pool)
    projecting = asyncio.create_task(projector.run(long.log, long.pool))
    try:
        ledger = await begun_ledger(long.log, long.pool, [KEYS], "bench")
        await _enter(ledger, await long.log.ends(topics.EVENTS.name))
    finally:
        await cancel_task(projecting)
    await catch_up(long.log, long.pool)
    yield EnteredLog(long.log, long.pool, sandbox, workflow[0].key.decode(), len(workflow))


async def _enter(ledger: Ledger, ends: Mapping[int, int]) -> None:
    async for records in ledger.log.read(topics.EVENTS.name, ledger.positions, ends):
        await ledger.enter(records)
        if ledger.tree.size - ledger.signed >= SIGN_ENTRIES:
            await ledger.sign(time.time_ns() // 1_000_000)
    await ledger.sign(time.time_ns() // 1_000_000)


async def entered_figures(
    entered: EnteredLog, *, times: int, rows: int, tell: Callable[[str], None]
) -> dict[str, float]:
    """Measure what is done with a long ledger."""
    rebuilt, verified, exported, bundles = list[float](), list[float](), list[float](), list[float]()
    for turn in range(times):
        tell(f"Making rows of the ledger, and verifying everything ({turn + 1} of {times})…")
        rebuilt.append(await rows_rate(entered))
        verified.append(await verify_ms(entered))
    tell(f"Adding rows up to {rows:,}…")
    await add_rows(entered, rows)
    path = entered.sandbox.home / "bundle.zip"
    for turn in range(times):
        tell(f"Exporting a bundle of {entered.events:,} events, and verifying it ({turn + 1} of {times})…")
        exported.append(await export_ms(entered, path))
        bundles.append(await bundle_rate(entered, path))
    return {
        "ledger_rebuild_entries_per_second": median(rebuilt),
        "audit_verify_ms": median(verified),
        "export_ms": median(exported),
        "bundle_events_per_second": median(bundles),
    }


async def rows_rate(entered: EnteredLog) -> float:
    """Return the entries per second when rows are made of the ledger from scratch."""
    ends = await entered.log.ends(topics.LEDGER.name)
    async with connect_postgres(entered.sandbox.postgres.dsn, schema=REBUILT) as pool:
        await migrate(pool)
        async with acquire(pool) as connection:
            began = time.perf_counter()
            await Shadow(entered.log, connection, tells=False).fill({topics.LEDGER.name: ends})
            took = time.perf_counter() - began
            await connection.execute(f"DROP SCHEMA {REBUILT} CASCADE")
    return ends[0] / took


async def verify_ms(entered: EnteredLog) -> float:
    """Return the ms for the verification of everything."""
    gc.freeze()  # like `poweron audit verify` itself; the data of the benchmark is not the verification's
    began = time.perf_counter()
    compare = partial(first_difference, entered.log, entered.pool)
    result = await verify_everything(entered.log, Trust(KEYS[0].public), compare)
    if not result.is_ok:
        raise Refused(f"The verification of the measurement failed: {[each for each in result.claims if each.detail]}")
    return 1_000 * (time.perf_counter() - began)


async def add_rows(entered: EnteredLog, rows: int) -> None:
    """Add records and entries of other workflows to the rows until there are this many, and sign them.

    Readers of the rows cannot tell the difference, apart from entries that do not follow from their records.
    """
    async with acquire(entered.pool) as connection:
        held = (await offsets.read(connection, topics.LEDGER.name))[0]
        await connection.execute(_COPY_RECORDS, rows // held, held)
        tree = await loaded_tree(connection, held)
        while tree.size < rows - SIGN_ENTRIES:
            await _add_entries(connection, tree, min(COPIED, rows - SIGN_ENTRIES - tree.size))
            await _sign(connection, tree, ())
        await _add_entries(connection, tree, SIGN_ENTRIES)
        await _sign(connection, tree, (await listed_heads(connection, tree.size)).all)
        await connection.execute("ANALYZE records, ledger_entries, ledger_subtrees")


async def _add_entries(connection: Any, tree: GrowingTree, count: int) -> None:
    entries, subtrees = list[LedgerEntryRow](), list[LedgerSubtreeRow]()
    for _ in range(count):
        leaf = sha256(str(tree.size).encode()).digest()
        entries.append(LedgerEntryRow(tree.size, leaf, "event", str(uuid4()), 0, None))
        subtrees += [LedgerSubtreeRow(*each) for each in tree.append(leaf) if each.level and each.level % STORED == 0]
    await connection.copy_records_to_table(ENTRIES.name, records=entries, columns=ENTRIES.columns)
    await connection.copy_records_to_table(SUBTREES.name, records=subtrees, columns=SUBTREES.columns)


async def _sign(connection: Any, tree: GrowingTree, heads: Sequence[Head]) -> None:
    now_ms = time.time_ns() // 1_000_000
    entry = heads_entry(heads, open_count=len(heads), size=tree.size, time_ms=now_ms)
    row = LedgerEntryRow(tree.size, leaf_hash(entry), "heads", None, None, entry)
    tree.append(leaf_hash(entry))
    await connection.copy_records_to_table(ENTRIES.name, records=[row], columns=ENTRIES.columns)
    text = str(Checkpoint(KEYS[0].name, tree.size, tree.root))
    note = str(SignedNote(text, [key.sign(text, now_ms // 1000) for key in KEYS]))
    signed = LedgerCheckpointRow(tree.size, tree.size, tree.root, now_ms, note)
    await connection.copy_records_to_table(CHECKPOINTS.name, records=[signed], columns=CHECKPOINTS.columns)


async def export_ms(entered: EnteredLog, path: Path) -> float:
    """Return the ms for the bundle of the long workflow, written as a zip."""
    began = time.perf_counter()
    content = entered.sandbox.connections.content
    files = await bundle_of(entered.pool, content, entered.workflow_id, [str(key.public) for key in KEYS])
    await asyncio.to_thread(_write_zip, path, files)
    return 1_000 * (time.perf_counter() - began)


def _write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


async def bundle_rate(entered: EnteredLog, path: Path) -> float:
    """Return the events per second that an auditor's script verifies, its start included."""
    script = path.with_name("verify.py")
    await asyncio.to_thread(script.write_text, verify_script())
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(script), "--key", str(KEYS[0].public), "--json", str(path)),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    took = time.perf_counter() - began
    if process.returncode:
        raise Refused(f"The bundle of the measurement is not verified: {printed.decode()[:1_000]}")
    return entered.events / took
