"""The servers as processes: started apart from ours, found again by their command line, stopped for certain.

A process id alone proves nothing: after a reboot it may belong to somebody else. Ours is a living process of the
right program that has our own file on its command line.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.task_cancellation import finish

START_DEADLINE = 90.0  # seconds that a server has to answer; recovery after a crash included
PAUSE = 0.02  # seconds between two looks at something we wait for
KILL_DEADLINE = 10.0  # seconds until a killed process is gone

# The shell ends at once, so the server belongs to no one who could drag it along, and is never our zombie.
APART = '"$@" </dev/null >>"$POWERON_LOG" 2>&1 & echo $!'


@dataclass(frozen=True, slots=True)
class Running:
    """A process that was found living; its id is never mistaken for that of a later one."""

    handle: Any

    @property
    def pid(self) -> int:
        return int(self.handle.pid)

    def is_gone(self) -> bool:
        return not self.handle.is_running() or not _lives(self.pid)

    async def stop(self, how: signal.Signals, deadline: float) -> None:
        """Ask the process to end; kill it at the deadline."""
        self._send(how)
        if not await true_within(deadline, self.is_gone):
            self._send(signal.SIGKILL)
            await true_within(KILL_DEADLINE, self.is_gone)

    def kill(self) -> None:
        """Kill the process and its children at once, also frozen ones."""
        with suppress(_psutil().NoSuchProcess):
            for process in (self.handle, *self.handle.children(recursive=True)):
                with suppress(_psutil().NoSuchProcess):
                    process.kill()

    def _send(self, what: signal.Signals) -> None:
        with suppress(_psutil().NoSuchProcess):
            self.handle.send_signal(what)


@dataclass(frozen=True, slots=True)
class Program:
    """How one of our servers is told from all other processes of this machine."""

    name: str
    argument: str

    def find(self, hint: int | None) -> Running | None:
        """The running server: the process with the remembered id, else any that looks like it."""
        return next((Running(process) for process in _candidates(hint) if self._is(process)), None)

    def _is(self, process: Any) -> bool:
        line = _command_line(process)
        return bool(line) and Path(line[0]).name == self.name and self.argument in line


def working_in(folder: Path, name: str) -> list[Running]:
    """The processes of this name that have this folder as their working directory."""
    found = _psutil().process_iter(["name", "cwd"])
    return [Running(process) for process in found if process.info == {"name": name, "cwd": str(folder)}]


def written_pid(path: Path) -> int | None:
    """The process id in the first line of a file; None where there is none to read."""
    try:
        return int(path.read_text().split("\n", 1)[0])
    except (FileNotFoundError, PermissionError, ValueError):
        return None


async def start_apart(command: Sequence[str], *, folder: Path, log: Path, env: Mapping[str, str]) -> int:
    """Start a server in its own session, without our terminal and our files; the answer is its process id."""
    shell = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", APART, "sh", *command),
        cwd=folder,
        env={**env, "POWERON_LOG": str(log)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    written, _ = await finish(shell.communicate())  # else a server would start that nobody knows of
    if not written:
        raise Unavailable(f"No process could be started for {Path(command[0]).name!r}; this machine may have no room")
    return int(written)


async def run(command: Sequence[str], *, folder: Path, env: Mapping[str, str], typed: str = "") -> None:
    """Run a tool of a server to its end; what it wrote is the error if it fails."""
    tool = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=dict(env),
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        written, _ = await tool.communicate(typed.encode())
    except asyncio.CancelledError:
        tool.kill()
        await tool.wait()
        raise
    if tool.returncode:
        raise failure("The preparation of a server", written.decode(errors="replace"))


async def comes_up(pid: int, answers: Callable[[], bool]) -> bool:
    """Wait until a started server answers; no longer than it lives, or until its time is up."""
    await true_within(START_DEADLINE, lambda: answers() or not _lives(pid))
    return await asyncio.to_thread(answers)


async def true_within(deadline: float, question: Callable[[], bool]) -> bool:
    """Ask in a thread, again and again, until the answer is yes or the time is up."""
    give_up = time.monotonic() + deadline
    while not await asyncio.to_thread(question):
        if time.monotonic() > give_up:
            return False
        await asyncio.sleep(PAUSE)
    return True


def failure(what: str, said: str) -> PowerOnError:
    """Why something did not start, in its own last words."""
    if "No space left on device" in said:
        return Refused(f"{what} found the disk full. Free some space and try again.\n{last_lines(said)}")
    return Unavailable(f"{what} failed. Its last words:\n{last_lines(said)}")


def last_lines(text: str, count: int = 12) -> str:
    """The end of a log, without the places in Java's code that its errors came by."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("\tat ")]
    return "\n".join(lines[-count:])


def fresh_log(path: Path) -> Path:
    """Begin a new log file and keep the one before."""
    if path.exists():
        path.replace(path.with_suffix(".log.before"))
    path.touch(mode=0o600)
    return path


def clean_env() -> dict[str, str]:
    """Nothing of the user's environment reaches a server: no Java options, no Postgres settings, no proxies."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8"}


def _candidates(hint: int | None) -> Iterable[Any]:
    psutil = _psutil()
    if hint is not None and psutil.pid_exists(hint):
        with suppress(psutil.NoSuchProcess):
            yield psutil.Process(hint)
    yield from psutil.process_iter()


def _command_line(process: Any) -> list[str]:
    """Empty for the dead, for zombies and for whatever we may not look at."""
    try:
        return list(process.cmdline())
    except _psutil().Error:
        return []


def _lives(pid: int) -> bool:
    psutil = _psutil()
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _psutil() -> Any:
    """Imported late: it costs more than the rest of the package, and `--help` needs none of it."""
    return import_module("psutil")
