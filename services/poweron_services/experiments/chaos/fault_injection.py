"""The injection of faults into processes, servers and their data, and how each fault is undone."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from poweron_events import topics
from poweron_events.errors import Conflict, Unavailable
from poweron_events.log import Follower, Message
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.retry import Backoff, Failure, retry
from poweron_projections.connection import LIVE, acquire
from poweron_projections.rebuild import rebuild
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.postgres_server import Postgres
from poweron_services.experiments.chaos.evidence import RecordPosition
from poweron_services.experiments.chaos.faults import Fault, FaultKind, RecoveryMonitor
from poweron_services.experiments.chaos.load import LoadGenerator, cancellation, forged_opening
from poweron_services.experiments.chaos.role_processes import ROLE_SETS, RoleProcesses, thaw
from poweron_services.experiments.sandbox.servers import Sandbox, stopped
from poweron_services.wiring import ROLES, now_ms

SPACES: Final = 64_000_000  # bytes of a decompression bomb, before compression
MOST_IN_A_REQUEST: Final = 2**30  # bytes before compression, for the producer
log = structlog.get_logger()

PASSING: Final = (Unavailable, Conflict)  # the result of other faults
CANCELLED: Final = 10  # rounds to cancel at most while no process is serving
KILL_DEADLINE: Final = 10.0  # seconds until a killed server is gone
JOIN_DEADLINE: Final = 30.0  # seconds to join a consumer group
PROGRESS_DEADLINE: Final = 60.0  # seconds at most until the target of a fault is unlocked for others
PROGRESS_PERIOD: Final = 0.2  # seconds between two checks for progress
POLL_TIMEOUT: Final = 0.2  # seconds
LONGEST_PAUSE: Final = 0.2  # seconds before an operation that another fault has prevented is retried
PROCESS_NAMES: Final = tuple(ROLE_SETS)

_DROP: Final = f"DROP SCHEMA IF EXISTS {LIVE} CASCADE"


@dataclass(slots=True)
class FaultInjector:
    """Injects planned faults, locking the target of each against other faults.

    The lock is held until some workflow has made progress again. Otherwise, on a slow machine, a server would be killed
    as soon as it is back, and the run would only show that nothing works without it.
    """

    sandbox: Sandbox
    role_processes: RoleProcesses
    load: LoadGenerator
    monitor: RecoveryMonitor
    stopping: asyncio.Event
    unexpected: list[str] = field(default_factory=list)
    poison: list[bytes] = field(default_factory=list)
    """Records that cannot be decoded; each must become a dead letter."""
    bombs: set[RecordPosition] = field(default_factory=set)
    """The positions of the decompression bombs; each must become a dead letter."""
    forged: set[str] = field(default_factory=set)
    """The ids of the requests whose workflow was opened by a forged event; each must be refused."""
    cancelled: dict[tuple[str, int], int] = field(default_factory=dict)
    """When a cancellation was acknowledged while no process was serving, by workflow and round, in ms since 1970."""
    _kafka: asyncio.Lock = field(default_factory=asyncio.Lock)
    _postgres: asyncio.Lock = field(default_factory=asyncio.Lock)
    _processes: dict[str, asyncio.Lock] = field(
        default_factory=lambda: {name: asyncio.Lock() for name in PROCESS_NAMES}
    )

    async def run(self, faults: Sequence[Fault]) -> None:
        """Inject faults as planned until `stopping` is set; return when all are undone."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                if await stopped(self.stopping, max(0.0, began + fault.at - time.monotonic())):
                    return
                group.create_task(self._inject_unless_locked(fault))

    async def _inject_unless_locked(self, fault: Fault) -> None:
        locks = self._locks(fault)
        if any(lock.locked() for lock in locks):
            return
        async with AsyncExitStack() as stack:
            for lock in locks:
                await stack.enter_async_context(lock)
            self.monitor.fault_injected(fault.kind, now_ms())
            await self._inject(fault)
            if locks:
                await self._progress_since(now_ms())

    def _locks(self, fault: Fault) -> list[asyncio.Lock]:
        match fault.kind:
            case "process_killed" | "process_stopped" | "process_frozen":
                return [self._processes[_process_name(fault)]]
            case "projectors_killed":
                return [self._processes[name] for name in self.role_processes.playing("projector")]
            case "kafka_killed" | "kafka_frozen":
                return [self._kafka]
            case "postgres_killed" | "rows_lost" | "rows_rebuilt":
                return [self._postgres]
            case "cancelled_while_stopped" | "rebalance" | "second_projector" | "offsets_lost" | "records_poisoned":
                return []
            case "decompression_bombs" | "opening_forged" | "requests_flooded":
                return []

    async def _inject(self, fault: Fault) -> None:
        injections: Mapping[FaultKind, Callable[[Fault], Awaitable[None]]] = {
            "process_killed": self._process_killed,
            "process_stopped": self._process_stopped,
            "process_frozen": self._process_frozen,
            "projectors_killed": self._projectors_killed,
            "cancelled_while_stopped": self._cancelled_while_stopped,
            "rebalance": self._rebalance,
            "second_projector": self._second_projector,
            "kafka_killed": self._kafka_killed,
            "kafka_frozen": self._kafka_frozen,
            "postgres_killed": self._postgres_killed,
            "offsets_lost": self._offsets_lost,
            "rows_lost": self._rows_lost,
            "rows_rebuilt": self._rows_rebuilt,
            "records_poisoned": self._records_poisoned,
            "decompression_bombs": self._decompression_bombs,
            "opening_forged": self._opening_forged,
            "requests_flooded": self._requests_flooded,
        }
        await injections[fault.kind](fault)

    async def _progress_since(self, since_ms: int) -> None:
        """Wait for an event after this time, up to `PROGRESS_DEADLINE`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PROGRESS_DEADLINE):
                while self.monitor.latest_ms <= since_ms and not self.stopping.is_set():
                    await stopped(self.stopping, PROGRESS_PERIOD)

    async def _for_its_duration(self, fault: Fault) -> None:
        await stopped(self.stopping, fault.lasts)

    # --- role processes ---------------------------------------------------------------------------------

    async def _process_killed(self, fault: Fault) -> None:
        await self._killed(_process_name(fault), fault)

    async def _projectors_killed(self, fault: Fault) -> None:
        await asyncio.gather(*(self._killed(name, fault) for name in self.role_processes.playing("projector")))

    async def _killed(self, name: str, fault: Fault) -> None:
        await self.role_processes.kill(name)
        await self._for_its_duration(fault)
        await self.role_processes.start(name)

    async def _process_stopped(self, fault: Fault) -> None:
        name = _process_name(fault)
        await self.role_processes.stop(name)
        await self._for_its_duration(fault)
        await self.role_processes.start(name)

    async def _process_frozen(self, fault: Fault) -> None:
        frozen = self.role_processes.freeze(_process_name(fault))
        await self._for_its_duration(fault)
        thaw(frozen)

    async def _cancelled_while_stopped(self, fault: Fault) -> None:
        """Cancel some open rounds while no process is serving; none of them may have an effect afterwards."""
        async with self.role_processes.all_killed():
            await self._for_its_duration(fault)
            for workflow_id in sorted(self.monitor.open)[:CANCELLED]:
                round_ = self.monitor.workflows[workflow_id].current.number
                await self.load.send(cancellation(f"cancel-at-{fault.at:g}-{workflow_id}", workflow_id, round_))
                self.cancelled[workflow_id, round_] = now_ms()

    async def _rebalance(self, fault: Fault) -> None:
        await self._joined_by(fault, ROLES)

    async def _second_projector(self, fault: Fault) -> None:
        await self._joined_by(fault, ("projector",))

    async def _joined_by(self, fault: Fault, roles: Sequence[str]) -> None:
        name = f"temporary-{fault.at:g}"
        await self.role_processes.start(name, roles)
        await self._for_its_duration(fault)
        await self.role_processes.stop(name)

    # --- servers ----------------------------------------------------------------------------------------

    async def _kafka_killed(self, fault: Fault) -> None:
        await self._killed_and_started(self.sandbox.kafka, fault)

    async def _postgres_killed(self, fault: Fault) -> None:
        await self._killed_and_started(self.sandbox.postgres, fault)

    async def _killed_and_started(self, server: Kafka | Postgres, fault: Fault) -> None:
        running = await asyncio.to_thread(server.find)
        if running is not None:
            await running.stop(signal.SIGKILL, KILL_DEADLINE)
        await self._for_its_duration(fault)
        await server.start(lambda _: None)

    async def _kafka_frozen(self, fault: Fault) -> None:
        running = await asyncio.to_thread(self.sandbox.kafka.find)
        if running is None:
            return
        os.kill(running.pid, signal.SIGSTOP)
        try:
            await self._for_its_duration(fault)
        finally:
            os.kill(running.pid, signal.SIGCONT)

    # --- data -------------------------------------------------------------------------------------------

    async def _offsets_lost(self, _: Fault) -> None:
        """Join the intake group and commit offset 0 for the assigned partitions, as if no record were done."""
        async with self.sandbox.connections.log.follow(topics.REQUESTS.name, topics.INTAKE_GROUP) as follower:
            with suppress(TimeoutError):
                async with asyncio.timeout(JOIN_DEADLINE):
                    await _commit_the_beginning(follower)

    async def _rows_lost(self, _: Fault) -> None:
        await self._until_done(self._drop)

    async def _rows_rebuilt(self, _: Fault) -> None:
        await self._until_done(self._rebuild)

    async def _drop(self) -> None:
        async with acquire(self.sandbox.connections.pool) as connection:
            await connection.execute(_DROP)

    async def _rebuild(self) -> None:
        rebuilt = await rebuild(self.sandbox.connections.log, self.sandbox.connections.pool)
        for each in rebuilt.differences or ():
            self.unexpected.append(f"Before a rebuild, {each.table} {each.key} was not what the log says.")

    async def _records_poisoned(self, fault: Fault) -> None:
        for topic in (topics.EVENTS.name, topics.REQUESTS.name):
            await self._until_done(partial(self._append_poison, topic, f"{topic} poisoned at {fault.at:g}".encode()))

    async def _append_poison(self, topic: str, poison: bytes) -> None:
        await self.sandbox.connections.log.append(topic, [Message(poison, poison)])
        self.poison.append(poison)

    async def _decompression_bombs(self, fault: Fault) -> None:
        partition = fault.target % topics.PARTITIONS
        for topic in (topics.EVENTS.name, topics.REQUESTS.name):
            await self._until_done(partial(self._append_bomb, topic, partition))

    async def _append_bomb(self, topic: str, partition: int) -> None:
        self.bombs.add(
            RecordPosition(topic, partition, await append_bomb(self.sandbox.kafka_settings, topic, partition))
        )

    async def _opening_forged(self, _: Fault) -> None:
        """Open a request's workflow with a forged event, as any writer of events could, then send the request."""
        planned = self.load.next_opening()
        self.forged.add(planned.request_id)
        message = forged_opening(planned)
        await self._until_done(partial(self.sandbox.connections.log.append, topics.EVENTS.name, [message]))
        await self.load.send(planned)

    async def _requests_flooded(self, _: Fault) -> None:
        await self.load.flood()

    async def _until_done(self, work: Callable[[], Awaitable[object]]) -> None:
        """Retry until the work is done: other faults may be in effect at the same time."""
        await retry(
            work,
            failed=_is_struck_too,
            on=PASSING,
            backoff=Backoff(longest=LONGEST_PAUSE),
            needed=lambda: not self.stopping.is_set(),
        )


def _process_name(fault: Fault) -> str:
    return PROCESS_NAMES[fault.target % len(PROCESS_NAMES)]


async def _commit_the_beginning(follower: Follower) -> None:
    mine: frozenset[int] = frozenset()

    async def commit_once_taken_in() -> None:
        nonlocal mine
        while not mine:
            polled = await follower.poll(POLL_TIMEOUT)
            mine = (mine - polled.revoked) | polled.assigned
        await follower.commit(dict.fromkeys(mine, 0))

    await retry(commit_once_taken_in, failed=_is_struck_too, on=PASSING, backoff=Backoff(longest=LONGEST_PAUSE))


def _is_struck_too(failure: Failure) -> None:
    log.debug("fault_retried", error=str(failure.error))


async def append_bomb(kafka: KafkaSettings, topic: str, partition: int) -> int:
    """Append a bomb, bypassing the log, which would refuse it, and return its offset.

    Raises:
        Unavailable: Kafka cannot be reached, or it is unknown whether the record was written.
    """
    producer = AIOKafkaProducer(**kafka.client_options(), compression_type="zstd", max_request_size=MOST_IN_A_REQUEST)
    try:
        await producer.start()
        sent = await producer.send_and_wait(kafka.physical(topic), b" " * SPACES, partition=partition)
    except KafkaError as error:
        raise Unavailable(f"No bomb was appended: {error}") from error
    finally:
        await producer.stop()
    return int(sent.offset)
