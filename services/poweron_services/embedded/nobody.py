"""Postgres under root: its programs run as an unprivileged user, from a folder that this user can enter."""

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from poweron_events.errors import Refused
from poweron_services import unprivileged
from poweron_services.embedded import folders
from poweron_services.embedded.server_process import clean_env

COPIES = Path("/var/cache/poweron")  # only root can write along this path, so no other user can plant a program
OPEN = 0o755
NOT_NEEDED = shutil.ignore_patterns("include", "pkgconfig", "*.a")

NOT_HERE = (
    "Postgres does not run as root, and here root may not run it as the user 'nobody': that takes CAP_SETUID, "
    "CAP_SETGID, CAP_KILL and CAP_DAC_OVERRIDE, in a user namespace that has 'nobody'. Allow these, run PowerOn as an "
    "ordinary user, or set POWERON_POSTGRES to a server of your own."
)
NOT_ON_THIS_SYSTEM = (
    "Postgres does not run as root, and PowerOn can start it for root only on Linux. "
    "Run PowerOn as an ordinary user, or set POWERON_POSTGRES to a server of your own."
)


def command(program: Sequence[str]) -> list[str]:
    """Return the command that runs the program, as the unprivileged user if we are root."""
    if os.geteuid() != 0:
        return [*program]
    if sys.platform != "linux":
        raise Refused(NOT_ON_THIS_SYSTEM)
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise Refused(
            "Postgres does not run as root, and this machine has no user 'nobody' to run it as. "
            "Run PowerOn as an ordinary user, or set POWERON_POSTGRES to a server of your own."
        ) from error
    become = [sys.executable, "-I", "-S", str(unprivileged.__file__), str(nobody.pw_uid), str(nobody.pw_gid)]
    return [*become, *program]


def programs() -> Path:
    """Return the folder to start Postgres' programs from: the installed one, or else a copy, which is made once."""
    source = folders.postgres()
    if os.geteuid() != 0 or _may_run(source):
        return source
    try:
        copy = _copy(source)
    except OSError as error:
        raise _refusal(source, _reason(error)) from error
    if not _may_run(copy):
        raise _refusal(source, "'nobody' may not run programs there either")
    return copy


def _may_run(folder: Path) -> bool:
    version = command([str(folder / "postgres"), "--version"])
    result = subprocess.run(version, env=clean_env(), capture_output=True, check=False)  # noqa: S603
    if result.returncode == unprivileged.IMPOSSIBLE:
        raise Refused(NOT_HERE)
    return result.returncode != unprivileged.CLOSED


def _copy(source: Path) -> Path:
    """Copy the programs to a folder named after their content, so that another version gets its own copy."""
    with (source / "postgres").open("rb") as postgres:
        name = f"postgres-{hashlib.file_digest(postgres, 'sha256').hexdigest()[:12]}"
    package, parts = folders.parts_of_postgres()
    copy = _place(source) / name
    if not copy.exists():
        _make(copy, package, parts)
    return copy / source.relative_to(package)


def _place(source: Path) -> Path:
    """The folder of all copies, in which only root can have put anything."""
    if not COPIES.exists():
        COPIES.mkdir()
        COPIES.chmod(OPEN)
    place = COPIES.resolve()
    if _others_write(place) or any(_others_replace_in(folder) for folder in place.parents):
        raise _refusal(source, f"users other than root can write to {str(place)!r} or above it")
    return place


def _others_write(folder: Path) -> bool:
    status = folder.stat()
    return status.st_uid != 0 or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _others_replace_in(folder: Path) -> bool:
    """Return whether other users can replace root's files in the folder; in a folder such as /tmp they cannot."""
    status = folder.stat()
    return status.st_uid != 0 or (_others_write(folder) and not status.st_mode & stat.S_ISVTX)


def _make(copy: Path, package: Path, parts: list[str]) -> None:
    """Make a copy, which is complete as soon as it has its name."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=copy.parent) as making:
        fresh = Path(making) / copy.name
        for part in parts:
            shutil.copytree(package / part, fresh / part, ignore=NOT_NEEDED)
        for path in (fresh, *fresh.rglob("*")):
            path.chmod(OPEN)
        try:
            fresh.rename(copy)
        except OSError:
            if not copy.exists():  # otherwise another process was faster
                raise


def _reason(error: OSError) -> str:
    if isinstance(error, shutil.Error):
        return str(error.args[0][0][2])  # the first of many files
    return f"{error.strerror} ({error.filename})"


def _refusal(source: Path, reason: str) -> Refused:
    return Refused(
        f"Postgres does not run as root, the user 'nobody' may not enter {str(source)!r}, and a copy in "
        f"{str(COPIES)!r} is not possible: {reason}. Allow root CAP_SETPCAP, with which no copy is needed, run PowerOn "
        "as an ordinary user, or set POWERON_POSTGRES to a server of your own."
    )
