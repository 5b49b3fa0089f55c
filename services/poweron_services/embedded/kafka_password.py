"""The password of the embedded Kafka: created at its first start, in a file that only its owner can read.

Nothing else depends on it: if the file is gone, the next start creates another password and sets it in the broker.
"""

import re
import secrets
import stat
from pathlib import Path
from typing import Final

from poweron_events.errors import Refused
from poweron_services.embedded.folders import PRIVATE_FILE, write_private

USER: Final = "poweron"
BYTES: Final = 32  # of randomness

_PASSWORD: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def fresh() -> str:
    """Create a password that cannot be guessed, from characters that need no quoting anywhere."""
    return secrets.token_urlsafe(BYTES)


def ensure(path: Path, *, renew: bool) -> str:
    """Return the password; create one if there is none or `renew` is set.

    Raises:
        Refused: the file holds something else. A file that we did not create is never overwritten.
    """
    if path.exists():
        known = read(path)
        if not renew:
            return known
    write_private(path, fresh())
    return read(path)


def read(path: Path) -> str:
    """Read the password, and make the file private if it is not.

    Raises:
        Refused: the file is missing or holds something else; the message says what to do.
    """
    try:
        text = path.read_text(errors="replace").strip()
    except FileNotFoundError as error:
        raise Refused(_unusable(path, "does not exist")) from error
    if not _PASSWORD.fullmatch(text):
        raise Refused(_unusable(path, "holds none"))
    if stat.S_IMODE(path.stat().st_mode) != PRIVATE_FILE:
        path.chmod(PRIVATE_FILE)
    return text


def _unusable(path: Path, reason: str) -> str:
    return (
        f"The password of the embedded Kafka cannot be used: {str(path)!r} {reason}. "
        "Stop both servers and remove the file if it exists; the next start creates another one, and no data is lost."
    )
