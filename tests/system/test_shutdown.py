"""SIGTERM and Ctrl-C at any moment: an exit within five seconds, with a sentence, and no servers left behind."""

import asyncio
import random
import signal
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from commands import DEADLINE, Ended, Shell, ended, told
from own import OwnServers, frozen, own_servers
from providers import KEY
from servers import furnished
from test_floods import GREEDY, opening

from poweron_events import topics, workflow_id
from poweron_services.client.connect import Connections, connect
from poweron_services.embedded.folders import Folders
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.postgres_server import Postgres
from poweron_services.embedded.users import locked
from poweron_services.settings.config import Settings

EXIT_DEADLINE = 5.0  # seconds that were promised
SLOW = 3.0  # seconds more, on a machine with other tests beside
LATEST = 6.0  # seconds after the start at which a signal is sent
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
NOT_YET_PYTHON = 0.3  # seconds in which the interpreter itself may still be starting
MANY = 60  # workflows in progress
OPEN = "SELECT count(*) FROM workflows WHERE is_open AND workflow_id = ANY($1::text[]::uuid[])"
COMPLAINTS = ("Traceback", "never awaited", "Unclosed", "Exception ignored")


@pytest.fixture
async def own_shell(tmp_path: Path, software: Path) -> AsyncGenerator[Shell, None]:
    """A shell whose commands start servers of their own, which end with the test."""
    home = tmp_path / "home"
    furnished(home, software)
    shell = Shell({"POWERON_HOME": str(home), "POWERON_KAFKA": "", "POWERON_POSTGRES": ""}, tmp_path)
    yield shell
    await shell("down")


def home_of(shell: Shell) -> Path:
    return Path(shell.environment["POWERON_HOME"])


def servers_of(shell: Shell) -> list[psutil.Process]:
    folders = Folders.of(home_of(shell))
    return [psutil.Process(found.pid) for server in (Kafka(folders), Postgres(folders)) if (found := server.find())]


async def stopped(process: asyncio.subprocess.Process, how: signal.Signals, *, twice: bool = False) -> Ended:
    """Signal a command, once or twice, and see it end in time, without a complaint of Python or of a library."""
    began = time.monotonic()
    process.send_signal(how)
    if twice:
        await asyncio.sleep(0.1)
        if process.returncode is None:
            process.send_signal(how)
    found = await ended(process)
    assert time.monotonic() - began < EXIT_DEADLINE + SLOW
    assert not [each for each in COMPLAINTS if each in found.out + found.err], found.err
    return found


def expect_clean_log(shell: Shell) -> None:
    log = home_of(shell) / "poweron.log"
    assert not log.exists() or not [each for each in COMPLAINTS if each in log.read_text()]


COMMANDS = {
    "ask": ("ask", "Say hello."),
    "up": ("up",),
    "serve": ("serve",),
    "workflows": ("workflows",),
    "status": ("status",),
    "verify": ("verify",),
}


async def signalled(shell: Shell, command: str, delay: float, how: signal.Signals, *, twice: bool) -> None:
    process = await shell.start(*COMMANDS[command])
    await asyncio.sleep(delay)
    if process.returncode is not None:
        return
    found = await stopped(process, how, twice=twice)
    if command == "serve":
        assert found.code == 0, found.err
    elif found.code in CODES.values():
        assert found.code == CODES[how]
        assert "Stopped" in found.err
    if found.code in CODES.values() or command == "serve":
        assert servers_of(shell) == []
    expect_clean_log(shell)


@pytest.mark.parametrize(("command", "delay"), [("ask", 0.5), ("up", 2.5), ("ask", 4.0), ("serve", 4.0)])
async def test_a_signal_while_a_command_starts_leaves_nothing_behind(
    own_shell: Shell, command: str, delay: float
) -> None:
    await signalled(own_shell, command, delay, signal.SIGTERM, twice=False)


@pytest.mark.soak
@pytest.mark.parametrize("how", CODES)
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_signal_at_any_moment_leaves_nothing_behind(
    own_shell: Shell, command: str, how: signal.Signals
) -> None:
    moments = random.Random(command)
    for number in range(12):
        delay = moments.uniform(NOT_YET_PYTHON, LATEST)
        await signalled(own_shell, command, delay, how, twice=number % 2 == 1)
        await own_shell("down")


async def test_ctrl_c_twice_names_the_workflow_and_stops_the_servers(own_shell: Shell) -> None:
    asking = await own_shell.start("ask", "Say hello.", "--no-serve")
    workflow = (await told(asking, "Workflow ")).removeprefix("Workflow ")
    found = await stopped(asking, signal.SIGINT, twice=True)
    assert found.code == CODES[signal.SIGINT]
    assert f"Stopped, but workflow {workflow} remains in the log." in found.err
    assert servers_of(own_shell) == []
    expect_clean_log(own_shell)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, software: Path) -> Generator[OwnServers, None, None]:
    """Servers that the tests of this module freeze."""
    with own_servers(tmp_path_factory.mktemp("own"), software) as servers:
        yield servers


@contextmanager
def silent_provider() -> Generator[dict[str, str], None, None]:
    """The settings for a model whose provider lets everybody connect and answers nobody."""
    with socket.create_server(("127.0.0.1", 0), backlog=2 * MANY) as provider:
        yield {
            "POWERON_MODEL": "openai:test",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{provider.getsockname()[1]}/v1",
            "OPENAI_API_KEY": KEY,
        }


async def many_in_progress(connections: Connections, name: str) -> None:
    """Send many requests and wait until the projection has all of them open."""
    ids = [f"{name} {number}" for number in range(MANY)]
    await connections.log.append(topics.REQUESTS.name, [opening(each) for each in ids])
    workflows = [workflow_id(GREEDY, each) for each in ids]
    async with asyncio.timeout(DEADLINE):
        while await connections.pool.fetchval("SELECT to_regclass('workflows')") is None:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.05)
        while await connections.pool.fetchval(OPEN, workflows) < MANY:  # noqa: ASYNC110 - another process' table says so
            await asyncio.sleep(0.05)


@pytest.mark.soak
@pytest.mark.parametrize("which", ["kafka", "postgres"])
async def test_a_service_at_work_exits_in_time_while_a_server_is_frozen(
    own: OwnServers, tmp_path: Path, which: str
) -> None:
    settings, pair = Settings(home=tmp_path), own.pair
    with silent_provider() as model:
        shell = Shell(own.environment(tmp_path) | model, tmp_path)
        process = await shell.start("serve")
        await _line(process, "service_started")
        async with connect(settings, kafka=pair.kafka, postgres=pair.postgres) as connections:
            await many_in_progress(connections, which)
        thaw = frozen(getattr(own, which)())
        try:
            found = await stopped(process, signal.SIGTERM)
        finally:
            thaw()
    assert found.code == 0


@pytest.mark.soak
async def test_ask_exits_in_time_while_its_own_kafka_is_frozen_and_a_lock_is_held(own_shell: Shell) -> None:
    """The process that holds the lock of the servers does not use them, so they are killed at the deadline."""
    asking = await own_shell.start("ask", "Say hello.", "--no-serve")
    workflow = (await told(asking, "Workflow ")).removeprefix("Workflow ")
    kafka = next(each for each in servers_of(own_shell) if each.name() == "java")
    frozen(kafka)  # until it is killed
    async with locked(Folders.of(home_of(own_shell)).lock, lambda _: None):
        found = await stopped(asking, signal.SIGTERM)
    assert found.code == CODES[signal.SIGTERM]
    assert f"Stopped, but workflow {workflow} remains in the log." in found.err
    assert servers_of(own_shell) == []


async def _line(process: asyncio.subprocess.Process, part: str) -> None:
    """Wait for a line of the log."""
    assert process.stderr is not None
    async with asyncio.timeout(DEADLINE):
        while line := await process.stderr.readline():
            if part.encode() in line:
                return
    raise AssertionError(f"no line of the log holds {part!r}")
