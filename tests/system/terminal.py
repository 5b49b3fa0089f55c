"""A terminal in which a command runs as people see it: with bars, and with what stood there before."""

import asyncio
import os
import pty
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
from commands import POWERON, Shell

WAITED = 60.0  # seconds


class Terminal:
    """A command in a terminal of its own, and what is shown there."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self.shown = ""
        self._shell, self._arguments = shell, arguments

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[asyncio.subprocess.Process, None]:
        ours, theirs = pty.openpty()
        environment = {**self._shell.environment, "TERM": "xterm"}
        for name in ("NO_COLOR", "FORCE_COLOR"):
            environment.pop(name, None)
        process = await asyncio.create_subprocess_exec(
            POWERON,
            *self._arguments,
            env=environment,
            cwd=self._shell.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        reading = asyncio.create_task(self._read(ours))
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading
            os.close(ours)

    async def _read(self, terminal: int) -> None:
        with suppress(OSError):  # whoever wrote there has gone
            while data := await asyncio.to_thread(os.read, terminal, 65_536):
                self.shown += data.decode(errors="replace")

    async def shows(self, text: str) -> None:
        try:
            async with asyncio.timeout(WAITED):
                while not re.search(text, self.shown):  # noqa: ASYNC110 - a terminal tells nobody
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"{text!r} is not in {self.shown!r}")
