"""Files of the content store on this machine: written completely or not at all, and removed with their folders."""

import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

_PROCESS, _NUMBERS = secrets.token_hex(8), count()  # together unique for each file being written
LEFTOVER: Final = re.compile(r".+\.[0-9a-f]{16}-[0-9]+")
"""The name of a file that was being written when its process died."""


def remove_files(folder: Path, paths: Sequence[str]) -> None:
    """Remove files below a folder, and the folders that this leaves empty."""
    for path in paths:
        with suppress(FileNotFoundError):
            (folder / path).unlink()
    emptied = {folder / above for path in paths for above in Path(path).parents} - {folder}
    for each in sorted(emptied, reverse=True):
        with suppress(OSError):  # not empty, or gone
            each.rmdir()


def write_below(path: Path, content: bytes) -> None:
    """Write a file into a subfolder of the workflow's folder, which must exist; create the subfolder if needed."""
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    write(str(path), content)


def protect(path: Path) -> None:
    """Restrict access to a file and its folder to this account."""
    with suppress(FileNotFoundError):  # removed in the meantime
        path.parent.chmod(0o700)
        path.chmod(0o600)


def write(path: str, content: bytes) -> None:
    """Write a file completely or not at all, even with concurrent writers; only this account may read it.

    Uses file descriptors, which take half the time of file objects.
    """
    beside = f"{path}.{_PROCESS}-{next(_NUMBERS)}"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            written = os.write(descriptor, content)
            while written < len(content):  # the system may write only a part at a time
                written += os.write(descriptor, content[written:])
        finally:
            os.close(descriptor)
        os.replace(beside, path)
    except OSError:  # retries must not fill a full disk further
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
