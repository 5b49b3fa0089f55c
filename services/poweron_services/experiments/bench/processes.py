"""The processes of a run: starting and stopping them, and measuring their CPU time."""

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psutil

from poweron_events.errors import Unavailable
from poweron_services.embedded.server_process import last_lines
from poweron_services.experiments.bench import bench_process
from poweron_services.experiments.sandbox.child_process import start, stop
from poweron_services.experiments.sandbox.servers import Sandbox

READY_DEADLINE: Final = 30.0  # seconds
RUNNER: Final = "load"  # this process, which requests the workflows


@asynccontextmanager
async def running(
    sandbox: Sandbox, name: str, *arguments: str, environment: Mapping[str, str] = MappingProxyType({})
) -> AsyncGenerator[Process, None]:
    """Run a process of this run while the block lasts, with settings of its own if some are given.

    Raises:
        Unavailable: it ended early; the message includes the last lines of its log.
    """
    log = sandbox.home / f"{name}.log"
    settings = {**sandbox.environment(), **environment}
    process = await start(bench_process.__name__, *arguments, environment=settings, log=log, stdout=PIPE)
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch(process, log))
            yield process
            watching.cancel()
    finally:
        await stop(process)


async def until_ready(process: Process) -> None:
    """Wait until the process reports that it is ready."""
    assert process.stdout is not None
    async with asyncio.timeout(READY_DEADLINE):
        await process.stdout.readline()


async def _watch(process: Process, log: Path) -> None:
    await process.wait()
    words = last_lines(await asyncio.to_thread(log.read_text, errors="replace"), 3)
    raise Unavailable(f"A process of the measurement ended before its time. Its last words:\n{words}")


@dataclass(frozen=True, slots=True)
class CpuMeter:
    """The CPU time of processes by name, in seconds, including their child processes except for `RUNNER`."""

    processes: dict[str, psutil.Process]

    @classmethod
    def of(cls, sandbox: Sandbox, **pids: int) -> "CpuMeter":
        """Return a meter for the two servers, this process and the given processes."""
        found = {"Kafka": sandbox.kafka.find(), "Postgres": sandbox.postgres.find()}
        servers = {name: server.pid for name, server in found.items() if server is not None}
        return cls({name: psutil.Process(pid) for name, pid in {**servers, **pids, RUNNER: os.getpid()}.items()})

    def read(self) -> dict[str, float]:
        """Return the CPU seconds that each process has used so far."""
        return {name: _own(process) if name == RUNNER else _whole(process) for name, process in self.processes.items()}


def _whole(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and of all processes it has started, including those that have ended."""
    times = process.cpu_times()
    ended = float(times.children_user + times.children_system)
    return ended + _own(process) + sum(map(_own, process.children(recursive=True)))


def _own(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # it has ended in the meantime, so its parent counts it
    return float(times.user + times.system)
