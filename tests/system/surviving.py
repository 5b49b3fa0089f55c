"""What the tests of survival share: processes to be hurt, the log as it grows, and what must hold at the end."""

import asyncio
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import orjson
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.protocol.admin import DeleteGroupsRequest
from processes import Processes

from poweron_events import RequestWorkflow, encode_request, topics, workflow_id
from poweron_events.codec import read_record
from poweron_events.envelope import Envelope, idempotency_key
from poweron_events.errors import PowerOnError
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Message, Record
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import RequestRefused
from poweron_events.round_events import RoundCompleted
from poweron_events.step_events import ActionCompleted, ActionStarted
from poweron_projections import reader
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections
from poweron_services.wiring import FOLDING, ROLES, group_of

SOURCE = "/tests/survival"
TIME = "2026-11-21T00:00:00.000Z"
WITNESS = Path(__file__).with_name("witness.py")
DELETED = (0, 69)  # what Kafka answers of a group that it has forgotten now, or by itself since it had no offsets
STEPS = range(1, 6)
DEADLINE = 120.0  # seconds for whatever other processes do
PERIOD = 0.02  # seconds between looks at files


class Witnesses(Processes):
    """Processes of `witness.py`, each under a name of the test's: all roles unless it begins with some and a colon."""

    @property
    def environment(self) -> dict[str, str]:
        return self._environment

    def start(self, name: str) -> None:
        roles = name.partition(":")[0] if ":" in name else ",".join(ROLES)
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, WITNESS, roles],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def pids(self) -> set[int]:
        return {process.pid for process in self._running.values()}

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def name_of(self, pid: int) -> str:
        return next(name for name, process in self._running.items() if process.pid == pid)

    def pause(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def ask(self) -> None:
        """Let all tell what they are doing, for whoever reads how the test failed."""
        for process in self._running.values():
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGUSR1)
        time.sleep(1)  # they do not say when they have told it
        sys.stdout.write(self.log()[-20_000:])

    def expect_alive(self) -> None:
        """Nobody may have ended by itself."""
        ended = {name: process.returncode for name, process in self._running.items() if process.poll() is not None}
        assert ended == {}, self.log()[-4_000:]


@contextmanager
def witnesses(environment: Mapping[str, str], folder: Path, names: Sequence[str]) -> Generator[Witnesses, None, None]:
    """Processes that are all gone at the end."""
    processes = Witnesses(
        {**environment, "POWERON_ALLOW_TRANSFORM": "witness.*", "WITNESS_FOLDER": str(folder)}, folder
    )
    try:
        for name in names:
            processes.start(name)
        yield processes
    except BaseException:
        processes.ask()
        raise
    finally:
        processes.stop()


async def until(true: Callable[[], object], what: str) -> None:
    """Wait for it; what is waited for is said if it does not come."""
    try:
        async with asyncio.timeout(DEADLINE):
            while not true():  # noqa: ASYNC110 - files and processes tell nobody
                await asyncio.sleep(PERIOD)
    except TimeoutError:
        raise AssertionError(f"in vain: {what}") from None


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


class Survival:
    """Workflows, requested from outside and followed in the log while processes and servers come to harm."""

    def __init__(self, connections: Connections, kafka: KafkaSettings, folder: Path) -> None:
        self._connections = connections
        self._kafka = kafka
        self._folder = folder
        self._positions: dict[int, int] = {}
        self.requested: dict[str, bytes] = {}
        self.workflows: dict[str, Workflow] = {}
        self.accepted: dict[str, list[Envelope]] = {}
        self.superseded = 0

    # --- asking -------------------------------------------------------------------------------------------

    async def request(
        self, action: str = "pure", *, times: int = 1, beside: str | None = None, identity: str = "", **told: object
    ) -> str:
        """Ask for a workflow whose one step has this action; the request is insisted on until the log has it.

        With `beside` it comes to the partition of that workflow.
        """
        identity = identity or secrets.token_hex(8)
        while beside is not None and self._partition(workflow_id(SOURCE, identity)) != self._partition(beside):
            identity = secrets.token_hex(8)
        prompt = orjson.dumps({"action": action, **told}).decode()
        request = RequestWorkflow(prompt=prompt)
        value = encode_request(request, source=SOURCE, request_id=identity, time=TIME)
        opened = workflow_id(SOURCE, identity)
        self.requested[opened] = value
        await self.send([value] * times)
        return opened

    async def send(self, values: Sequence[bytes]) -> None:
        """To any partition: a sender knows nothing of ours."""
        messages = [Message(secrets.token_bytes(4), value) for value in values]
        await insisted(lambda: self._connections.log.append(topics.REQUESTS.name, messages))

    def _partition(self, workflow_id: str) -> int:
        return self._connections.log.partition_of(topics.EVENTS.name, workflow_id.encode())

    def open_gate(self, gate: str) -> None:
        (self._folder / gate).touch()

    async def forget_offsets(self) -> None:
        """All that the groups of the roles remember; Kafka forgets it once their members count as dead."""
        prefix = self._kafka.physical("poweron.")
        async with self._admin() as admin, asyncio.timeout(DEADLINE):
            groups = {name for name, _ in await admin.list_consumer_groups() if name.startswith(prefix)}
            assert len(groups) >= 3  # of intake, projector and the others
            while groups:
                deleted = await admin._send_request(DeleteGroupsRequest(sorted(groups)))
                groups -= {name for name, error in deleted.results if error in DELETED}

    async def settled(self, processes: int) -> None:
        """Wait until so many processes of all roles share the partitions, so that none moves any more.

        A claim that is written while its partition moves waits for its deadline (E-08): no test could wait for that.
        """
        group = self._kafka.physical(group_of(FOLDING))
        async with self._admin() as admin, asyncio.timeout(DEADLINE):
            while await _members(admin, group) != processes:  # noqa: ASYNC110 - Kafka tells members only
                await asyncio.sleep(PERIOD)

    @asynccontextmanager
    async def _admin(self) -> AsyncGenerator[AIOKafkaAdminClient, None]:
        admin = AIOKafkaAdminClient(**self._kafka.client_options())
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    # --- following ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def followed(self) -> AsyncGenerator[None, None]:
        """Follow the log meanwhile."""
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self._follow(self._connections.log))
            try:
                yield
            finally:
                following.cancel()

    async def _follow(self, log: EventLog) -> None:
        async with log.follow(topics.EVENTS.name, f"tests.{secrets.token_hex(4)}") as follower:
            while True:
                try:
                    polled = await follower.poll(0.5)
                except PowerOnError:
                    await asyncio.sleep(0.2)
                    continue
                for number in polled.assigned:
                    await follower.seek(number, self._positions.get(number, 0))
                for record in polled.records:
                    self._take(record)

    def _take(self, record: Record) -> None:
        if record.offset < self._positions.get(record.partition, 0):
            return
        self._positions[record.partition] = record.offset + 1
        recorded = read_record(record)
        id_ = recorded.envelope.workflow_id
        self.workflows[id_], verdict = evolve(self.workflows.get(id_, Workflow(id_)), recorded)
        if verdict == "accepted":
            self.accepted.setdefault(id_, []).append(recorded.envelope)
        else:
            self.superseded += 1

    def ended(self, *ids: str) -> bool:
        """Whether these workflows have come to their end."""
        return all(self.phase(id_) == "ended" for id_ in ids)

    def phase(self, workflow_id: str) -> str:
        """What the workflow waits for."""
        return self.workflows[workflow_id].phase if workflow_id in self.workflows else "none"

    def events(self, workflow_id: str) -> int:
        return len(self.accepted.get(workflow_id, ()))

    def refused(self, workflow_id: str) -> set[str]:
        """The requests about the workflow that were refused."""
        events = [envelope.event for envelope in self.accepted.get(workflow_id, ())]
        return {event.request.id for event in events if isinstance(event, RequestRefused)}

    async def all_ended(self) -> None:
        await until(lambda: self.ended(*self.requested), "every workflow ends")

    # --- effects and thoughts -----------------------------------------------------------------------------

    def effects(self) -> list[tuple[int, str]]:
        """Process id and idempotency key of each effect, in the order in which they came."""
        return [(int(pid), key) for pid, key in (line.split() for line in lines(self._folder / "effects"))]

    def running(self, workflow_id: str) -> list[int]:
        """The processes that have had the effect of the workflow, in whatever step of its task."""
        wanted = {idempotency_key(workflow_id, (1, 1, 1, step)) for step in STEPS}
        return [pid for pid, key in self.effects() if key in wanted]

    def thinking(self, kind: str) -> list[int]:
        """The processes whose model has begun to think about a question of this kind."""
        return [int(pid) for pid, asked in (line.split() for line in lines(self._folder / "thoughts")) if asked == kind]

    # --- what must hold -----------------------------------------------------------------------------------

    async def expect_all_well(self) -> None:
        """Each workflow completed once, each effect of an accepted claim came once, the rows are what the log says."""
        verified = await verify(self._connections.log, self._connections.pool)
        assert verified.differences == []
        assert verified.events == sum(self._positions.values())
        for id_ in self.requested:
            completed = [one for one in self.accepted[id_] if isinstance(one.event, RoundCompleted)]
            assert len(completed) == 1
            row = await reader.workflow(self._connections.pool, id_)
            assert row is not None
            assert row.status == "completed"
        opened = {id_ for id_, workflow in self.workflows.items() if workflow.openings}  # others are of processes
        assert opened == set(self.requested)
        self._expect_no_effect_twice()

    def _expect_no_effect_twice(self) -> None:
        claims, done = Counter[tuple[int, str]](), set[str]()
        for envelope in (each for events in self.accepted.values() for each in events):
            match envelope.event:
                case ActionStarted() as started:
                    claims[_pid(started.worker), _key(envelope)] += 1
                case ActionCompleted(outcome="done"):
                    done.add(_key(envelope))
                case _:
                    pass
        had = Counter(self.effects())
        assert had - claims == Counter(), "an effect without an accepted claim of that process, or one claim's twice"
        assert done <= {key for _, key in had}
        times = Counter(key for _, key in had.elements())
        once = {key for key in times if key in self._at_most_once()}
        assert {key: times[key] for key in once} == dict.fromkeys(once, 1)

    def _at_most_once(self) -> set[str]:
        return {
            _key(envelope)
            for events in self.accepted.values()
            for envelope in events
            if isinstance(envelope.event, ActionStarted) and envelope.event.effect_class == "at_most_once"
        }

    def completions(self, workflow_id: str) -> list[ActionCompleted]:
        events = [envelope.event for envelope in self.accepted.get(workflow_id, ())]
        return [event for event in events if isinstance(event, ActionCompleted)]

    def outcomes(self, workflow_id: str) -> list[str]:
        return [completed.outcome for completed in self.completions(workflow_id)]


def _key(envelope: Envelope) -> str:
    event = envelope.event
    assert isinstance(event, ActionStarted | ActionCompleted)
    return idempotency_key(envelope.workflow_id, (event.round, event.task, event.attempt, event.step))


def _pid(worker: str) -> int:
    """A worker is called host-pid-chance."""
    return int(worker.rsplit("-", 2)[1])


async def _members(admin: AIOKafkaAdminClient, group: str) -> int:
    """How many consumers share the partitions of the group; 0 while that is being agreed upon."""
    try:
        (response,) = await admin.describe_consumer_groups([group])
    except GroupCoordinatorNotAvailableError:  # a new broker has none yet
        return 0
    ((_, _, state, _, _, members, *_),) = response.groups
    return len(members) if state == "Stable" else 0


async def insisted(ask: Callable[[], Awaitable[object]]) -> None:
    """Do it, again and again while a server is away."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await ask()
            except PowerOnError:
                await asyncio.sleep(0.2)
            else:
                return


async def all_at_work(survival: Survival, processes: Witnesses) -> None:
    """Wait until Kafka has given some of the partitions to each process."""
    await survival.settled(len(processes.pids()))
    while not processes.pids() <= {pid for pid, _ in survival.effects()}:
        asked = await survival.request()
        await until(lambda asked=asked: survival.ended(asked), "a workflow ends")
