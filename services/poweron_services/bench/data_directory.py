"""Where a run takes place: a data directory of its own beside the user's data, on the same disk, gone afterwards.

What has been fetched for the user's own servers is shared, so that nothing is downloaded twice.
"""

import asyncio
import fcntl
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from poweron_events.errors import Refused
from poweron_services import embedded
from poweron_services.embedded.folders import PRIVATE, Folders, explained, prepare
from poweron_services.embedded.server_process import true_within, working_in

SPACE_NEEDED: Final = 3_000  # MB
SETTLED_WITHIN: Final = 120.0  # seconds
HOMES: Final = ("asked", "measured")


@asynccontextmanager
async def homes(home: Path, progress: Callable[[str], None]) -> AsyncGenerator[tuple[Path, Path], None]:
    """Two empty data directories, one for `poweron ask`, one for everything else.

    Raises:
        Refused: another run is under way, or the place will not do.
    """
    software = (await asyncio.to_thread(prepare, home)).software
    folder = Folders.of(home).home / "bench"
    _expect_space(home)
    with explained(home), (Folders.of(home).home / "bench.lock").open("a") as lock:
        _lock(lock.fileno())
        asked, measured = (folder / name for name in HOMES)
        await _clear(folder)  # what a killed run left
        try:
            _share(software, asked, measured)
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


def _share(software: Path, *homes: Path) -> None:
    for each in homes:
        (each / "servers").mkdir(mode=PRIVATE, parents=True)
        Folders.of(each).software.symlink_to(software)


async def _clear(folder: Path) -> None:
    for name in HOMES:
        await embedded.down(folder / name)
        await true_within(SETTLED_WITHIN, lambda name=name: not _busy(folder / name))  # type: ignore[misc] # bound now
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _busy(home: Path) -> bool:
    """Whether Java's start-up cache is still being made there, as it is once after the very first broker."""
    place = Folders.of(home).kafka
    return any(working_in(place, name) for name in ("sh", "java"))
