"""Processes of `poweron serve` that a test starts, kills and starts again."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import psutil

POWERON = Path(sys.executable).with_name("poweron")
SESSION_TIMEOUT_MS = 1_000

CRITERION = "The text is written."
MET = [{"criterion": CRITERION, "met": True, "progress": 1000}]
ONE_STEP: dict[str, list[Any]] = {
    "PlanningPrompt": [
        {"tasks": [{"objective": "Write it.", "successCriteria": [CRITERION], "taskType": "transform"}]},
    ],
    "SelectionPrompt": [{"action": "ai.process", "actionObjective": "Write it.", "parametersContext": "Write it."}],
    "ParametersPrompt": [{"schema": "parameters_v1", "parameters": {"aiPrompt": "Write it."}}],
    "ProcessPrompt": ["It is written."],
    "RefinementPrompt": [
        {"decision": "stop", "reason": "It is written.", "classification": "success", "criteriaProgress": MET}
    ],
    "ReviewPrompt": [{"status": "success", "reason": "It is written.", "criteriaProgress": MET}],
    "MessagePrompt": ["It is written."],
}
"""A script for a workflow of one step that needs no document."""


def command_lines() -> list[str]:
    """Those of all processes of this machine, as everybody can read them."""
    return [line for line in map(_command_line, psutil.process_iter()) if line]


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class Processes:
    """One process for each set of roles; the key says which: "all", or roles with commas between."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = {**os.environ, **environment}
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def running(self) -> Mapping[str, subprocess.Popen[bytes]]:
        return self._running

    def start(self, roles: str) -> None:
        arguments = [] if roles == "all" else [f"--role={each}" for each in roles.split(",")]
        with (self._folder / f"{roles}.log").open("ab") as log:
            self._running[roles] = subprocess.Popen(
                [POWERON, "serve", *arguments], env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, roles: str) -> None:
        """`kill -9`, and reap."""
        process = self._running.pop(roles)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def replace(self, roles: Sequence[str]) -> None:
        """Kill these processes and start them again."""
        for each in roles:
            self.kill(each)
        for each in roles:
            self.start(each)

    def log(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("*.log")))

    def stop(self) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def serving(environment: Mapping[str, str], folder: Path, roles: Sequence[str]) -> Generator[Processes, None, None]:
    """Processes that are all gone at the end."""
    processes = Processes(environment, folder)
    try:
        for each in roles:
            processes.start(each)
        yield processes
    finally:
        processes.stop()


def script(folder: Path, lines: Mapping[str, Sequence[Any]]) -> str:
    """A setting for `POWERON_MODEL` that answers from these lines."""
    path = folder / "script.json"
    path.write_bytes(orjson.dumps(lines))
    return f"scripted:{path}"
