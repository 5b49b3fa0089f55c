"""PowerOn on a Kafka that asks who you are: TLS, users, ACLs as the runbook grants them; and on that of compose.yaml."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import yaml
from aiokafka.admin import AIOKafkaAdminClient
from brokers import SECRET, Authority, ComposedKafka, SecuredKafka, grant
from servers import furnished, run_outside

from poweron_events import topics
from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.log import Message
from poweron_events.log.kafka import connect
from poweron_events.log.kafka_clients import reach
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.embedded.folders import prepare
from poweron_services.embedded.kafka_server import Kafka

pytestmark = pytest.mark.system

HOUSE = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((HOUSE / "deploy/compose.yaml").read_text())["services"]
RUNBOOK = (HOUSE / "deploy/README.md").read_text()
POWERON = Path(sys.executable).with_name("poweron")
KEY = b"5cf3f1f4-5b5a-5b0e-9d49-7c0c1c2b8a11"


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
    strangers = [
        replace(user(broker, "admin"), sasl_password="wrong"),
        replace(user(broker, "admin"), ca_file=str(tmp_path / "tls" / "ca.pem")),
        user(broker, "admin", "SSL"),
    ]
    for stranger in strangers:
        with pytest.raises(Unavailable, match="does not answer"):
            await reach(stranger, 5.0)
    with pytest.raises(Refused, match="needs the name and the password"):
        await reach(replace(user(broker, "admin"), sasl_password=None), 5.0)
    with pytest.raises(Refused, match="cannot be used"):
        await reach(replace(user(broker, "admin"), ca_file="nowhere.pem"), 5.0)


# --- the runbook ------------------------------------------------------------------------------------------


@pytest.fixture
async def granted(broker: SecuredKafka) -> SecuredKafka:
    """The topics are there, and each user may do what the runbook's table says."""
    async with connect(user(broker, "admin")):
        pass
    admin = AIOKafkaAdminClient(**user(broker, "admin").client_options())
    await admin.start()
    try:
        await grant(admin, re.findall(r"^kafka-acls\.sh .*", RUNBOOK, re.MULTILINE))
    finally:
        await admin.close()
    return broker


@pytest.mark.req("S32")
async def test_what_the_table_does_not_allow_is_refused(granted: SecuredKafka) -> None:
    forbidden = {
        "executor": [topics.REQUESTS, topics.DEAD_LETTERS],
        "deciders": [topics.REQUESTS, topics.DEAD_LETTERS],
        "intake": [topics.REQUESTS],
        "client": [topics.EVENTS, topics.DEAD_LETTERS],
        "auditor": [topics.EVENTS, topics.REQUESTS, topics.DEAD_LETTERS],
    }
    for name, closed in forbidden.items():
        async with connect(user(granted, name)) as log:
            before = {topic.name: await log.ends(topic.name) for topic in closed}
            for topic in closed:
                with pytest.raises(PowerOnError, match="Authorization"):
                    await log.append(topic.name, [Message(KEY, b"{}")])
            assert {topic.name: await log.ends(topic.name) for topic in closed} == before


@contextmanager
def composed(environment: dict[str, dict[str, str]], folder: Path) -> Iterator[None]:
    """The three services of compose.yaml as processes, each as its own user."""
    started = []
    try:
        for name, own in environment.items():
            with (folder / f"{name}.log").open("wb") as log:
                command = [POWERON, *COMPOSE[name]["command"]]
                started.append(subprocess.Popen(command, env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            assert process.wait(30) == 0


@pytest.mark.req("S32")
async def test_the_services_of_compose_do_the_work_with_the_rights_of_the_runbook(
    granted: SecuredKafka, dsn: str, tmp_path: Path
) -> None:
    def environment(name: str) -> dict[str, str]:
        return {
            **os.environ,
            "POWERON_HOME": str(tmp_path / name),
            "POWERON_CONTENT": str(tmp_path / "content"),
            "POWERON_POSTGRES": dsn,
            "POWERON_KAFKA": granted.address("SASL_SSL"),
            "POWERON_KAFKA_PREFIX": "",
            "POWERON_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "POWERON_KAFKA_SASL_USERNAME": f"poweron-{name}",
            "POWERON_KAFKA_SASL_PASSWORD": SECRET,
            "POWERON_KAFKA_CA_FILE": str(granted.tls / "ca.pem"),
        }

    async def poweron(name: str, *arguments: str) -> tuple[int | None, bytes]:
        process = await asyncio.create_subprocess_exec(
            POWERON, *arguments, env=environment(name), cwd=tmp_path, stdout=subprocess.PIPE
        )
        async with asyncio.timeout(90):
            printed, _ = await process.communicate()
        return process.returncode, printed

    document = str(HOUSE / "docs/examples/letter.txt")
    services = {name: environment(name) for name in ("intake", "deciders", "executor")}

    with composed(services, tmp_path):
        question = ("ask", "When does the exhibition open?", "--document", document, "--no-serve", "--json")
        asked, answer = await poweron("client", *question)
        healthy, _ = await poweron("executor", "status", "--json")

    logs = "\n".join((tmp_path / f"{name}.log").read_text() for name in services)
    assert (asked, healthy) == (0, 0), logs
    assert "September 12, 2025" in orjson.loads(answer)["message"]
    assert await poweron("auditor", "verify", "--json") == (0, b'{"events":16,"differences":[]}\n')


# --- compose.yaml -----------------------------------------------------------------------------------------


async def test_the_broker_of_compose_is_as_the_log_needs_it(
    software: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = prepare(furnished(tmp_path_factory.mktemp("composed"), software))
    kafka = ComposedKafka(home, environment=COMPOSE["kafka"]["environment"])
    with running(kafka):
        await use_every_client(kafka.let_in)
