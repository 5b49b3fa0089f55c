"""The folders of the servers, and checks that their location is suitable."""

import errno
import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from poweron_events.errors import Refused

PRIVATE = 0o700
PRIVATE_FILE = 0o600
SPACE_NEEDED = 500  # MB: jars, Java's start-up cache, Postgres' initial files and some room for the log


@dataclass(frozen=True, slots=True)
class Folders:
    """All paths of the servers. Everything is in `servers`, which only its owner can enter."""

    home: Path

    @classmethod
    def of(cls, home: Path) -> "Folders":
        return cls(home.expanduser().absolute())

    @property
    def servers(self) -> Path:
        return self.home / "servers"

    @property
    def lock(self) -> Path:
        return self.servers / "lock"

    @property
    def state(self) -> Path:
        return self.servers / "state.json"

    @property
    def users(self) -> Path:
        return self.servers / "users"

    @property
    def software(self) -> Path:
        return self.servers / "software"

    @property
    def kafka(self) -> Path:
        return self.servers / "kafka"

    @property
    def kafka_password(self) -> Path:
        return self.kafka / "password"

    @property
    def postgres(self) -> Path:
        return self.servers / "postgres"


def prepare(home: Path) -> Folders:
    """Create the folders.

    Raises:
        Refused: the location is unsuitable; the message says why.
    """
    folders = Folders.of(home)
    with explained(folders.home):
        for folder in (folders.servers, folders.users, folders.software, folders.kafka, folders.postgres):
            folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        folders.servers.chmod(PRIVATE)
    _expect_private(folders.servers)
    return folders


def expect_space(folders: Folders) -> None:
    """Refuse to start on a disk that is nearly full: both servers fail badly when it fills up."""
    free = shutil.disk_usage(folders.servers).free // 1_000_000
    if free < SPACE_NEEDED:
        raise Refused(
            f"The disk of {str(folders.home)!r} has {free} MB left, and Kafka and Postgres need {SPACE_NEEDED} MB. "
            "Free some space, or choose another data directory with POWERON_HOME."
        )


def aside(folder: Path) -> Path:
    """Return a temporary name for something that is renamed once complete, and remove what killed processes left.

    A killed process may leave a tool that still works on its unfinished piece, so every name is unique.
    """
    for leftover in folder.glob("new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    return folder / f"new-{uuid4().hex}"


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically and durably; other users cannot read it at any moment."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    fresh.replace(path)


@contextmanager
def explained(home: Path) -> Generator[None]:
    """Translate errors of the file system into `Refused` with a message for the user."""
    try:
        yield
    except OSError as error:
        raise Refused(_sentence(home, error)) from error


def _sentence(home: Path, error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return (
            f"The disk of {str(home)!r} is full. Free some space, or choose another data directory with POWERON_HOME."
        )
    if error.errno in {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}:
        return f"The file system of {str(home)!r} cannot lock files. Choose a local directory with POWERON_HOME."
    return (
        f"The data directory {str(home)!r} cannot be used: {error.strerror} ({error.filename}). "
        "Make it writable, or choose another one with POWERON_HOME."
    )


def _expect_private(servers: Path) -> None:
    status = servers.stat()
    if status.st_uid != os.geteuid():
        raise Refused(
            f"{str(servers)!r} belongs to another user (uid {status.st_uid}). "
            "Run PowerOn as that user, or choose another data directory with POWERON_HOME."
        )
    if stat.S_IMODE(status.st_mode) != PRIVATE:
        raise Refused(
            f"The file system of {str(servers)!r} does not keep permissions, which Postgres insists on. "
            "Choose a directory on a local Linux or macOS file system with POWERON_HOME."
        )
