"""Commands as a user types them: in a process of their own where signals or pipes matter, else within the test."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from typer.testing import CliRunner

from poweron_services.cli.main import app

POWERON = Path(sys.executable).with_name("poweron")
DEADLINE = 60.0  # seconds
NOBODY = "00000000-0000-0000-0000-000000000007"  # no workflow has this id


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """The JSON objects on stdout."""
        return [orjson.loads(line) for line in self.out.splitlines()]


class Shell:
    """Types commands in one environment and one folder."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self.environment = {**os.environ, **environment}
        self.folder = folder

    async def start(
        self, *arguments: str | Path, program: Sequence[str | Path] = (POWERON,)
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *program,
            *arguments,
            env=self.environment,
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def __call__(self, *arguments: str | Path, **changed: str) -> Ended:
        """Type a command and wait until it ends, within this process."""
        return await asyncio.to_thread(self._invoke, [*map(str, arguments)], {**self.environment, **changed})

    def _invoke(self, arguments: list[str], environment: Mapping[str, str]) -> Ended:
        with chdir(self.folder):
            result = CliRunner().invoke(app, arguments, env=environment, catch_exceptions=False)
        return _checked(Ended(result.exit_code, result.stdout, result.stderr))


def _checked(found: Ended) -> Ended:
    """Whatever a command said, no traceback and no escape codes are in it."""
    assert "Traceback" not in found.out + found.err, found.err
    assert "\x1b" not in found.out + found.err
    return found


async def ended(process: asyncio.subprocess.Process) -> Ended:
    """Wait until a process ends."""
    try:
        async with asyncio.timeout(DEADLINE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _checked(Ended(process.returncode or 0, out.decode(), err.decode()))


async def told(process: asyncio.subprocess.Process, beginning: str) -> str:
    """The first line on stderr that begins so."""
    assert process.stderr is not None
    async with asyncio.timeout(DEADLINE):
        while line := (await process.stderr.readline()).decode():
            if line.startswith(beginning):
                return line.strip()
    raise AssertionError(f"no line began with {beginning!r}")
