"""Processes whose model is a researcher: they are started, killed and started again."""

import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from processes import Processes

from poweron_services.wiring import ROLES

TESTS = Path(__file__).parents[1]
OTHERS = ",".join(role for role in ROLES if role != "executor")


class Researchers(Processes):
    """Processes of `research_process.py`, one for each set of roles."""

    def start(self, roles: str) -> None:
        with (self._folder / f"{roles[:20]}.log").open("ab") as log:
            self._running[roles] = subprocess.Popen(
                [sys.executable, TESTS / "system" / "research_process.py", roles],
                env={**self._environment, "PYTHONPATH": str(TESTS)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


@contextmanager
def researchers(environment: Mapping[str, str], folder: Path) -> Generator[Researchers, None, None]:
    """A process of the executor and one of all other roles, which are gone at the end."""
    processes = Researchers(environment, folder)
    try:
        for roles in ("executor", OTHERS):
            processes.start(roles)
        yield processes
    finally:
        processes.stop()
