"""One PostgreSQL server, reached through a Unix socket in a folder that only its owner can enter.

No other user of this machine can connect, and no port or password is needed.
"""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from poweron_events.errors import Refused
from poweron_services.embedded import folders, nobody
from poweron_services.embedded.folders import PRIVATE, Folders, aside
from poweron_services.embedded.server_process import (
    Program,
    Running,
    clean_env,
    comes_up,
    failure,
    fresh_log,
    run,
    start_apart,
    working_in,
    written_pid,
)

PORT = 5432  # used only as the suffix of the socket's name
DATABASE = "poweron"
ROLE = "poweron"
SOCKET_PATH_LIMIT = 107  # bytes, a limit of the kernel
STOP_DEADLINE = 30.0  # seconds
PROBE_TIMEOUT = 5.0  # seconds
LEFT_OVER_DEADLINE = 10.0  # seconds

INITDB = (
    "--username=postgres", "--auth=trust", "--encoding=UTF8",
    "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
)  # fmt: skip
SINGLE_USER = ("--single", "-c", "exit_on_error=true")  # reads one statement per line from its input and exits
FIRST_WORDS = f"CREATE ROLE {ROLE} LOGIN CREATEDB\nCREATE DATABASE {DATABASE} OWNER {ROLE}\n"


@dataclass(frozen=True, slots=True)
class Postgres:
    """The server of one data directory; `short` is the folder for its socket if the usual path is unsuitable."""

    folders: Folders
    short: Path | None = None

    @property
    def dsn(self) -> str:
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self.socket_folder()), safe='')}&port={PORT}"

    def find(self) -> Running | None:
        return Program("postgres", str(self._data)).find(written_pid(self._data / "postmaster.pid"))

    def answers(self) -> bool:
        ready = [str(folders.postgres() / "pg_isready"), "-h", str(self.socket_folder()), "-p", str(PORT), "-q"]
        try:
            return subprocess.run(ready, env=clean_env(), timeout=PROBE_TIMEOUT, check=False).returncode == 0  # noqa: S603
        except subprocess.TimeoutExpired:
            return False

    async def start(self, progress: Callable[[str], None]) -> None:
        """Start the server on its data, which is created if needed, and wait until it answers."""
        progress("Starting Postgres…")
        programs = await asyncio.to_thread(nobody.programs)
        await self._create_once(programs)
        await self._end_left_overs()
        log = fresh_log(self.folders.postgres / "server.log")
        command = nobody.command([str(programs / "postgres"), "-D", str(self._data), *self._settings()])
        pid = await start_apart(command, folder=self.folders.postgres, log=log, env=clean_env(), program="postgres")
        if not await self.comes_up(pid):
            raise failure("Postgres", log.read_text(errors="replace"))

    async def comes_up(self, pid: int) -> bool:
        return await comes_up(pid, self.answers)

    async def stop(self, process: Running) -> None:
        await process.stop(signal.SIGINT, STOP_DEADLINE)

    def socket_folder(self) -> Path:
        return self.short or self.folders.postgres

    @property
    def _data(self) -> Path:
        return self.folders.postgres / "data"

    def _settings(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_folder()),
            "unix_socket_permissions": "0700",
            "port": str(PORT),
            "timezone": "UTC",
            "log_timezone": "UTC",
            "synchronous_commit": "off",  # all rows are derived from the log: what a crash loses is rebuilt
        }
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    async def _create_once(self, programs: Path) -> None:
        if self._data.exists():
            return
        _expect_name()
        fresh = aside(self.folders.postgres)
        initdb = nobody.command([str(programs / "initdb"), "-D", str(fresh), *INITDB])
        await run(initdb, folder=self.folders.postgres, env=clean_env())
        first = nobody.command([str(programs / "postgres"), *SINGLE_USER, "-D", str(fresh), "postgres"])
        await run(first, folder=self.folders.postgres, env=clean_env(), typed=FIRST_WORDS)
        fresh.rename(self._data)

    async def _end_left_overs(self) -> None:
        """End the workers of a killed server, which hold its memory, and remove its locks: their pid may be reused."""
        for process in working_in(self._data, "postgres"):
            await process.stop(signal.SIGKILL, LEFT_OVER_DEADLINE)
        for lock in (self._data / "postmaster.pid", self.socket_folder() / f".s.PGSQL.{PORT}.lock"):
            lock.unlink(missing_ok=True)


def short_folder(folders: Folders, remembered: str | None) -> Path | None:
    """Return a private folder with a short path if ours is too long for a socket or has a comma or quote; else None."""
    path = str(folders.postgres)
    if len(os.fsencode(f"{path}/.s.PGSQL.{PORT}")) <= SOCKET_PATH_LIMIT and not set(path) & set(',"'):
        return None
    if remembered is not None and _is_private(Path(remembered)):
        return Path(remembered)
    return Path(tempfile.mkdtemp(prefix="poweron-"))


def forget_short_folder(remembered: str | None) -> None:
    if remembered is not None:
        shutil.rmtree(remembered, ignore_errors=True)


def _expect_name() -> None:
    """Check that the user has a name: in a container, a user may be only a number."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError as error:
        raise Refused(
            f"Postgres needs a user with a name, and this machine has no name for the user id {os.geteuid()}. "
            "Add one in /etc/passwd, run PowerOn as another user, or set POWERON_POSTGRES to a server of your own."
        ) from error


def _is_private(folder: Path) -> bool:
    try:
        status = folder.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return status.st_uid == os.geteuid() and status.st_mode & 0o777 == PRIVATE
