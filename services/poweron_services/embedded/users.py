"""Who uses the pair: one file per user, locked by the living process.

The kernel gives the lock back however a process dies, so a killed user does not count as one.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from poweron_events.errors import Unavailable
from poweron_services.embedded.folders import explained

LOCK_DEADLINE = 900.0  # seconds: as long as a slow download of somebody else may take
LOCK_PAUSE = 0.02  # seconds


@dataclass(frozen=True, slots=True)
class User:
    """One lease; it counts until `leave`, or until its process ends."""

    path: Path
    descriptor: int

    def leave(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)

    def is_alone(self) -> bool:
        """Return whether nobody else uses the pair, without the lock: somebody who joins now repairs what ends."""
        return not any(_lives(path) for path in self.path.parent.iterdir() if path != self.path)


def join(folder: Path) -> User:
    """Call it under the lock: between creating and locking, the file looks like that of a dead user."""
    path = folder / f"{os.getpid()}-{uuid4().hex}"
    with explained(folder):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return User(path, descriptor)


def living(folder: Path) -> int:
    """How many users there are; the files of dead ones are swept. Call it under the lock."""
    return sum(_lives(path) for path in folder.iterdir())


def _lives(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        if not _lock_if_free(descriptor):
            return True
        path.unlink()
        return False
    finally:
        os.close(descriptor)


@asynccontextmanager
async def locked(path: Path, progress: Callable[[str], None]) -> AsyncGenerator[None, None]:
    """Only one process at a time starts or stops the pair."""
    with explained(path.parent):
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        await _lock(descriptor, path, progress)
        yield
    finally:
        os.close(descriptor)


async def _lock(descriptor: int, path: Path, progress: Callable[[str], None]) -> None:
    with explained(path.parent):
        if _lock_if_free(descriptor):
            return
    progress("Waiting for another PowerOn process that is starting or stopping the servers…")
    give_up = time.monotonic() + LOCK_DEADLINE
    while not _lock_if_free(descriptor):
        if time.monotonic() > give_up:
            raise Unavailable(
                f"Another process has held {str(path)!r} for {LOCK_DEADLINE:.0f} s. End it and try again."
            )
        await asyncio.sleep(LOCK_PAUSE)


def _lock_if_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
