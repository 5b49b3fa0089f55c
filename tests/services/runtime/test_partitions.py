"""What a process holds of the log, while partitions come and go and Postgres is away."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager

import pytest
from doubles import EVENTS, FoldedPostgres, soon
from structlog.testing import capture_logs

from builders import Told, follow_up, requested, typical
from poweron_events import retry
from poweron_events.codec import KnownRecord, decode, sha256
from poweron_events.fold.state import Workflow
from poweron_events.log import Polled
from poweron_events.log.memory import MemoryFollower, MemoryLog
from poweron_services.background_tasks import BackgroundTasks
from poweron_services.runtime import partitions
from poweron_services.runtime.partitions import HeldPartitions, PartitionFact, PartitionFacts, ReleasedWorkflows
from poweron_services.runtime.stop_requests import StopRequests

ALL = frozenset(range(12))


class SlowPostgres(FoldedPostgres):
    """Answers only once its gate is open; fails as often as it is told to."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: list[Exception] = []
        self.asked = 0

    async def _reach(self) -> None:
        self.asked += 1
        if self.failures:
            raise self.failures.pop()
        await self.gate.wait()
        await super()._reach()


class Held:
    """Held partitions at work on a log in memory."""

    def __init__(self, log: MemoryLog, follower: MemoryFollower) -> None:
        self.log, self.follower, self.tasks = log, follower, BackgroundTasks()
        self.gone: set[str] = set()
        self.postgres = SlowPostgres(log)
        self.written: dict[bytes | None, KnownRecord] = {}
        self.partitions_held = HeldPartitions(
            log, self.postgres, follower, written=self.written, stops=StopRequests(log)
        )

    async def poll(self) -> Polled:
        polled = await self.follower.poll(0.01)
        self.take_note(self.partitions_held.revoke(polled.revoked))
        if polled.assigned:
            self.tasks.spawn(self.take_notes(self.partitions_held.assign(polled.assigned)))
        self.take_note(self.partitions_held.take(polled.records))
        return polled

    def take_note(self, facts: Iterable[PartitionFact]) -> None:
        self.gone.update(id_ for fact in facts if isinstance(fact, ReleasedWorkflows) for id_ in fact.workflow_ids)
        for look_up in self.partitions_held.look_ups():
            self.tasks.spawn(self.take_notes(look_up))

    async def take_notes(self, facts: PartitionFacts) -> None:
        async for some in facts:
            self.take_note(some)

    async def loaded(self) -> None:
        while self.partitions_held.partitions.keys() != ALL:
            await self.poll()

    @property
    def workflows(self) -> Mapping[str, Workflow]:
        return {
            id_: held for one in self.partitions_held.partitions.values() for id_, held in one.fold.workflows.items()
        }

    async def until(self, id_: str, phase: str) -> None:
        async with asyncio.timeout(10):
            while id_ not in self.workflows or self.workflows[id_].phase != phase:
                await self.poll()


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Held, None]:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.001)
    async with _held(MemoryLog()) as one:
        yield one


@asynccontextmanager
async def _held(log: MemoryLog) -> AsyncGenerator[Held, None]:
    with capture_logs():
        async with log.follow(EVENTS, "g") as follower:
            one = Held(log, follower)
            yield one
            await one.tasks.cancel(1)


@pytest.mark.req("E-07")
async def test_a_partition_that_is_revoked_while_it_is_loaded_is_not_held(held: Held) -> None:
    held.postgres.gate.clear()
    await held.poll()
    await soon(lambda: held.postgres.asked == 1)
    held.follower.assign(frozenset({0}))
    await held.poll()
    held.postgres.gate.set()
    await soon(lambda: bool(held.partitions_held.partitions))
    assert held.partitions_held.partitions.keys() == {0}


@pytest.mark.req("E-07")
async def test_a_partition_that_is_given_back_while_it_is_loaded_starts_from_the_later_load(held: Held) -> None:
    held.postgres.gate.clear()
    await held.poll()
    await soon(lambda: held.postgres.asked == 1)
    held.follower.assign(frozenset())
    held.follower.assign(ALL)
    await held.poll()
    held.postgres.gate.set()
    await held.loaded()
    assert held.postgres.asked == 2
    assert len({partition.end_at_assignment for partition in held.partitions_held.partitions.values()}) == 1


async def test_nothing_is_loaded_for_a_process_that_is_going(held: Held) -> None:
    held.postgres.gate.clear()
    await held.poll()
    await soon(lambda: held.postgres.asked == 1)
    held.partitions_held.lose_all()
    held.postgres.gate.set()
    await held.tasks.cancel(1)
    assert held.partitions_held.partitions == {}


@pytest.mark.req("E-07")
@pytest.mark.parametrize("error", [RuntimeError("a bug"), OSError("gone")])
async def test_an_assignment_that_fails_unforeseen_is_tried_again(held: Held, error: Exception) -> None:
    held.postgres.failures = [error]
    await held.loaded()


@pytest.mark.req("E-07")
async def test_a_look_up_that_fails_unforeseen_is_tried_again(held: Held) -> None:
    await held.loaded()
    held.postgres.failures = [RuntimeError("a bug")]
    told = Told().tell(requested())
    await held.log.append(EVENTS, told.messages)
    await held.until(told.id, "plan")


@pytest.mark.req("E-07")
async def test_a_look_up_that_is_answered_after_the_loss_changes_nothing(held: Held) -> None:
    await held.loaded()
    held.postgres.gate.clear()
    told = Told().tell(requested())
    await held.log.append(EVENTS, told.messages)
    await held.poll()
    partition = held.partitions_held.partitions[held.log.partition_of(EVENTS, told.id.encode())]
    await soon(lambda: partition.looking_up)
    held.follower.assign(frozenset())
    await held.poll()
    held.postgres.gate.set()
    await soon(lambda: not partition.looking_up)
    assert partition.fold.workflows == {}


async def test_what_was_written_but_will_not_be_read_back_here_is_forgotten(held: Held) -> None:
    here, elsewhere = Told("1").tell(requested("1")), Told("2").tell(requested("2"))
    await held.loaded()
    values = [*here.values, *elsewhere.values]
    held.written |= {value: KnownRecord(decode(value), sha256(value)) for value in values}
    await held.log.append(EVENTS, here.messages)
    await held.until(here.id, "plan")
    assert list(held.written) == elsewhere.values
    held.follower.assign(frozenset())
    await held.poll()
    assert held.written == {}


@pytest.mark.req("E-07")
async def test_only_the_workflow_whose_opening_waits_stands_still(held: Held) -> None:
    first, second = Told("1").tell(requested("1")), Told("2")
    await held.loaded()
    await held.log.append(EVENTS, first.messages)
    await held.until(first.id, "plan")
    held.postgres.away = True
    second = typical("2")
    await held.log.append(EVENTS, second.messages)
    before = len(first.values)
    first = typical("1")
    await held.log.append(EVENTS, first.messages[before:])
    await held.until(first.id, "ended")
    assert second.id not in held.workflows
    held.postgres.away = False
    await held.until(second.id, "ended")


@pytest.mark.req("E-07")
async def test_a_look_up_waits_until_a_rebuilt_postgres_is_where_it_was(held: Held) -> None:
    told = typical()
    await held.log.append(EVENTS, told.messages)
    await held.loaded()
    held.postgres.lagging, held.postgres.projected, held.postgres.workflows = True, {}, {}
    told.tell(follow_up())
    await held.log.append(EVENTS, told.messages[-1:])
    await held.poll()
    await soon(lambda: held.postgres.asked > 4)
    assert told.id not in held.workflows
    held.postgres.lagging = False
    await held.until(told.id, "plan")
    assert len(held.workflows[told.id].openings) == 2


@pytest.mark.req("E-07")
async def test_an_ended_workflow_is_forgotten_only_when_the_projector_has_passed_it(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "TIDY_PERIOD", 0.001)
    await held.loaded()
    told = typical()
    await held.log.append(EVENTS, told.messages)
    await held.until(told.id, "ended")
    held.postgres.lagging, held.postgres.failures = True, [RuntimeError("a bug")]
    held.postgres.projected[held.log.partition_of(EVENTS, told.id.encode())] = 3
    held.tasks.spawn(held.take_notes(held.partitions_held.tidy()))
    asked = held.postgres.asked
    await soon(lambda: held.postgres.asked > asked + 3)
    assert told.id in held.workflows
    held.postgres.lagging = False
    await soon(lambda: told.id not in held.workflows)
    assert held.gone == {told.id}
