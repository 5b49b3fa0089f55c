"""The embedded Kafka is its owner's alone: who else has an account on this machine gets nothing from it."""

import asyncio
import json
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError
from brokers import OlderKafka
from ordinary_user import NOTHING_REFUSED, as_ordinary_user
from own import OwnServers, own_servers
from processes import POWERON, command_lines
from servers import furnished

from poweron_events import topics
from poweron_events.errors import Refused, Unavailable
from poweron_events.log import Message
from poweron_events.log.kafka import KafkaLog, connect
from poweron_events.log.kafka_clients import reach
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.embedded import down, lease, status
from poweron_services.embedded.folders import Folders, explained, prepare
from poweron_services.embedded.kafka_configuration import Configured, configured
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.server_process import Running
from poweron_services.embedded.users import join

pytestmark = pytest.mark.system


LIST_TOPICS = struct.pack(">hhihi", 3, 1, 1, -1, -1)
DESCRIBE_CLUSTER = struct.pack(">hhihbbb", 60, 0, 1, -1, 0, 0, 0)
DESCRIBE_USERS = struct.pack(">hhihbbb", 50, 0, 1, -1, 0, 0, 0)


PLAIN_CLIENT = """
import asyncio, os
from aiokafka import AIOKafkaProducer

async def main():
    async with AIOKafkaProducer(
        bootstrap_servers=os.environ["POWERON_KAFKA"],
        security_protocol=os.environ["POWERON_KAFKA_SECURITY_PROTOCOL"],
        sasl_mechanism=os.environ["POWERON_KAFKA_SASL_MECHANISM"],
        sasl_plain_username=os.environ["POWERON_KAFKA_SASL_USERNAME"],
        sasl_plain_password=os.environ["POWERON_KAFKA_SASL_PASSWORD"],
    ):
        print("it let me in")

asyncio.run(main())
"""


def silent(_: str) -> None:
    return


@pytest.fixture
async def home(tmp_path_factory: pytest.TempPathFactory, software: Path) -> AsyncGenerator[Path, None]:
    """A fresh data directory, whose servers end with the test, whatever it did."""
    fresh = furnished(tmp_path_factory.mktemp("h") / "home", software)
    yield fresh
    await down(fresh)


@pytest.fixture(scope="module")
def own(software: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[OwnServers, None, None]:
    with own_servers(tmp_path_factory.mktemp("h") / "home", software) as servers:
        yield servers


def written(own: OwnServers) -> Configured:
    found = configured(Folders.of(own.home).kafka / "server.properties")
    assert found is not None
    return found


def strangers(kafka: KafkaSettings) -> list[KafkaSettings]:
    """Who knows where Kafka is, and whatever else is no secret."""
    return [
        KafkaSettings(kafka.bootstrap),
        replace(kafka, sasl_password="a guess"),
        replace(kafka, sasl_username="admin"),
        replace(kafka, sasl_mechanism="PLAIN"),
    ]


def reads(kafka: KafkaSettings) -> None:
    asyncio.run(reach(kafka, 5.0))


def writes(kafka: KafkaSettings) -> None:
    asyncio.run(_append(kafka))


async def _append(kafka: KafkaSettings) -> None:
    log = KafkaLog(kafka)
    try:
        await log.append(topics.REQUESTS.name, [Message(b"key", b"{}")])
    finally:
        await log.close()


@pytest.mark.req("S32")
def test_another_user_of_this_machine_neither_reads_nor_writes(own: OwnServers) -> None:
    kafka = own.pair.kafka
    assert as_ordinary_user(lambda: reads(kafka)) == NOTHING_REFUSED  # who has the password
    for stranger in strangers(kafka):
        assert re.search(
            "does not let us in|refuses the login", as_ordinary_user(lambda stranger=stranger: reads(stranger))
        )
        assert "does not let us in" in as_ordinary_user(lambda stranger=stranger: writes(stranger))


@pytest.mark.req("S27")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try the door as somebody else")
@pytest.mark.parametrize("name", ["password", "server.properties", "data"])
def test_another_user_finds_no_password_and_no_data(own: OwnServers, name: str) -> None:
    path = Folders.of(own.home).kafka / name

    def look() -> None:
        with explained(own.home):
            list(path.iterdir()) if path.is_dir() else path.read_bytes()

    assert "Permission denied" in as_ordinary_user(look)


@pytest.mark.req("S27")
def test_what_holds_the_password_is_the_owners_alone_and_no_command_line_or_log_tells_it(own: OwnServers) -> None:
    kafka = Folders.of(own.home).kafka
    secrets = [own.pair.kafka.sasl_password, written(own).own_password]
    for file in (kafka / "password", kafka / "server.properties"):
        assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, os.geteuid())
    told = [
        kafka.joinpath("server.log").read_text(),
        *command_lines(),
    ]
    assert [text for text in told for secret in secrets if secret and secret in text] == []
    assert own.pair.kafka.sasl_password not in repr(own.pair)


@pytest.mark.req("S32")
async def test_the_controller_answers_only_the_broker(own: OwnServers) -> None:
    port, password = written(own).controller, own.pair.kafka.sasl_password
    for request in (LIST_TOPICS, DESCRIBE_CLUSTER, DESCRIBE_USERS):
        assert answer(port, request) == b""
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        with pytest.raises(KafkaError):
            await create_conn(
                "127.0.0.1",
                port,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism=mechanism,
                sasl_plain_username="poweron",
                sasl_plain_password=password,
            )


def answer(port: int, request: bytes) -> bytes:
    """What a server says to somebody who has not logged in."""
    with socket.create_connection(("127.0.0.1", port), 5.0) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        return connection.recv(1)


def test_the_servers_have_no_other_doors(own: OwnServers) -> None:
    def doors(server: psutil.Process) -> set[tuple[str, int]]:
        every = [server, *server.children(recursive=True)]
        found = [each for process in every for each in process.net_connections("inet")]
        listening = [each.laddr for each in found if each.status == psutil.CONN_LISTEN]
        return {(place.ip.removeprefix("::ffff:"), place.port) for place in listening}

    assert doors(own.kafka()) == {("127.0.0.1", written(own).broker), ("127.0.0.1", written(own).controller)}
    assert doors(own.postgres()) == set()


# --- what `poweron status` tells --------------------------------------------------------------------------


def poweron(home: Path, *arguments: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith("POWERON_")}
    return subprocess.check_output([POWERON, *arguments], env={**own, "POWERON_HOME": str(home)}, text=True)


def test_status_tells_a_plain_client_how_to_get_in_and_keeps_the_password(own: OwnServers, tmp_path: Path) -> None:
    said = poweron(own.home, "status")
    exports = "\n".join(line for line in said.splitlines() if line.startswith("export "))
    program = tmp_path / "client.py"
    program.write_text(PLAIN_CLIENT)
    got_in = subprocess.check_output(["/bin/sh", "-ec", f"{exports}\n{sys.executable} {program}"], text=True)
    assert got_in == "it let me in\n"
    assert str(own.pair.kafka.sasl_password) not in said


def test_status_tells_a_program_the_same(own: OwnServers) -> None:
    said = json.loads(poweron(own.home, "status", "--json"))
    password = Path(said["kafka_password_file"]).read_text()
    assert said["kafka_settings"]["POWERON_KAFKA_SASL_PASSWORD"] == "***"
    assert KafkaSettings.of({**said["kafka_settings"], "POWERON_KAFKA_SASL_PASSWORD": password}) == own.pair.kafka


# --- data directories of release 0.2 ----------------------------------------------------------------------


async def written_by_an_older_release(home: Path) -> OlderKafka:
    """Its broker, running, with one record."""
    older = OlderKafka(prepare(home))
    await older.start(silent)
    async with connect(older.let_in) as log:
        await log.append(topics.EVENTS.name, [Message(b"key", b"kept")])
    return older


async def records(kafka: KafkaSettings) -> list[bytes | None]:
    async with connect(kafka) as log:
        ends = await log.ends(topics.EVENTS.name)
        return [record.value async for some in log.read(topics.EVENTS.name, {}, ends) for record in some]


@pytest.mark.soak
async def test_a_directory_of_an_older_release_gets_a_password_and_keeps_its_data_and_address(home: Path) -> None:
    older = await written_by_an_older_release(home)
    await older.stop(found(older))

    async with started(Kafka(older.folders)) as kafka:
        assert await records(kafka) == [b"kept"]
        assert kafka.bootstrap == older.let_in.bootstrap
        with pytest.raises(Unavailable, match="does not let us in"):
            await reach(older.let_in, 5.0)
        assert (older.folders.kafka / "server.properties").stat().st_mode & 0o777 == 0o600


@pytest.mark.soak
async def test_a_broker_that_an_older_release_left_running_gets_a_password_once_nobody_else_uses_it(home: Path) -> None:
    older = await written_by_an_older_release(home)
    said: list[str] = []

    with pytest.raises(Refused, match="accepts every user of this machine"):
        status(home)
    other = join(older.folders.users)
    with pytest.raises(Refused, match="1 more of your commands or services use it: end them and try again"):
        async with lease(home, silent):
            pass
    await reach(older.let_in, 5.0)
    other.leave()
    async with lease(home, said.append) as servers:
        assert await records(servers.kafka) == [b"kept"]
    assert "accepts every user of this machine. Stopping it…" in said[0]


@asynccontextmanager
async def started(kafka: Kafka) -> AsyncGenerator[KafkaSettings, None]:
    await kafka.start(silent)
    try:
        yield kafka.client_settings
    finally:
        await kafka.stop(found(kafka))


def found(kafka: Kafka) -> Running:
    running = kafka.find()
    assert running is not None
    return running


# --- the password -----------------------------------------------------------------------------------------


async def test_a_password_file_that_holds_none_ends_in_a_sentence_and_starts_nothing(home: Path) -> None:
    prepare(home).kafka_password.touch()
    with pytest.raises(
        Refused, match=r"The password of the embedded Kafka cannot be used: .*kafka/password' holds none"
    ):
        async with lease(home, silent):
            pass
    assert Kafka(Folders.of(home)).find() is None


async def test_a_password_that_was_removed_is_missed_while_kafka_runs_and_replaced_when_it_starts(home: Path) -> None:
    kafka = Kafka(prepare(home))
    async with started(kafka) as first:
        kafka.folders.kafka_password.unlink()
        with pytest.raises(Refused, match=r"kafka/password' does not exist\. Stop both servers"):
            await kafka.comes_up(found(kafka).pid)
    async with started(kafka) as second:
        assert second.bootstrap == first.bootstrap
        with pytest.raises(Refused, match="refuses the login"):
            await reach(first, 5.0)
