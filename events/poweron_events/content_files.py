"""Files of the content store on this machine: written completely or not at all, and removed with their folders."""

import os
import re
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

PROCESS, _NUMBERS = secrets.token_hex(8), count()  # together unique for each file being written
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


def create(path: Path, content: bytes) -> None:
    """Create a file with its content at once, and its folder if needed; only this account may read either.

    Raises:
        FileExistsError: there is a file already, perhaps with other content.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with _written_beside(str(path), content) as beside:
        os.link(beside, path)
        os.unlink(beside)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of the content; the system may take only a part at a time."""
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


def write_below(path: Path, content: bytes) -> None:
    """Write a file into a subfolder of the workflow's folder, which must exist; create the subfolder if needed."""
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    write(str(path), content)


def write(path: str, content: bytes) -> None:
    """Write a file completely or not at all, even with concurrent writers; only this account may read it."""
    with _written_beside(path, content) as beside:
        os.replace(beside, path)


@contextmanager
def _written_beside(path: str, content: bytes) -> Generator[str, None, None]:
    """Write a new file beside the path, and remove it on an error: retries must not fill a full disk further.

    Uses file descriptors, which take half the time of file objects.
    """
    beside = f"{path}.{PROCESS}-{next(_NUMBERS)}"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
        yield beside
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
