"""Files with a secret key, which only their owner can read, and which are made when they are needed first."""

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from poweron_events.errors import Refused


def key_text(path: Path, new: Callable[[], str], what: str) -> str:
    """Return the text of a key file; if there is none, make one with a `new` key first.

    Args:
        path: the file; of several processes that make it at once, all get the first one's key.
        new: returns a new key, as text.
        what: the key, in words.

    Raises:
        Refused: others can read the file.
        OSError: it cannot be read or made.
    """
    with suppress(FileExistsError):
        _make(path, new)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Refused(f"Others can read {path}, {what}. Allow only its owner to: chmod 600 {path}")
    return path.read_text(encoding="utf-8", errors="replace").strip()


def replace_key(path: Path, text: str) -> None:
    """Replace the text of a key file; a process that reads it finds the old one or the new one, always whole."""
    _written(path, text).replace(path)


def _make(path: Path, new: Callable[[], str]) -> None:
    """Write a new key; a process that comes second finds the first one's, always whole."""
    if path.exists():
        return
    written = _written(path, new())
    try:
        os.link(written, path)
    finally:
        written.unlink()


def _written(path: Path, text: str) -> Path:
    """Return a new file beside this one with the text, which only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    return written
