"""The data directories of a run: next to the user's data, on the same disk, and removed afterwards."""

import asyncio
import fcntl
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from poweron_events.errors import Refused
from poweron_services.embedded.folders import explained, prepare
from poweron_services.sandbox.data_directory import make, remove

SPACE_NEEDED: Final = 3_000  # MB
NAMES: Final = ("asked", "measured")


@asynccontextmanager
async def run_directories(home: Path, progress: Callable[[str], None]) -> AsyncGenerator[tuple[Path, Path], None]:
    """Create two empty data directories, one for `poweron ask` and one for everything else.

    Raises:
        Refused: another run is in progress, or the location is unsuitable.
    """
    folders = await asyncio.to_thread(prepare, home)
    folder = folders.home / "bench"
    _expect_space(home)
    with explained(home), (folders.home / "bench.lock").open("a") as lock:
        _lock(lock.fileno())
        asked, measured = (folder / name for name in NAMES)
        await _clear(folder)  # remove what a killed run has left
        try:
            for directory in (asked, measured):
                make(directory, folders.software)
            yield asked, measured
        finally:
            progress("Removing what the measurement wrote…")
            await _clear(folder)


def _expect_space(home: Path) -> None:
    free = shutil.disk_usage(home).free // 1_000_000
    if free < SPACE_NEEDED:
        raise Refused(
            f"The disk of {str(home)!r} has {free} MB left, and a measurement writes up to {SPACE_NEEDED} MB, "
            "which it removes again. Free some space, or choose another data directory with POWERON_HOME."
        )


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refused("Another `poweron bench` is running; two at a time would measure each other.") from error


async def _clear(folder: Path) -> None:
    for name in NAMES:
        await remove(folder / name)
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
