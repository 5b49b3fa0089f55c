"""A stand-in for Postgres: it knows the statements of the projections by their text, and runs none of them as SQL.

Transactions are real ones: repeatable read, all or nothing, the first to commit wins. It goes away, loses
the answer to a commit, is wiped, or a rebuild of any age takes its place.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

import orjson
from asyncpg import exceptions
from simulation.clock import VirtualLoop
from simulation.faults import Chance
from simulation.wire import SimulatedLog

from poweron_events import topics
from poweron_projections import bootstrap, day_totals, offsets, reader, request_answers, rows, workflow_lifetimes
from poweron_projections.audit import ledger_rows
from poweron_projections.connection import acquire
from poweron_projections.instance_rows import INSTANCES
from poweron_projections.messages import MESSAGES
from poweron_projections.offsets import OFFSETS
from poweron_projections.policies import POLICIES
from poweron_projections.records import RECORDS
from poweron_projections.requests import DEAD_LETTERS, REQUESTS
from poweron_projections.steps import STEPS
from poweron_projections.table_spec import Row, Table
from poweron_projections.tables import ALL, PROJECTED
from poweron_projections.tasks import TASKS
from poweron_projections.usage import USAGE
from poweron_projections.workflows import ROUNDS, WORKFLOWS

EVENTS = topics.EVENTS.name
Found = dict[str, Any]
Kept = Mapping[str, Mapping[object, Row]]
"""Rows by table and key. Never changed in place: what a transaction has seen stays as it was."""

EMPTY: Kept = {table.name: {} for table in ALL}


@dataclass
class Postgres:
    """One database, reached by many processes."""

    loop: VirtualLoop
    chance: Chance
    kept: Kept | None = None  # None: there are no tables
    away: bool = False
    age: int = 0  # grows whenever everything is replaced
    conflicts: int = 0

    async def migrate(self, pool: Any) -> bool:
        """What `migrations.migrate` does: make the tables if there are none."""
        async with acquire(pool):
            if self.kept is None:
                self.kept = EMPTY
        return True

    def come_back(self) -> None:
        self.away = False

    def replace(self, kept: Kept | None) -> None:
        """Another database takes the place of this one."""
        self.kept = kept
        self.age += 1

    def table(self, table: Table) -> Iterable[Row]:
        return (self.kept or EMPTY)[table.name].values()

    def offset(self, partition: int) -> int:
        found = (self.kept or EMPTY)[OFFSETS.name].get((EVENTS, partition))
        return found[2] if found else 0


@dataclass
class SimulatedPool:
    """The way of one process to Postgres."""

    postgres: Postgres
    dead: bool = False

    @asynccontextmanager
    async def acquire(self, timeout: float | None = None) -> AsyncGenerator["SimulatedConnection", None]:
        await self.reach()
        yield SimulatedConnection(self)

    async def reach(self) -> None:
        """Take a while; fail while Postgres is away; never come back to the dead."""
        chance = self.postgres.chance
        await asyncio.sleep(chance.between(0, 0.004) if chance.often(0.1) else 0)
        if self.dead:
            await self.postgres.loop.create_future()
        if self.postgres.away:
            raise ConnectionRefusedError("Postgres is away")


class SimulatedConnection:
    """A connection, and the transaction that it is in."""

    def __init__(self, pool: SimulatedPool) -> None:
        self._pool, self._postgres = pool, pool.postgres
        self._seen: Kept | None = None
        self._age = pool.postgres.age
        self._in_transaction = self._repeats = False
        self._written: dict[str, dict[object, Row]] = {}

    @asynccontextmanager
    async def transaction(
        self, *, isolation: str = "read_committed", readonly: bool = False
    ) -> AsyncGenerator[None, None]:
        self._in_transaction = True
        self._repeats = isolation == "repeatable_read"  # else each statement counts at once: nobody needs more
        yield
        await self._pool.reach()
        if self._written:
            self._commit()

    def terminate(self) -> None:
        """Do nothing: each transaction is over at the end of its block, whatever befalls it."""

    def _commit(self) -> None:
        postgres = self._postgres
        if postgres.age != self._age:
            raise exceptions.AdminShutdownError("another database has taken this one's place")
        assert self._seen is not None
        assert postgres.kept is not None
        moved = self._written.get(OFFSETS.name, {})
        seen, now = self._seen[OFFSETS.name], postgres.kept[OFFSETS.name]
        if any(seen.get(key) != now.get(key) for key in moved):
            postgres.conflicts += 1
            raise exceptions.SerializationError("could not serialize access due to concurrent update")
        postgres.kept = _with(postgres.kept, self._written)
        if postgres.chance.strikes("commit answer lost", 0.03):
            raise ConnectionResetError("committed, but nobody knows")

    async def _tables(self) -> Kept:
        await self._pool.reach()
        now, postgres = self._postgres.kept, self._postgres
        if now is None:
            raise exceptions.UndefinedTableError("no such table")
        if not self._in_transaction:
            return now
        if self._seen is None:
            self._seen, self._age = now, postgres.age
        if not self._repeats:
            self._seen = now
        if self._age != postgres.age:
            raise exceptions.AdminShutdownError("another database has taken this one's place")  # or that waits
        return _with(self._seen, self._written) if self._written else self._seen

    async def fetch(self, query: str, *arguments: Any) -> list[Found]:
        return _QUERIES[query](await self._tables(), *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> Found | None:
        found = await self.fetch(query, *arguments)
        return found[0] if found else None

    async def cursor(self, query: str, *arguments: Any, prefetch: int) -> AsyncGenerator[Found, None]:
        for found in await self.fetch(query, *arguments):
            yield found

    async def execute(self, statement: str, *arguments: Any) -> str:
        if "LOCK TABLE" in statement:
            await self._pool.reach()  # settles nothing that is seen
            return "LOCK TABLE"
        tables = await self._tables()
        if statement == offsets._MOVE:
            return self._move(tables, *arguments)
        table = _UPSERTS[statement]
        kept = tables[table.name]
        given = {table.key_of(row): row for row in _told(table, *arguments)}
        if table.keeps == "first":
            given = {key: row for key, row in given.items() if key not in kept}
        self._write(table, given)
        return f"INSERT 0 {len(given)}"

    def _move(self, tables: Kept, topic: str, *moves: Sequence[int]) -> str:
        moved = {
            (topic, partition): offsets.OffsetRow(topic, partition, after)
            for partition, before, after in zip(*moves, strict=True)
            if tables[OFFSETS.name].get((topic, partition)) == (topic, partition, before)
        }
        self._write(OFFSETS, moved)
        return f"UPDATE {len(moved)}"

    async def copy_records_to_table(self, name: str, *, records: Iterable[Row], columns: Sequence[str]) -> str:
        table = next(table for table in PROJECTED if table.name == name)
        assert tuple(columns) == table.columns
        tables = await self._tables()
        given = {table.key_of(row): table.row(*row) for row in records}
        if tables[name].keys() & given.keys():
            raise exceptions.UniqueViolationError(f"doubled rows in {name}")
        self._write(table, given)
        return f"COPY {len(given)}"

    def _write(self, table: Table, given: dict[object, Row]) -> None:
        if self._repeats:
            self._written.setdefault(table.name, {}).update(given)
        else:
            assert self._postgres.kept is not None
            self._postgres.kept = _with(self._postgres.kept, {table.name: given})


def _with(kept: Kept, written: Mapping[str, Mapping[object, Row]]) -> Kept:
    return {**kept, **{name: {**kept[name], **given} for name, given in written.items()}}


def rebuilt(log: SimulatedLog, stops: Mapping[int, int]) -> Kept:
    """What the projections make of the log up to these offsets, from nothing and at once."""
    pool = _InstantPool()
    projected = rows.Rows(None)
    records = [log.record(partition, offset) for partition, stop in stops.items() for offset in range(stop)]
    _at_once(projected.load(SimulatedConnection(pool), EVENTS, list(stops)))
    _at_once(projected.write(SimulatedConnection(pool), EVENTS, records))
    assert pool.postgres.kept is not None
    return pool.postgres.kept


class _InstantPool:
    """A way to an empty database of one's own, without waiting."""

    def __init__(self) -> None:
        chance = Chance(0)
        chance.calm = True
        self.postgres = Postgres(VirtualLoop(chance.random), chance, EMPTY)

    async def reach(self) -> None:
        pass


def _at_once(work: Coroutine[Any, Any, object]) -> None:
    with suppress(StopIteration):
        while True:
            work.send(None)


# --- the statements, by their text -----------------------------------------------------------------------


def _told(table: Table, given: str) -> list[Row]:
    """The rows that `table.given` has written."""
    told = [
        one | {name: bytes.fromhex(one[name].removeprefix("\\x")) for name in _raw(table.row) if one[name] is not None}
        for one in orjson.loads(given)
    ]
    return [table.row(**one) for one in told]


@cache
def _raw(row: type[Row]) -> list[str]:
    """The columns of bytes."""
    return [name for name, hint in get_type_hints(row).items() if bytes in (hint, *get_args(hint))]


def _found(table: Table, row: Row) -> Found:
    pairs = zip(table.columns, row, strict=True)
    return {
        name: orjson.loads(value) if name in table.json_columns and value is not None else value
        for name, value in pairs
    }


def _stub(tables: Kept, row: Row) -> Found:
    found = _found(WORKFLOWS, row)
    of_workflow = [one for one in tables[ROUNDS.name].values() if one.workflow_id == row.workflow_id]
    return {**found, "openings": [one.opening_offset for one in sorted(of_workflow, key=lambda one: one.round)]}


def _stubs_by_id(tables: Kept, ids: Sequence[str]) -> list[Found]:
    return [_stub(tables, row) for row in tables[WORKFLOWS.name].values() if row.workflow_id in ids]


def _stubs_of_open(tables: Kept, partitions: Sequence[int]) -> list[Found]:
    kept = tables[WORKFLOWS.name].values()
    return [_stub(tables, row) for row in kept if row.is_open and row.partition in partitions]


def _count_open(tables: Kept, most: int) -> list[Found]:
    kept = tables[WORKFLOWS.name].values()
    waits = [row.phase == "approve" or row.paused_ms is not None or row.budget_question is not None for row in kept]
    counted = sum(row.is_open and not waiting for row, waiting in zip(kept, waits, strict=True))
    return [{"open": min(most, counted)}]


def _open_round(tables: Kept, workflow_id: str) -> list[Found]:
    row = tables[WORKFLOWS.name].get(workflow_id)
    if row is None or not row.is_open:
        return []
    closing = row.phase in ("closing", "draining")
    actor = None if row.pause_actor is None else orjson.loads(row.pause_actor)
    return [
        {
            "closing": closing,
            "paused": row.paused_ms is not None,
            "actor": actor,
            "question": row.budget_question,
            "question_code": row.budget_code,
            "question_due_ms": row.budget_due_ms,
            "budget_terms": None if row.budget_terms is None else orjson.loads(row.budget_terms),
            "policy_number": tables[ROUNDS.name][workflow_id, row.round].policy_number,
        }
    ]


def _no_rows(_: Kept, *__: object) -> list[Found]:
    """What no process of the simulation writes: rows of the ledger, and retentions."""
    return []


def _open_rounds(tables: Kept, ids: Sequence[str]) -> list[Found]:
    opening = {
        id_: round_.opening_seq
        for id_ in ids
        for row in [tables[WORKFLOWS.name][id_]]
        for round_ in [tables[ROUNDS.name][id_, row.round]]
    }
    kept = [row for row in tables[RECORDS.name].values() if row.workflow_id in opening]
    since = [row for row in kept if row.seq >= opening[row.workflow_id]]
    since.sort(key=lambda row: (row.workflow_id, row.seq))
    return [{**row._asdict(), "opening_seq": opening[row.workflow_id]} for row in since]


def _answer(tables: Kept, source: str, request_id: str) -> list[Found]:
    kept = [row for row in tables[REQUESTS.name].values() if (row.source, row.id) == (source, request_id)]
    kept.sort(key=lambda row: (row.answer != "accepted", row.workflow_id, row.seq))
    return [
        {name: getattr(row, name) for name in ("answer", "workflow_id", "seq", "round", "reason", "code", "detail")}
        for row in kept[:1]
    ]


def _approval(tables: Kept, workflow_id: str, *place: int) -> list[Found]:
    step, workflow = tables[STEPS.name].get((workflow_id, *place)), tables[WORKFLOWS.name].get(workflow_id)
    if step is None or workflow is None or step.approval is None:
        return []
    waits = workflow.phase == "approve" and (workflow.round, workflow.task, workflow.attempt, workflow.step) == place
    return [
        {
            "state": step.approval,
            "parameters_sha256": step.approval_sha256,
            "due_ms": step.approval_due_ms,
            "by": step.approval_by,
            "terms": orjson.loads(step.approval_terms or "{}"),
            "action": step.action,
            "parameters": orjson.loads(step.parameters or "{}"),
            "waits": waits,
            "paused": workflow.paused_ms is not None,
        }
    ]


def _policy_after(tables: Kept, topic: str, partition: int, number: int) -> list[Found]:
    offset = tables[OFFSETS.name].get((topic, partition))
    if offset is None:
        return []
    newest = max(tables[POLICIES.name].values(), key=lambda row: row.number, default=None)
    if newest is None or newest.number <= number:
        return [{"next_offset": offset.next_offset, "number": None}]
    policy = orjson.loads(newest.policy)
    return [{"next_offset": offset.next_offset, "number": newest.number, "sha256": newest.sha256, "policy": policy}]


def _actor_and_source(row: Any) -> tuple[str | None, str]:
    return (None if row.actor is None else orjson.loads(row.actor)["id"]), row.request_source


def _used_today(tables: Kept, since_ms: int) -> list[Found]:
    totals: dict[tuple[str | None, str], list[int]] = {}
    for row in tables[USAGE.name].values():
        if row.time_ms >= since_ms:
            who = _actor_and_source(tables[ROUNDS.name][row.workflow_id, row.round])
            _add(totals.setdefault(who, [0, 0, 0]), row)
    names = ("actor", "source", "input_tokens", "output_tokens", "cost_nano_usd")
    return [dict(zip(names, (*who, *total), strict=True)) for who, total in totals.items()]


def _add(total: list[int], row: Any) -> None:
    for place, amount in enumerate((row.input_tokens, row.output_tokens, row.cost_nano_usd)):
        total[place] += amount


def _started_today(tables: Kept, since_ms: int) -> list[Found]:
    opened = [
        row
        for row in tables[ROUNDS.name].values()
        if row.opened_ms >= since_ms and not (row.status == "cancelled" and not row.steps)
    ]
    return _counted(map(_actor_and_source, opened), "starts")


def _running(tables: Kept) -> list[Found]:
    running = [
        tables[ROUNDS.name][row.workflow_id, row.round]
        for row in tables[WORKFLOWS.name].values()
        if row.is_open and row.phase != "approve" and row.paused_ms is None and row.budget_question is None
    ]
    return _counted(map(_actor_and_source, running), "open")


def _counted(who: Iterable[tuple[str | None, str]], name: str) -> list[Found]:
    return [{"actor": actor, "source": source, name: count} for (actor, source), count in Counter(who).items()]


def _rounds_used(tables: Kept, ids: Sequence[str], numbers: Sequence[int]) -> list[Found]:
    asked, totals = set(zip(ids, numbers, strict=True)), dict[tuple[str, int], list[int]]()
    for row in tables[USAGE.name].values():
        if (row.workflow_id, row.round) in asked and row.verdict == "accepted":
            _add(totals.setdefault((row.workflow_id, row.round), [0, 0, 0]), row)
    names = ("workflow_id", "round", "input_tokens", "output_tokens", "cost_nano_usd")
    return [dict(zip(names, (*key, *total), strict=True)) for key, total in totals.items()]


def _answered(tables: Kept, sources: Sequence[str], ids: Sequence[str]) -> list[Found]:
    asked = set(zip(sources, ids, strict=True))
    found = {(row.source, row.id) for row in tables[REQUESTS.name].values()} & asked
    return [{"source": source, "id": id_} for source, id_ in sorted(found)]


def _newest_policy(tables: Kept) -> list[Found]:
    newest = max(tables[POLICIES.name].values(), key=lambda row: row.number, default=None)
    return [] if newest is None else [_found(POLICIES, newest)]


def _instances(tables: Kept, ids: Sequence[str]) -> list[Found]:
    return [_found(INSTANCES, row) for row in tables[INSTANCES.name].values() if row.workflow_id in ids]


def _one(tables: Kept, workflow_id: str) -> list[Found]:
    row = tables[WORKFLOWS.name].get(workflow_id)
    if row is None:
        return []
    unasked = dict.fromkeys(("prompt", "mode", "max_steps", "message"))
    nothing = dict.fromkeys(("current_action", "steps", "tokens", "cost_nano_usd"), 0)
    return [{**_found(WORKFLOWS, row), **unasked, **nothing}]


def _opening(tables: Kept, workflow_id: str) -> list[Found]:
    of_workflow = [row for row in tables[ROUNDS.name].values() if row.workflow_id == workflow_id]
    of_workflow.sort(key=lambda row: -row.round)
    opening = [(row.workflow_id, row.opening_seq) for row in of_workflow[:1]]
    return [
        {"compressed": row.compressed} for row in tables[RECORDS.name].values() if (row.workflow_id, row.seq) in opening
    ]


def _spent(tables: Kept, workflow_id: str) -> list[Found]:
    rounds = [row for row in tables[ROUNDS.name].values() if row.workflow_id == workflow_id]
    tasks = [row for row in tables[TASKS.name].values() if row.workflow_id == workflow_id]
    names = ("steps", "input_tokens", "output_tokens", "cost_nano_usd")
    used = {name: sum(getattr(row, name) for row in rounds) for name in names}
    ended = sum(row.ended_ms is not None for row in rounds)
    return [{**used, "ended": ended, "retries": sum(row.retries for row in tasks)}]


def _history(tables: Kept, workflow_id: str, before: int, limit: int) -> list[Found]:
    kept = [row for row in tables[MESSAGES.name].values() if row.workflow_id == workflow_id and row.seq < before]
    kept.sort(key=lambda row: -row.seq)
    return [_found(MESSAGES, row) for row in kept[:limit]]


def _known_dead_letters(tables: Kept, topic: str, *places: Sequence[int]) -> list[tuple[int, int]]:
    kept = {(row.partition, row.log_offset) for row in tables[DEAD_LETTERS.name].values() if row.topic == topic}
    return [place for place in zip(*places, strict=True) if place in kept]


def _offsets(tables: Kept, topic: str) -> list[Found]:
    return [row._asdict() for row in tables[OFFSETS.name].values() if row.topic == topic]


_QUERIES: Mapping[str, Callable[..., list[Any]]] = {
    offsets._READ: _offsets,
    rows._KNOWN_DEAD_LETTERS: _known_dead_letters,
    bootstrap._STUBS_BY_ID: _stubs_by_id,
    bootstrap._STUBS_OF_OPEN: _stubs_of_open,
    bootstrap._OPEN_ROUNDS: _open_rounds,
    ledger_rows._POSITIONS: _no_rows,
    workflow_lifetimes._ACCEPTED: _no_rows,
    request_answers._ANSWER: _answer,
    request_answers._COUNT_OPEN: _count_open,
    request_answers._APPROVAL: _approval,
    request_answers._OPEN_ROUND: _open_round,
    request_answers._POLICY_AFTER: _policy_after,
    bootstrap._NEWEST_POLICY: _newest_policy,
    day_totals._USED: _used_today,
    day_totals._STARTED: _started_today,
    day_totals._OPEN: _running,
    day_totals._ROUNDS: _rounds_used,
    day_totals._ANSWERED: _answered,
    bootstrap._INSTANCES: _instances,
    reader._ONE: _one,
    reader._HISTORY: _history,
    reader._OPENING: _opening,
    reader._SPENT: _spent,
}
_UPSERTS: Mapping[str, Table] = {table.upsert: table for table in ALL if table.keeps != "all"}
