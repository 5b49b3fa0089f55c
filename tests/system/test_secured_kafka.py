"""PowerOn on a Kafka that asks who you are: TLS, users, ACLs as the runbook grants them; and on that of compose.yaml."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from brokers import COMPOSE, SECRET, Authority, ComposedKafka, SecuredKafka, acls, grant, words
from servers import furnished, run_outside

from poweron_events import topics, workflow_id
from poweron_events.errors import Refused, Unavailable
from poweron_events.log import Message
from poweron_events.log.kafka import connect
from poweron_events.log.kafka_clients import reach
from poweron_events.log.kafka_progress import KafkaProgress
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.connection import connect as connect_postgres
from poweron_services.embedded.folders import prepare
from poweron_services.embedded.kafka_server import Kafka

pytestmark = pytest.mark.system

HOUSE = Path(__file__).parents[2]
RUNBOOK = (HOUSE / "deploy/README.md").read_text()
COMMANDS = re.findall(r"^kafka-acls\.sh .*", RUNBOOK, re.MULTILINE)
EVERY_TOPIC = frozenset(topic.name for topic in (*topics.ALL, topics.PROGRESS))
POWERON = Path(sys.executable).with_name("poweron")
KEY = b"5cf3f1f4-5b5a-5b0e-9d49-7c0c1c2b8a11"
REQUEST = {
    "specversion": "1.0",
    "type": "poweron.request.workflow.v1",
    "source": "/crm/offers",
    "id": "4711",
    "data": {"prompt": "Write a greeting."},
}
Client = TypeVar("Client", AIOKafkaAdminClient, AIOKafkaProducer, AIOKafkaConsumer)


@contextmanager
def running(kafka: Kafka) -> Generator[None, None, None]:
    run_outside(kafka.start(print))
    try:
        yield
    finally:
        process = kafka.find()
        assert process is not None
        run_outside(process.stop(signal.SIGTERM, 30))


@pytest.fixture(scope="module")
def broker(software: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredKafka, None, None]:
    kafka = SecuredKafka(prepare(furnished(tmp_path_factory.mktemp("secured"), software)))
    Authority(kafka.tls).issue_all()
    with running(kafka):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            run_outside(kafka.add_scram_user("poweron-admin", mechanism))
        yield kafka


def user(broker: SecuredKafka, name: str, protocol: str = "SASL_SSL", mechanism: str = "PLAIN") -> KafkaSettings:
    return KafkaSettings(
        broker.address(protocol),
        security_protocol=protocol,
        sasl_mechanism=mechanism,
        sasl_username=f"poweron-{name}",
        sasl_password=SECRET,
        ca_file=str(broker.tls / "ca.pem"),
    )


def by_certificate(broker: SecuredKafka) -> KafkaSettings:
    return replace(
        user(broker, "admin", "SSL"),
        certificate_file=str(broker.tls / "poweron-admin.pem"),
        key_file=str(broker.tls / "poweron-admin.key"),
    )


async def use_every_client(settings: KafkaSettings) -> None:
    """Create topics, append, ask for ends, read, follow, commit."""
    async with connect(settings) as log:
        (offset,) = await log.append(topics.EVENTS.name, [Message(KEY, b"hello")])
        partition = log.partition_of(topics.EVENTS.name, KEY)
        ends = await log.ends(topics.EVENTS.name)
        assert ends[partition] == offset + 1
        read = [record async for records in log.read(topics.EVENTS.name, {}, ends) for record in records]
        assert [record.value for record in read] == [b"hello"]
        async with log.follow(topics.EVENTS.name, "poweron.all") as follower, asyncio.timeout(30):
            followed: list[bytes | None] = []
            while not followed:
                polled = await follower.poll(1.0)
                for number in polled.assigned:
                    await follower.seek(number, 0)
                followed += [record.value for record in polled.records]
            await follower.commit({partition: offset + 1})
            assert (followed, await follower.committed(partition)) == ([b"hello"], offset + 1)


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
    ],
)
async def test_every_client_logs_in(broker: SecuredKafka, protocol: str, mechanism: str) -> None:
    prefix = f"{protocol}.{mechanism}."
    await use_every_client(replace(user(broker, "admin", protocol, mechanism), prefix=prefix))


async def test_every_client_shows_its_certificate(broker: SecuredKafka) -> None:
    await use_every_client(replace(by_certificate(broker), prefix="certificate."))


async def test_who_cannot_prove_who_he_is_is_told_so(broker: SecuredKafka, tmp_path: Path) -> None:
    Authority(tmp_path / "tls").issue_all()
    with pytest.raises(Refused, match=r"it refuses the login of 'poweron-admin' by PLAIN"):
        await reach(replace(user(broker, "admin"), sasl_password="wrong"), 5.0)
    with pytest.raises(Refused, match=r"its certificate is not valid: .*Check POWERON_KAFKA_CA_FILE"):
        await reach(replace(user(broker, "admin"), ca_file=str(tmp_path / "tls" / "ca.pem")), 5.0)
    with pytest.raises(Unavailable, match="does not answer"):
        await reach(user(broker, "admin", "SSL"), 5.0)
    with pytest.raises(Refused, match="needs the name and the password"):
        await reach(replace(user(broker, "admin"), sasl_password=None), 5.0)
    with pytest.raises(Refused, match="cannot be used"):
        await reach(replace(user(broker, "admin"), ca_file="nowhere.pem"), 5.0)


# --- the runbook ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rights:
    """What a row of the runbook's table allows: topics to read and to append to, groups to join and to look at."""

    reads: frozenset[str]
    appends: frozenset[str]
    groups: frozenset[str]
    seen_groups: frozenset[str]


def rights() -> dict[str, Rights]:
    """The runbook's table."""
    rows = [line.split("|")[1:-1] for line in RUNBOOK.splitlines() if line.startswith("| `poweron-")]
    named = [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in rows]
    return {user[0].removeprefix("poweron-"): Rights(*map(frozenset, rest)) for user, *rest in named}


RIGHTS = rights()
EVERY_GROUP = frozenset[str]().union(*(each.groups for each in RIGHTS.values()))


@pytest.mark.req("S32")
def test_the_commands_grant_what_the_table_says_and_nothing_else() -> None:
    expected = {
        (f"User:poweron-{name}", operation, kind, of)
        for name, allowed in RIGHTS.items()
        for operation, kind, those in (
            ("Read", "--topic", allowed.reads),
            ("Write", "--topic", allowed.appends),
            ("Read", "--group", allowed.groups),
            ("Describe", "--group", allowed.seen_groups),
            ("Describe", "--topic", set() if name == "upstream" else EVERY_TOPIC),
            ("DescribeConfigs", "--topic", set() if name == "upstream" else EVERY_TOPIC),
        )
        for of in those
    }
    assert {words(acl) for command in COMMANDS for acl in acls(command)} == expected
    assert RIGHTS["upstream"] == Rights(frozenset(), frozenset({topics.REQUESTS.name}), frozenset(), frozenset())


@pytest.fixture(scope="module")
def granted(broker: SecuredKafka) -> SecuredKafka:
    """The topics are there, and each user may do what the runbook's commands say."""
    run_outside(_granted(user(broker, "admin")))
    return broker


async def _granted(admin: KafkaSettings) -> None:
    async with connect(admin), opened(AIOKafkaAdminClient(**admin.client_options())) as client:
        await grant(client, COMMANDS)


@asynccontextmanager
async def opened(client: Client) -> AsyncGenerator[Client, None]:
    """A client as any system has it, without ours around it."""
    try:
        await client.start()
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


async def write(settings: KafkaSettings, topic: str, value: bytes = b"{}", **options: Any) -> None:
    async with opened(AIOKafkaProducer(**settings.client_options())) as producer:
        await producer.send_and_wait(topic, value, **options)


async def read(settings: KafkaSettings, topic: str) -> None:
    async with opened(AIOKafkaConsumer(topic, **settings.client_options(), auto_offset_reset="earliest")) as consumer:
        await consumer.getmany(timeout_ms=5_000)


async def move_offset(settings: KafkaSettings, group: str) -> None:
    """What has records passed by, or done twice."""
    options = {**settings.client_options(), "group_id": group, "enable_auto_commit": False}
    async with opened(AIOKafkaConsumer(**options)) as consumer:
        consumer.assign([TopicPartition(topics.EVENTS.name, 0)])
        await consumer.commit({TopicPartition(topics.EVENTS.name, 0): 0})


@pytest.mark.req("S32")
@pytest.mark.parametrize("name", RIGHTS)
async def test_what_the_table_does_not_allow_is_refused(granted: SecuredKafka, name: str) -> None:
    settings, allowed = user(granted, name), RIGHTS[name]
    async with connect(user(granted, "admin")) as log, asyncio.timeout(60):
        before = {topic.name: await log.ends(topic.name) for topic in topics.ALL}
        for topic in sorted(EVERY_TOPIC - allowed.appends):
            with pytest.raises(TopicAuthorizationFailedError):
                await write(settings, topic)
        for topic in sorted(EVERY_TOPIC - allowed.reads):
            with pytest.raises(TopicAuthorizationFailedError):
                await read(settings, topic)
        for group in sorted(EVERY_GROUP - allowed.groups):
            with pytest.raises(GroupAuthorizationFailedError):
                await move_offset(settings, group)
        assert {topic.name: await log.ends(topic.name) for topic in topics.ALL} == before


@pytest.mark.req("S32")
async def test_what_the_executor_tells_of_its_progress_reaches_a_client(granted: SecuredKafka) -> None:
    executor, client = (KafkaProgress(user(granted, name)) for name in ("executor", "client"))
    try:
        await executor.send([Message(KEY, b"half")])
        async with asyncio.timeout(30):
            tail = client.tail(KEY)
            assert [record.value for record in await anext(tail)] == [b"half"]
            await tail.aclose()
    finally:
        await executor.close()


@pytest.mark.req("S32")
@pytest.mark.parametrize("name", RIGHTS)
async def test_nobody_may_create_alter_delete_or_truncate_a_topic(granted: SecuredKafka, name: str) -> None:
    topic = topics.REQUESTS.name
    forgetful = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1"})
    async with opened(AIOKafkaAdminClient(**user(granted, name).client_options())) as admin:
        with pytest.raises(TopicAuthorizationFailedError):
            await admin.create_partitions({topic: NewPartitions(24)})
        with pytest.raises(TopicAuthorizationFailedError):
            await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(-1)})
        created = await admin.create_topics([NewTopic("poweron.mine", 1, 1)])
        (altered,) = await admin.alter_configs([forgetful])
        deleted = await admin.delete_topics([topic])
    codes = (created.topic_errors[0][1], altered.resources[0][0], deleted.topic_error_codes[0][1])
    assert set(codes) == {TopicAuthorizationFailedError.errno}


# --- services as the runbook has them -----------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """Starts PowerOn, each process as a user of its own."""

    kafka: SecuredKafka
    folder: Path

    def environment(self, name: str, postgres: str) -> dict[str, str]:
        return {
            **os.environ,
            "POWERON_HOME": str(self.folder / name),
            "POWERON_CONTENT": str(self.folder / "content"),
            "POWERON_POSTGRES": postgres,
            "POWERON_KAFKA": self.kafka.address("SASL_SSL"),
            "POWERON_KAFKA_PREFIX": "",
            "POWERON_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "POWERON_KAFKA_SASL_USERNAME": f"poweron-{name}",
            "POWERON_KAFKA_SASL_PASSWORD": SECRET,
            "POWERON_KAFKA_CA_FILE": str(self.kafka.tls / "ca.pem"),
        }

    @contextmanager
    def serving(self, services: dict[str, tuple[list[str], str]]) -> Iterator[None]:
        """These services as processes: by user, the command and the Postgres of each."""
        started = []
        try:
            for name, (command, postgres) in services.items():
                with self._log_file(name).open("wb") as log:
                    options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
                    own = self.environment(name, postgres)
                    started.append(subprocess.Popen([POWERON, *command], env=own, **options))
            yield
        finally:
            for process in started:
                process.terminate()
            for process in started:
                assert process.wait(30) == 0

    async def run(self, name: str, postgres: str, *arguments: str) -> tuple[int | None, bytes]:
        process = await asyncio.create_subprocess_exec(
            POWERON, *arguments, env=self.environment(name, postgres), cwd=self.folder, stdout=subprocess.PIPE
        )
        async with asyncio.timeout(90):
            printed, _ = await process.communicate()
        return process.returncode, printed

    def logs(self, names: Iterable[str]) -> str:
        return "\n".join(self._log_file(name).read_text() for name in names)

    def _log_file(self, name: str) -> Path:
        return self.folder / f"{name}.log"


@pytest.fixture
def machine(granted: SecuredKafka, tmp_path: Path) -> Machine:
    return Machine(granted, tmp_path)


def only_reading(dsn: str) -> str:
    """The same database, in which every transaction only reads."""
    return f"{dsn}{'&' if '?' in dsn else '?'}default_transaction_read_only=on"


@pytest.mark.soak
@pytest.mark.req("S32")
async def test_the_services_of_compose_do_the_work_with_the_rights_of_the_runbook(machine: Machine, dsn: str) -> None:
    document = str(HOUSE / "docs/examples/letter.txt")
    postgres = {"intake": dsn, "deciders": only_reading(dsn), "executor": only_reading(dsn)}
    services = {name: (COMPOSE[name]["command"], own) for name, own in postgres.items()}

    with machine.serving(services):
        question = ("ask", "When does the exhibition open?", "--document", document, "--no-serve", "--json")
        asked, answer = await machine.run("client", only_reading(dsn), *question)
        healthy, _ = await machine.run("executor", dsn, "status", "--json")

    assert (asked, healthy) == (0, 0), machine.logs(services)
    assert "September 12, 2025" in orjson.loads(answer)["message"]
    verified, found = await machine.run("auditor", dsn, "verify", "--json")
    processes = 2 * len(services)  # each records its start and its end
    assert (verified, orjson.loads(found)["events"], orjson.loads(found)["differences"]) == (0, 16 + processes, [])


@pytest.mark.req("S32")
@pytest.mark.req("S34")
async def test_the_request_of_a_system_that_may_only_write_requests_is_done_by_roles_that_may_do_no_more_than_theirs(
    machine: Machine, granted: SecuredKafka, dsn: str
) -> None:
    services = {
        "projector": (["serve", "--role", "projector"], dsn),
        "intake-alone": (["serve", "--role", "intake"], only_reading(dsn)),
        "deciders": (COMPOSE["deciders"]["command"], only_reading(dsn)),
        "executor": (COMPOSE["executor"]["command"], only_reading(dsn)),
    }
    workflow = workflow_id(REQUEST["source"], REQUEST["id"])

    with machine.serving(services):
        await write(user(granted, "upstream"), topics.REQUESTS.name, orjson.dumps(REQUEST))
        await write(user(granted, "upstream"), topics.REQUESTS.name, b"no request")
        await write(user(granted, "admin"), topics.EVENTS.name, b"no event", key=workflow.encode())
        try:
            async with connect_postgres(only_reading(dsn)) as pool, asyncio.timeout(60):
                while not await is_done(pool, workflow):  # noqa: ASYNC110 - Postgres tells nobody
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(machine.logs(services))


async def is_done(pool: Pool, workflow: str) -> bool:
    """Whether the rows hold the end of the workflow, and both records that nobody can read."""
    with suppress(Unavailable):  # the projector has not made the tables yet
        found, letters = await reader.workflow(pool, workflow), await reader.dead_letters(pool)
        buried = {(letter.topic, letter.raw) for letter in letters}
        unread = {(topics.REQUESTS.name, b"no request"), (topics.EVENTS.name, b"no event")}
        return found is not None and found.status == "completed" and unread <= buried
    return False


# --- compose.yaml -----------------------------------------------------------------------------------------


async def test_the_broker_of_compose_is_as_the_log_needs_it(
    software: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = prepare(furnished(tmp_path_factory.mktemp("composed"), software))
    kafka = ComposedKafka(home)
    with running(kafka):
        await use_every_client(kafka.client_settings)
        with pytest.raises(Refused, match="it refuses the login"):
            await reach(replace(kafka.client_settings, sasl_password="wrong"), 5.0)
        with pytest.raises(Unavailable):
            await reach(KafkaSettings(kafka.client_settings.bootstrap), 5.0)
    with running(kafka):  # the second start keeps the data and the user
        async with connect(kafka.client_settings) as log:
            assert sum((await log.ends(topics.EVENTS.name)).values()) == 1
