"""The data directory of one run, which shares only the server software with the user's data directory."""

import asyncio
import shutil
from pathlib import Path
from typing import Final

from poweron_services import embedded
from poweron_services.embedded.folders import PRIVATE, Folders
from poweron_services.embedded.server_process import true_within, working_in

CACHE_DEADLINE: Final = 120.0  # seconds


def make(home: Path, software: Path) -> None:
    """Create a data directory; its servers download their software to `software`, which the user's servers share."""
    folders = Folders.of(home)
    folders.servers.mkdir(mode=PRIVATE, parents=True)
    folders.software.symlink_to(software)


async def remove(home: Path) -> None:
    """Stop any servers still running in the data directory, and delete it."""
    try:
        await embedded.down(home)
        await true_within(CACHE_DEADLINE, lambda: not _makes_start_cache(home))
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def _makes_start_cache(home: Path) -> bool:
    """Return whether Java's start-up cache is still being built there, as happens once after the very first broker."""
    kafka = Folders.of(home).kafka
    return any(working_in(kafka, name) for name in ("sh", "java"))
