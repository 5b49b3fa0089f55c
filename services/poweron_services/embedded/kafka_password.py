"""The password of the embedded Kafka: made at its first start, in a file that its owner alone can read.

Nothing else depends on it: where the file is gone, the next start makes another one and tells it to the broker.
"""

import re
import secrets
import stat
from pathlib import Path
from typing import Final

from poweron_events.errors import Refused
from poweron_services.embedded.folders import PRIVATE_FILE, write_private

USER: Final = "poweron"
BYTES: Final = 32  # of chance

_PASSWORD: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def fresh() -> str:
    """A password that nobody can guess, of letters that need no quotes anywhere."""
    return secrets.token_urlsafe(BYTES)


def ensure(path: Path, *, renew: bool) -> str:
    """The password: a new one where there is none, and where a new one is wanted.

    Raises:
        Refused: there is something else; nothing that we did not make is overwritten.
    """
    if path.exists():
        known = read(path)
        if not renew:
            return known
    write_private(path, fresh())
    return read(path)


def read(path: Path) -> str:
    """The password; the file is closed to others if it is not.

    Raises:
        Refused: there is none, or something else; the message says what to do.
    """
    try:
        text = path.read_text(errors="replace").strip()
    except FileNotFoundError as error:
        raise Refused(_unusable(path, "is not there")) from error
    if not _PASSWORD.fullmatch(text):
        raise Refused(_unusable(path, "holds none"))
    if stat.S_IMODE(path.stat().st_mode) != PRIVATE_FILE:
        path.chmod(PRIVATE_FILE)
    return text


def _unusable(path: Path, why: str) -> str:
    return (
        f"The password of the embedded Kafka cannot be used: {str(path)!r} {why}. "
        "Stop both servers and remove the file if it is there; the next start makes another one, and no data are lost."
    )
