"""The users of the pair: one file per user, locked by its process while it is alive.

The kernel releases the lock however the process dies, so a killed user no longer counts.
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

LOCK_DEADLINE = 900.0  # seconds: as long as a slow download by another process may take
LOCK_PAUSE = 0.02  # seconds


@dataclass(frozen=True, slots=True)
class User:
    """One lease; it counts until `leave` or until its process ends."""

    path: Path
    descriptor: int

    def leave(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)

    def is_alone(self) -> bool:
        """Return whether the pair has no other user. No lock is needed: a user who joins now repairs what stops."""
        return not any(_lives(path) for path in self.path.parent.iterdir() if path != self.path)


def join(folder: Path) -> User:
    """Register a user. Call this under the lock: before it is locked, the new file looks like that of a dead user."""
    path = folder / f"{os.getpid()}-{uuid4().hex}"
    with explained(folder):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return User(path, descriptor)


def living(folder: Path) -> int:
    """Count the users and remove the files of dead ones. Call this under the lock."""
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
    """Hold the lock that lets only one process at a time start or stop the pair."""
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
