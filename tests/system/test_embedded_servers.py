"""The embedded pair as processes share it, lose it and find it again: real Kafka, real Postgres, real kills."""

import asyncio
import os
import pwd
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncpg
import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from own import frozen
from processes import command_lines
from servers import FirstRun, furnished

from poweron_events.errors import Refused, Unavailable
from poweron_events.log.kafka_clients import reach
from poweron_services import unprivileged
from poweron_services.embedded import Servers, down, folders, lease, nobody, status, up
from poweron_services.embedded.folders import Folders, load, save
from poweron_services.embedded.kafka_server import Kafka, StartCache
from poweron_services.embedded.postgres_server import Postgres
from poweron_services.embedded.server_process import Running, start_apart, true_within
from poweron_services.embedded.users import locked

STOPPED = (None, ["Kafka", "Postgres"])

pytestmark = pytest.mark.system

DEADLINE = 60.0  # seconds for anything that another process does
RIGHTS = ("CapEff", "CapPrm", "CapInh", "CapAmb")  # as Linux tells them of a process

USER = """
import asyncio, sys
from pathlib import Path
from poweron_services.embedded import lease

def say(sentence):
    print(sentence, flush=True)

async def main():
    async with lease(Path(sys.argv[1]), say) as servers:
        say("ready " + servers.kafka.bootstrap)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

asyncio.run(main())
"""


def silent(_: str) -> None:
    return


@pytest.fixture
async def home(tmp_path_factory: pytest.TempPathFactory, software: Path) -> AsyncGenerator[Path, None]:
    """A fresh data directory, with room for a socket in its path, whose servers end with the test, whatever it did."""
    fresh = furnished(tmp_path_factory.mktemp("h") / "home", software)
    yield fresh
    await down(fresh)


@asynccontextmanager
async def another_user(home: Path) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A process of its own that leases the pair until its input ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", USER, str(home)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def hears(process: asyncio.subprocess.Process, beginning: str) -> str:
    """The next line of the other user that begins like this."""
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        async for line in process.stdout:
            if line.decode().startswith(beginning):
                return line.decode().strip()
    raise AssertionError(f"the other user ended without saying {beginning!r}")


async def ends(process: asyncio.subprocess.Process) -> int | None:
    async with asyncio.timeout(DEADLINE):
        await process.communicate(b"\n" if process.returncode is None else None)
    return process.returncode


async def killed(process: asyncio.subprocess.Process) -> None:
    process.kill()
    async with asyncio.timeout(DEADLINE):
        await process.communicate()


def kafka_of(home: Path) -> Running:
    found = Kafka(Folders.of(home)).find()
    assert found is not None
    return found


def postgres_of(home: Path) -> Running:
    found = Postgres(Folders.of(home)).find()
    assert found is not None
    return found


def nothing_runs(home: Path) -> bool:
    folders = Folders.of(home)
    return Kafka(folders).find() is None and Postgres(folders).find() is None


def is_socket(path: Path) -> bool:
    return path.is_socket()


def kill(running: Running) -> None:
    running.handle.kill()
    psutil.wait_procs([running.handle], timeout=10)


async def another_process_with_the_rights_of_postgres(home: Path) -> Running:
    command = nobody.command(["/bin/sleep", "600"])
    pid = await start_apart(command, folder=home, log=home / "stranger.log", env={})
    return Running(psutil.Process(pid))


def give_id_to(stranger: Running, lock: Path) -> None:
    """As after a reboot: the file is old, its process id is in use again."""
    rest = lock.read_text().partition("\n")[2]
    lock.write_text(f"{stranger.pid}\n{rest}")


async def remember(servers: Servers, what: str) -> None:
    """Write the word to both servers."""
    admin = AIOKafkaAdminClient(**servers.kafka.client_options())
    await admin.start()
    await admin.create_topics([NewTopic("words", 1, 1)])
    await admin.close()
    async with AIOKafkaProducer(**servers.kafka.client_options(), acks="all") as producer:
        await producer.send_and_wait("words", what.encode())
    connection = await asyncpg.connect(servers.postgres)
    await connection.execute("CREATE TABLE words (word text)")
    await connection.execute("INSERT INTO words VALUES ($1)", what)
    await connection.close()


async def recall(servers: Servers) -> tuple[str, str]:
    consumer = AIOKafkaConsumer("words", **servers.kafka.client_options(), auto_offset_reset="earliest")
    async with consumer, asyncio.timeout(DEADLINE):
        record = await consumer.getone()
    connection = await asyncpg.connect(servers.postgres)
    word = await connection.fetchval("SELECT word FROM words")
    await connection.close()
    return record.value.decode(), word


def test_everything_is_fetched_made_and_stopped_under_one_directory(first_run: FirstRun) -> None:
    assert {"Downloading Kafka (43 MB, once)…", "Starting Kafka…", "Starting Postgres…"} < set(first_run.said)
    assert first_run.said[-1] == "Stopping Kafka and Postgres…"
    assert nothing_runs(first_run.home)
    assert list(first_run.user.iterdir()) == []
    assert asyncio.run(true_within(DEADLINE, StartCache.of(first_run.software).path.exists))


async def test_the_last_of_two_processes_stops_the_pair(home: Path) -> None:
    async with another_user(home) as other:
        theirs = await hears(other, "ready")
        async with lease(home, silent) as servers:
            assert theirs == f"ready {servers.kafka.bootstrap}"
        assert status(home) == (servers, [])
        assert await ends(other) == 0
    assert nothing_runs(home)
    assert status(home) == STOPPED


@pytest.mark.soak
async def test_three_processes_that_start_at_once_get_one_pair(home: Path) -> None:
    async with another_user(home) as one, another_user(home) as two, another_user(home) as three:
        said = [await hears(user, "ready") for user in (one, two, three)]
        assert len(set(said)) == 1
        assert sum(str(home / "servers/kafka/server.properties") in line for line in command_lines()) == 1
        for user in (one, two):
            assert await ends(user) == 0
        assert status(home)[1] == []
        assert await ends(three) == 0
    assert nothing_runs(home)


@pytest.mark.soak
async def test_a_killed_user_leaves_the_pair_to_the_next_who_stops_it(home: Path) -> None:
    async with another_user(home) as other:
        await hears(other, "ready")
        before = kafka_of(home).pid, postgres_of(home).pid
        await killed(other)
    assert status(home)[1] == []
    async with lease(home, silent):
        assert (kafka_of(home).pid, postgres_of(home).pid) == before
    assert nothing_runs(home)


@pytest.mark.parametrize("moment", ["Starting Kafka", pytest.param("Starting Postgres", marks=pytest.mark.soak)])
async def test_a_user_killed_while_starting_is_finished_by_the_next(home: Path, moment: str) -> None:
    async with another_user(home) as other:
        await hears(other, moment)
        await killed(other)
    async with lease(home, silent) as servers:
        await remember(servers, "second")
        assert await recall(servers) == ("second", "second")
    assert nothing_runs(home)


async def test_ctrl_c_reaches_the_user_and_not_the_servers(home: Path) -> None:
    async with another_user(home) as other:
        await hears(other, "ready")
        sessions = {os.getsid(running.pid) for running in (kafka_of(home), postgres_of(home))}
        assert other.pid not in sessions
        os.killpg(other.pid, signal.SIGINT)
        assert await hears(other, "Stopping") == "Stopping Kafka and Postgres…"
        await ends(other)
    assert nothing_runs(home)


async def test_a_killed_kafka_and_a_killed_postgres_come_back_with_their_data_and_addresses(home: Path) -> None:
    async with lease(home, silent) as servers:
        await remember(servers, "kept")
        kill(kafka_of(home))
        assert status(home) == (servers, ["Kafka"])
        async with lease(home, silent) as again:
            assert again == servers
            kill(postgres_of(home))
            assert status(home) == (servers, ["Postgres"])
            async with lease(home, silent) as third:
                assert third == servers
                assert await recall(third) == ("kept", "kept")
    assert nothing_runs(home)


@pytest.mark.soak
async def test_a_user_who_mends_needs_nobody_to_start_a_killed_server_again(home: Path) -> None:
    async with lease(home, silent, mend=True) as servers:
        await remember(servers, "kept")
        for server in (kafka_of, postgres_of):
            before = server(home)
            kill(before)
            assert await true_within(DEADLINE, lambda: status(home) == (servers, []))
            assert server(home) != before
        assert await recall(servers) == ("kept", "kept")
    assert nothing_runs(home)


@pytest.mark.soak
async def test_what_was_stopped_on_purpose_is_not_mended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poweron_services.embedded.pair.WATCH_PERIOD", 0.01)
    said: list[str] = []
    async with lease(home, said.append, mend=True):
        await down(home)
        assert not await true_within(2, lambda: not nothing_runs(home))
        assert said[-1] == "A user stopped Kafka and Postgres; they stay stopped until a user starts them."
        async with lease(home, silent) as again:
            assert status(home) == (again, [])
    assert nothing_runs(home)


@pytest.mark.soak
async def test_who_waited_to_mend_finds_that_it_was_stopped_meanwhile(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poweron_services.embedded.pair.WATCH_PERIOD", 0.01)
    folders, said = Folders.of(home), list[str]()
    async with lease(home, said.append, mend=True):
        async with locked(folders.lock, silent):
            kill(kafka_of(home))
            assert await true_within(DEADLINE, lambda: any(line.startswith("Waiting for another") for line in said))
            save(folders.state, replace(load(folders.state), down=True))
            kill(postgres_of(home))
        assert not await true_within(2, lambda: not nothing_runs(home))


@pytest.mark.soak
async def test_a_pair_that_is_mended_is_still_kept(home: Path) -> None:
    servers = await up(home, silent)
    async with lease(home, silent, mend=True):
        kill(kafka_of(home))
        kill(postgres_of(home))
        assert await true_within(DEADLINE, lambda: status(home) == (servers, []))
    assert status(home) == (servers, [])


@pytest.mark.soak
@pytest.mark.parametrize("which", ["kafka", "postgres"])
async def test_a_frozen_server_is_named_and_used_when_it_answers_or_started_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    servers = await up(home, silent)
    server = kafka_of(home) if which == "kafka" else postgres_of(home)
    named = f"{which.title()} is running but does not answer. If it has not answered after 90 s, it is started again."
    monkeypatch.setattr("poweron_services.embedded.pair.SILENT_FOR", 0.5)
    thaw = frozen(server.handle)
    said: list[str] = []

    def say_and_thaw(sentence: str) -> None:
        said.append(sentence)
        thaw()

    async with lease(home, say_and_thaw) as again:
        assert (again, said) == (servers, [named])

    frozen(server.handle)
    with pytest.MonkeyPatch.context() as impatient:
        impatient.setattr("poweron_services.embedded.server_process.START_DEADLINE", 1.0)
        impatient.setattr(f"poweron_services.embedded.{which}_server.STOP_DEADLINE", 0.5)

        def say_and_be_patient(sentence: str) -> None:
            said.append(sentence)
            if sentence != named:
                impatient.undo()

        async with lease(home, say_and_be_patient) as again:
            assert (again, said) == (servers, [named, named, f"Starting {which.title()}…"])
    assert server.is_gone()


@pytest.mark.soak
async def test_who_cannot_mend_says_why_and_tries_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poweron_services.embedded.pair.WATCH_PERIOD", 0.01)
    said: list[str] = []
    async with lease(home, said.append, mend=True) as servers:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("poweron_services.embedded.pair.expect_space", no_space)
            kill(kafka_of(home))
            assert await true_within(DEADLINE, lambda: "No space." in said)
        assert await true_within(DEADLINE, lambda: status(home) == (servers, []))


def no_space(_: Folders) -> None:
    raise Unavailable("No space.")


@pytest.mark.soak
async def test_after_a_crash_of_the_whole_machine_the_data_are_there(home: Path) -> None:
    servers = await up(home, silent)
    await remember(servers, "durable")
    kill(kafka_of(home))
    kill(postgres_of(home))
    assert status(home) == STOPPED
    stranger = await another_process_with_the_rights_of_postgres(home)
    (home / "servers/kafka/server.pid").write_text(str(stranger.pid))
    give_id_to(stranger, home / "servers/postgres/data/postmaster.pid")
    give_id_to(stranger, home / "servers/postgres/.s.PGSQL.5432.lock")
    async with lease(home, silent) as again:
        await stranger.stop(signal.SIGKILL, 10)
        assert again == servers
        assert await recall(again) == ("durable", "durable")
    assert status(home) == (servers, [])  # somebody said `up`


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try the door as somebody else")
async def test_nobody_else_reaches_postgres_and_it_may_no_more_than_pass_doors(home: Path) -> None:
    async with lease(home, silent):
        tried = [str(folders.postgres() / "pg_isready"), "-h", str(home / "servers/postgres"), "-p", "5432"]
        assert await exit_code(*tried) == 0
        assert await exit_code(*tried, user=65534) == 2
        server = postgres_of(home).handle
        assert server.uids().effective == pwd.getpwnam("nobody").pw_uid
        processes = [server, *server.children(recursive=True)]
        assert len(processes) > 1
        for process in processes:
            assert rights(process.pid) == dict.fromkeys(RIGHTS, 1 << unprivileged.CAP_DAC_OVERRIDE) | {"NoNewPrivs": 1}


async def exit_code(*command: str, user: int | None = None) -> int:
    process = await asyncio.create_subprocess_exec(*command, user=user, stdout=asyncio.subprocess.DEVNULL)
    return await process.wait()


def rights(pid: int) -> dict[str, int]:
    """What the process may do now, what it can take, what it hands on, and whether a program can add to that."""
    found = re.findall(
        rf"^({'|'.join(RIGHTS)}|NoNewPrivs):\s+(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    return {name: int(value, 16) for name, value in found}


async def test_up_lets_the_pair_run_until_down_and_leases_take_no_time(home: Path) -> None:
    servers = await up(home, silent)
    loop = asyncio.get_running_loop()
    taken: list[float] = []
    for _ in range(5):
        begun = loop.time()
        async with lease(home, silent) as leased:
            taken.append(loop.time() - begun)
            assert leased == servers
    assert min(taken) < 0.1
    assert status(home) == (servers, [])
    assert await down(home) is True
    assert nothing_runs(home)
    assert await down(home) is False


async def test_a_port_taken_by_something_else_is_exchanged_and_so_is_the_password(home: Path) -> None:
    async with lease(home, silent) as servers:
        port = int(servers.kafka.bootstrap.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        async with lease(home, silent) as moved:
            assert moved.kafka.bootstrap != servers.kafka.bootstrap
            with pytest.raises(Refused, match="refuses the login of"):  # as for who passes on what clients say there
                await reach(replace(servers.kafka, bootstrap=moved.kafka.bootstrap), 5.0)
    assert nothing_runs(home)


@pytest.mark.soak
async def test_a_broker_that_cannot_start_says_why_and_leaves_nothing_running(home: Path) -> None:
    async with lease(home, silent):
        pass
    (home / "servers/kafka/data/meta.properties").write_text("version=1\n")
    with pytest.raises(Unavailable, match=r"(?s)Kafka failed\. Its last lines:\n.*No readable meta\.properties"):
        async with lease(home, silent):
            pass
    assert nothing_runs(home)


async def test_a_long_path_with_odd_characters_works_and_leaves_no_socket_behind(
    tmp_path: Path, software: Path
) -> None:
    home = furnished(tmp_path / ("long, länger: 'ö\" " * 6).strip(), software)
    async with lease(home, silent) as servers:
        await remember(servers, "far")
        assert await recall(servers) == ("far", "far")
        short = load(home / "servers/state.json").socket_folder
        assert short is not None
        assert is_socket(Path(short) / ".s.PGSQL.5432")
    assert not is_socket(Path(short) / ".s.PGSQL.5432")
    assert nothing_runs(home)
