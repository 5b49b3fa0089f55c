"""The time that a user waits from starting `poweron ask` until the first step is shown."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from poweron_events.errors import Unavailable
from poweron_services import embedded
from poweron_services.client.follow import step_words
from poweron_services.sandbox.child_process import clean_environment, stop

QUESTION: Final = "When does the exhibition open?"
LETTER: Final = "Dear Ada,\n\nthe exhibition opens on September 12, 2025, at six in the evening.\n\nYours, Grace\n"
FIRST_STEP: Final = step_words(1, 1).encode()
DEADLINE: Final = 120.0  # seconds
POWERON: Final = (sys.executable, "-c", "from poweron_services.cli.entry import main; main()")


async def cold_ms(home: Path) -> float:
    """Return the time with no server running and an empty data directory; only the software has been downloaded."""
    return await _asked(home)


async def warm_ms(home: Path, progress: Callable[[str], None], *, times: int) -> float:
    """Return the median time with both servers running."""
    await embedded.up(home, progress)
    try:
        return median([await _asked(home) for _ in range(times)])
    finally:
        await embedded.down(home)


async def _asked(home: Path) -> float:
    """Return the ms from the start of the command to the line of its first step."""
    letter = home / "letter.txt"
    await asyncio.to_thread(letter.write_text, LETTER)
    began = time.perf_counter()
    asking = await asyncio.create_subprocess_exec(
        *(*POWERON, "ask", QUESTION, "--document", str(letter), "--output", str(home / "output")),
        env=clean_environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert asking.stderr is not None
    try:
        async with asyncio.timeout(DEADLINE):
            seen = await _until_first_step(asking.stderr)
            await asking.stderr.read()
            await asking.wait()
    finally:
        await stop(asking)
    return 1_000 * (seen - began)


async def _until_first_step(stderr: asyncio.StreamReader) -> float:
    """Return when the first step was shown; raise `Unavailable` if the command ends without one."""
    lines: list[bytes] = []
    while line := await stderr.readline():
        if line.startswith(FIRST_STEP):
            return time.perf_counter()
        lines.append(line)
    raise Unavailable(f"`poweron ask` ended without a step: {b''.join(lines[-3:]).decode(errors='replace')}")
