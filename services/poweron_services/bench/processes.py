"""The processes of a run: how they are started and ended, and how much CPU time they take."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from poweron_events.errors import Unavailable
from poweron_services.embedded import Servers
from poweron_services.embedded.folders import Folders
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.postgres_server import Postgres
from poweron_services.embedded.server_process import last_lines

END_DEADLINE: Final = 20.0  # seconds
READY_DEADLINE: Final = 30.0  # seconds
LOAD: Final = "load"


@dataclass(frozen=True, slots=True)
class Stage:
    """The servers of a run, in whose data directory its processes leave what they have to say."""

    servers: Servers

    @property
    def folder(self) -> Path:
        return self.servers.home

    def environment(self) -> dict[str, str]:
        """The environment of a process of this run: nothing of the user's own settings."""
        return clean_environment(self.folder) | {
            "POWERON_KAFKA": self.servers.kafka,
            "POWERON_POSTGRES": self.servers.postgres,
        }


def clean_environment(home: Path) -> dict[str, str]:
    """The user's environment with this data directory and no other setting of PowerOn."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("POWERON_")}
    return {**others, "POWERON_HOME": str(home)}


@asynccontextmanager
async def running(stage: Stage, name: str, *arguments: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A process of this run, while the block lasts.

    Raises:
        Unavailable: it ended before its time; in its own last words.
    """
    said = stage.folder / f"{name}.log"
    with said.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "poweron_services.bench.child_process", *arguments),
            env=stage.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us alone; we end it
        )
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch(process, said))
            yield process
            watching.cancel()
    finally:
        await _end(process)


async def until_ready(process: asyncio.subprocess.Process) -> None:
    """Wait until the process has said so."""
    assert process.stdout is not None
    async with asyncio.timeout(READY_DEADLINE):
        await process.stdout.readline()


async def _watch(process: asyncio.subprocess.Process, said: Path) -> None:
    await process.wait()
    words = last_lines(await asyncio.to_thread(said.read_text, errors="replace"), 3)
    raise Unavailable(f"A process of the measurement ended before its time. Its last words:\n{words}")


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(END_DEADLINE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@dataclass(frozen=True, slots=True)
class Meter:
    """CPU time, in seconds, of these processes by their names; of servers with all that they have started."""

    processes: dict[str, psutil.Process]

    @classmethod
    def of(cls, stage: Stage, **pids: int) -> "Meter":
        """The two servers, this process, and those named."""
        folders = Folders.of(stage.folder)
        found = {"Kafka": Kafka(folders).find(), "Postgres": Postgres(folders).find()}
        servers = {name: server.pid for name, server in found.items() if server is not None}
        return cls({name: psutil.Process(pid) for name, pid in {**servers, **pids, LOAD: os.getpid()}.items()})

    def read(self) -> dict[str, float]:
        """What each has used so far."""
        return {name: _own(process) if name == LOAD else _whole(process) for name, process in self.processes.items()}


def _whole(process: psutil.Process) -> float:
    """What a process has used, and all that it has started, also those that have ended."""
    times = process.cpu_times()
    ended = float(times.children_user + times.children_system)
    return ended + _own(process) + sum(map(_own, process.children(recursive=True)))


def _own(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # it has ended meanwhile: its parent counts it
    return float(times.user + times.system)
