"""The shared pair of servers: the first user starts it and the last one stops it, unless someone ran `up`.

There is no daemon. The next user checks the processes themselves and repairs what is broken: half-started or killed
servers are restarted on the same data, and a killed user no longer counts. A long-lived user, such as a service, keeps
checking. A Kafka that a release before 0.3 has started accepts all clients: `status` refuses to use it, and the next
user restarts it with a password.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol

import structlog

from poweron_events.errors import PowerOnError, Refused
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.retry import Outage
from poweron_events.task_cancellation import cancel_task, finish
from poweron_services import shutdown
from poweron_services.embedded.folders import Folders, State, expect_space, explained, load, prepare, save
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.postgres_server import Postgres, forget_short_folder, short_folder
from poweron_services.embedded.server_process import START_DEADLINE, Running
from poweron_services.embedded.users import User, join, living, locked

log = structlog.get_logger()


WATCH_PERIOD: Final = 1.0  # seconds between two checks by a user that restarts servers


LONGEST_PAUSE: Final = 60.0  # seconds at most until a failed restart is retried


SILENT_FOR: Final = 5.0  # seconds that a running server may take to answer before a message is shown


SILENT: Final = (
    f"{{}} is running but does not answer. If it has not answered after {START_DEADLINE:g} s, it is started again."
)


@dataclass(frozen=True, slots=True)
class Servers:
    """A running pair: settings for Kafka clients, a DSN for asyncpg, and the data directory of both servers."""

    kafka: KafkaSettings
    postgres: str
    home: Path

    @property
    def kafka_password_file(self) -> Path:
        return Folders.of(self.home).kafka_password


class Server(Protocol):
    """The interface that Kafka and Postgres share.

    `find` looks for the process, `answers` asks the server itself. `start` and `comes_up` return when it answers;
    `start` raises `Refused` or `Unavailable` with a message for the user if it never does.
    """

    def find(self) -> Running | None: ...
    def answers(self) -> bool: ...
    async def start(self, progress: Callable[[str], None]) -> None: ...
    async def comes_up(self, pid: int) -> bool: ...
    async def stop(self, process: Running) -> None: ...


@asynccontextmanager
async def lease(
    home: Path, progress: Callable[[str], None], *, fsync: bool = False, mend: bool = False
) -> AsyncGenerator[Servers, None]:
    """Use the pair of this data directory, and start it if needed; the last user to leave stops it.

    Args:
        home: the data directory.
        progress: receives progress messages in whole sentences.
        fsync: make a broker that is started now force each record to disk, which leaves some 60 % of its throughput.
        mend: restart servers that die in the meantime; servers that `down` stopped stay stopped.
    """
    folders = await asyncio.to_thread(prepare, home)
    user = await _join(folders, progress)
    with shutdown.at_deadline(partial(_kill_unused, folders, user)):
        try:
            servers = await _run(folders, progress, fsync=fsync)
            async with _mending(servers, folders, progress, fsync=fsync) if mend else nullcontext():
                yield servers
        finally:
            await finish(_leave(folders, user, progress))


async def up(home: Path, progress: Callable[[str], None], *, fsync: bool = False) -> Servers:
    """Start the pair if needed and keep it running until `down`, even without users."""
    async with lease(home, progress, fsync=fsync) as servers:
        folders = prepare(home)
        async with locked(folders.lock, progress):
            save(folders.state, replace(load(folders.state), kept=True))
    return servers


async def down(home: Path, progress: Callable[[str], None] = lambda _: None) -> bool:
    """Stop the pair, even if it has users. Return False if nothing was running."""
    if not Folders.of(home).servers.exists():
        return False
    folders = await asyncio.to_thread(prepare, home)
    async with locked(folders.lock, progress):
        save(folders.state, replace(load(folders.state), kept=False, down=True))
        return await _stop(folders)


def status(home: Path) -> tuple[Servers | None, Collection[str]]:
    """Return the pair, or None if neither server answers, and the names (`Kafka`, `Postgres`) of those that do not.

    This asks the servers themselves, because a state file may be stale.
    """
    folders = Folders.of(home)
    with explained(folders.home):
        kafka, postgres = _pair(folders, load(folders.state))
        refuse(kafka, folders)
        both = (("Kafka", kafka), ("Postgres", postgres))
        silent = [name for name, server in both if server.find() is None or not server.answers()]
        running = len(silent) < len(both)
        return Servers(kafka.client_settings, postgres.dsn, folders.home) if running else None, silent


async def _join(folders: Folders, progress: Callable[[str], None]) -> User:
    async with locked(folders.lock, progress):
        return join(folders.users)


async def _leave(folders: Folders, user: User, progress: Callable[[str], None]) -> None:
    async with locked(folders.lock, progress):
        user.leave()
        if not living(folders.users) and not load(folders.state).kept:
            progress("Stopping Kafka and Postgres…")
            await _stop(folders)


def _kill_unused(folders: Folders, user: User) -> None:
    """Kill the pair when the time to stop it has passed, unless it is kept or in use; the next start recovers it."""
    if not user.is_alone() or load(folders.state).kept:
        return
    for server in _pair(folders, load(folders.state)):
        if (process := server.find()) is not None:
            process.kill()


async def _run(folders: Folders, progress: Callable[[str], None], *, fsync: bool) -> Servers:
    async with locked(folders.lock, progress):
        with explained(folders.home):
            state = await asyncio.to_thread(_current_state, folders)
        return await _ensure_pair(folders, state, progress, fsync=fsync)


async def _ensure_pair(folders: Folders, state: State, progress: Callable[[str], None], *, fsync: bool) -> Servers:
    """Make sure that both servers are running. Call this under the lock."""
    kafka, postgres = _pair(folders, state, fsync=fsync)
    with explained(folders.home):
        await stop(kafka, folders, progress)
        await _both(_ensure("Kafka", kafka, folders, progress), _ensure("Postgres", postgres, folders, progress))
        return Servers(kafka.client_settings, postgres.dsn, folders.home)


@asynccontextmanager
async def _mending(
    servers: Servers, folders: Folders, progress: Callable[[str], None], *, fsync: bool
) -> AsyncGenerator[None, None]:
    mending = asyncio.create_task(_mend(servers, folders, progress, fsync=fsync))
    try:
        yield
    finally:
        await cancel_task(mending)


async def _mend(servers: Servers, folders: Folders, progress: Callable[[str], None], *, fsync: bool) -> None:
    """Keep checking that both servers are alive and restart any that died; report failures, with growing pauses."""
    pause, before, outage = WATCH_PERIOD, "well", Outage()
    while True:
        await asyncio.sleep(pause)
        try:
            condition = await asyncio.to_thread(_condition, folders)
            if condition != before and condition == "down":
                progress("A user stopped Kafka and Postgres; they stay stopped until a user starts them.")
            before = condition
            if condition == "died" and await _restart(folders, progress, fsync=fsync) != servers:
                progress(
                    "It has another address now, since another program took the old one. Start this command again."
                )
        except PowerOnError as error:
            progress(str(error))
            _log_failed_start(error)
            outage.failed(error)
            pause = min(2 * pause, LONGEST_PAUSE)
        else:
            pause = WATCH_PERIOD
            outage.ended()


def _log_failed_start(error: PowerOnError) -> None:
    if isinstance(error, Refused):
        log.error("embedded_server_error", error=str(error))


async def _restart(folders: Folders, progress: Callable[[str], None], *, fsync: bool) -> Servers:
    """Restart what died, unless `down` was run. A pair that was kept stays kept, since no user stopped it."""
    async with locked(folders.lock, progress):
        state = load(folders.state)
        if await asyncio.to_thread(_condition, folders) == "died":
            progress("A server has ended. Starting it again…")
            return await _ensure_pair(folders, state, progress, fsync=fsync)
        kafka, postgres = _pair(folders, state)
        return Servers(kafka.client_settings, postgres.dsn, folders.home)


def _condition(folders: Folders) -> Literal["well", "died", "down"]:
    """Return whether both servers are alive, one of them died, or `down` was run."""
    with explained(folders.home):
        state = load(folders.state)
        if state.down:
            return "down"
        return "died" if any(server.find() is None for server in _pair(folders, state)) else "well"


def _current_state(folders: Folders) -> State:
    """Save and return the state before anything is started. A pair that is kept stays so until `down`."""
    state = replace(load(folders.state), down=False)
    if not any(server.find() for server in _pair(folders, state)):
        short = short_folder(folders, state.socket_folder)
        state = replace(state, socket_folder=str(short) if short else None)
    save(folders.state, state)
    return state


def _pair(folders: Folders, state: State, *, fsync: bool = False) -> tuple[Kafka, Postgres]:
    short = Path(state.socket_folder) if state.socket_folder else None
    return Kafka(folders, fsync), Postgres(folders, short)


async def _ensure(name: str, server: Server, folders: Folders, progress: Callable[[str], None]) -> None:
    process = await asyncio.to_thread(server.find)
    if process is not None:
        reminder = asyncio.get_running_loop().call_later(SILENT_FOR, progress, SILENT.format(name))
        try:
            if await server.comes_up(process.pid):
                return
        finally:
            reminder.cancel()
        await server.stop(process)
    expect_space(folders)
    await server.start(progress)


async def _stop(folders: Folders) -> bool:
    servers = [(server, await asyncio.to_thread(server.find)) for server in _pair(folders, load(folders.state))]
    running = [server.stop(process) for server, process in servers if process is not None]
    await _both(*running)
    forget_short_folder(load(folders.state).socket_folder)
    return bool(running)


async def _both(*steps: Coroutine[None, None, None]) -> None:
    """Run the steps concurrently; the first error cancels the others and is raised unwrapped."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for step in steps:
                tasks.create_task(step)
    except ExceptionGroup as errors:
        first = errors.exceptions[0]
    else:
        return
    raise first


def refuse(kafka: Kafka, folders: Folders) -> None:
    """Refuse to continue while a Kafka without a password is running.

    Raises:
        Refused: such a Kafka is running.
    """
    if _running(kafka) is not None:
        raise Refused(f"{_description(folders)} The next command that uses it restarts it, with a password.")


async def stop(kafka: Kafka, folders: Folders, progress: Callable[[str], None]) -> None:
    """Stop a Kafka without a password if one is running and has no other user. Call this under the lock, as a user.

    Raises:
        Refused: it has other users.
    """
    process = await asyncio.to_thread(_running, kafka)
    if process is None:
        return
    others = living(folders.users) - 1
    if others:
        raise Refused(
            f"{_description(folders)} It must restart to get a password, and {others} more of your commands or "
            "services use it: end them and try again."
        )
    progress(f"{_description(folders)} Stopping it…")
    await kafka.stop(process)


def _running(kafka: Kafka) -> Running | None:
    process = kafka.find()
    return None if process is None or kafka.asks_for_password() else process


def _description(folders: Folders) -> str:
    return f"The Kafka of {str(folders.home)!r} was started by an older PowerOn and accepts every user of this machine."
