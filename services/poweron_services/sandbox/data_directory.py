"""The data directory of one run: it shares nothing with the user's but the software of the servers."""

import asyncio
import shutil
from pathlib import Path
from typing import Final

from poweron_services import embedded
from poweron_services.embedded.folders import PRIVATE, Folders
from poweron_services.embedded.server_process import true_within, working_in

CACHE_DEADLINE: Final = 120.0  # seconds


def make(home: Path, software: Path) -> None:
    """A new data directory; what its servers have to fetch is kept where the user's own find it, too."""
    folders = Folders.of(home)
    folders.servers.mkdir(mode=PRIVATE, parents=True)
    folders.software.symlink_to(software)


async def remove(home: Path) -> None:
    """Stop the servers that still run there, and delete everything."""
    try:
        await embedded.down(home)
        await true_within(CACHE_DEADLINE, lambda: not _makes_start_cache(home))
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def _makes_start_cache(home: Path) -> bool:
    """Whether Java's start-up cache is still being made there, as it is once after the very first broker."""
    kafka = Folders.of(home).kafka
    return any(working_in(kafka, name) for name in ("sh", "java"))
