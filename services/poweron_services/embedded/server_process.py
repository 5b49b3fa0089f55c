"""The servers as processes: started detached from ours, found again by their command line, and reliably stopped.

A process id alone proves nothing: after a reboot it may belong to another process. Ours is a live process of the right
program with our own file on its command line.
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

START_DEADLINE = 90.0  # seconds for a server to answer, including recovery after a crash
PAUSE = 0.02  # seconds between two checks of a condition
KILL_DEADLINE = 10.0  # seconds until a killed process is gone

# The shell exits at once, so the server has no parent that could take it down, and never becomes our zombie.
APART = '"$@" </dev/null >>"$POWERON_LOG" 2>&1 & echo $!'


@dataclass(frozen=True, slots=True)
class Running:
    """A process that was found alive; it is never confused with a later process that has the same id."""

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
        """Kill the process and its children, even if they are frozen, and wait until they are gone."""
        with suppress(_psutil().NoSuchProcess):
            processes = [self.handle, *self.handle.children(recursive=True)]
            for process in processes:
                with suppress(_psutil().NoSuchProcess):
                    process.kill()
            _psutil().wait_procs(processes, timeout=KILL_DEADLINE)

    def _send(self, signum: signal.Signals) -> None:
        with suppress(_psutil().NoSuchProcess):
            self.handle.send_signal(signum)


@dataclass(frozen=True, slots=True)
class Program:
    """The features that distinguish one of our servers from all other processes on this machine."""

    name: str
    argument: str

    def find(self, hint: int | None) -> Running | None:
        """Find the running server: the process with the remembered id if it matches, or else any that does."""
        return next((Running(process) for process in _candidates(hint) if self._is(process)), None)

    def _is(self, process: Any) -> bool:
        line = _command_line(process)
        return bool(line) and Path(line[0]).name == self.name and self.argument in line


def working_in(folder: Path, name: str) -> list[Running]:
    """Return the processes with this name that have this folder as their working directory."""
    processes = _psutil().process_iter(["name", "cwd"])
    return [Running(process) for process in processes if process.info == {"name": name, "cwd": str(folder)}]


def written_pid(path: Path) -> int | None:
    """Return the process id in the first line of a file, or None if it cannot be read."""
    try:
        return int(path.read_text().split("\n", 1)[0])
    except (FileNotFoundError, PermissionError, ValueError):
        return None


async def start_apart(
    command: Sequence[str], *, folder: Path, log: Path, env: Mapping[str, str], program: str | None = None
) -> int:
    """Start a server in its own session, detached from our terminal and files, and return its process id.

    Args:
        command: the command line.
        folder: its working directory.
        log: receives its output.
        env: its environment.
        program: the name of the program that the command becomes, if it is not the command itself.
    """
    return await finish(_started_apart(command, program, folder, log, env))  # otherwise a server could start unnoticed


async def _started_apart(
    command: Sequence[str], program: str | None, folder: Path, log: Path, env: Mapping[str, str]
) -> int:
    """Return the id of the process once it runs the program, as `Program.find` cannot find it before, or has ended."""
    shell = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", APART, "sh", *command),
        cwd=folder,
        env={**env, "POWERON_LOG": str(log)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    output, _ = await shell.communicate()
    if not output:
        raise Unavailable(f"No process could be started for {command[0]!r}; this machine may have no room")
    pid = int(output)
    await true_within(START_DEADLINE, lambda: _runs(pid, program))
    return pid


async def run(command: Sequence[str], *, folder: Path, env: Mapping[str, str], typed: str = "") -> None:
    """Run a tool of a server until it exits. If it fails, the error contains its output."""
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
        output, _ = await tool.communicate(typed.encode())
    except asyncio.CancelledError:
        tool.kill()
        await tool.wait()
        raise
    if tool.returncode:
        raise failure("The preparation of a server", output.decode(errors="replace"))


async def comes_up(pid: int, answers: Callable[[], bool]) -> bool:
    """Return whether a started server answers. This waits until it does, dies, or reaches the deadline."""
    await true_within(START_DEADLINE, lambda: answers() or not _lives(pid))
    return await asyncio.to_thread(answers)


async def true_within(deadline: float, question: Callable[[], bool]) -> bool:
    """Poll a condition in a thread until it is true or the deadline passes; return whether it became true."""
    give_up = time.monotonic() + deadline
    while not await asyncio.to_thread(question):
        if time.monotonic() > give_up:
            return False
        await asyncio.sleep(PAUSE)
    return True


def failure(what: str, output: str) -> PowerOnError:
    """Return the error for a failed start, with the last lines of its output."""
    if "No space left on device" in output:
        return Refused(f"{what} ran out of disk space. Free some space and try again.\n{last_lines(output)}")
    return Unavailable(f"{what} failed. Its last lines:\n{last_lines(output)}")


def last_lines(text: str, count: int = 12) -> str:
    """Return the last lines of a log, without Java's stack frames."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("\tat ")]
    return "\n".join(lines[-count:])


def fresh_log(path: Path) -> Path:
    """Start a new log file and keep the previous one."""
    if path.exists():
        path.replace(path.with_suffix(".log.before"))
    path.touch(mode=0o600)
    return path


def clean_env() -> dict[str, str]:
    """Return an environment without the user's variables, such as Java options, Postgres settings and proxies."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8"}


def _candidates(hint: int | None) -> Iterable[Any]:
    psutil = _psutil()
    if hint is not None and psutil.pid_exists(hint):
        with suppress(psutil.NoSuchProcess):
            yield psutil.Process(hint)
    yield from psutil.process_iter()


def _command_line(process: Any) -> list[str]:
    """The command line; empty for dead processes, zombies and processes that we may not inspect."""
    try:
        return list(process.cmdline())
    except _psutil().Error:
        return []


def _runs(pid: int, program: str | None) -> bool:
    """Return whether a process runs this program, or if none is named, is no longer the shell, or has ended."""
    if not _lives(pid):
        return True
    line = _command_line(_psutil().Process(pid))
    if program is None:
        return APART not in line
    return not line or Path(line[0]).name == program


def _lives(pid: int) -> bool:
    psutil = _psutil()
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _psutil() -> Any:
    """Import psutil late: it takes longer than the rest of the package, and `--help` does not need it."""
    return import_module("psutil")
