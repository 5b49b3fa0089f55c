"""The secret of a door, from which the signatures of its sessions and forms are derived; it survives a restart."""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger()

FILE: Final = "door_secret"
LENGTH: Final = 32  # bytes
OWNER_ONLY: Final = 0o600


class DoorSecret:
    """A secret in a file that only its owner can read; in memory if the folder cannot be written."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def derived(self, purpose: str, extra: bytes = b"") -> bytes:
        """Return a secret for one purpose, which reveals neither this one nor those for other purposes."""
        return hmac.new(self._secret, purpose.encode() + b"\0" + extra, hashlib.sha256).digest()

    @cached_property
    def _secret(self) -> bytes:
        try:
            return self._read() or self._create()
        except OSError as error:
            log.warning("door_secret_in_memory", error=f"{self._path}: {error.strerror or error}")
            return secrets.token_bytes(LENGTH)

    def _read(self) -> bytes | None:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            os.fchmod(descriptor, OWNER_ONLY)
            secret = file.read(LENGTH + 1)
        if len(secret) != LENGTH:
            raise OSError(None, "it does not hold a secret of this door; delete it")
        return secret

    def _create(self) -> bytes:
        """Create the file with its complete content; if another door is first, return the secret of that one."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret, beside = secrets.token_bytes(LENGTH), self._path.with_name(f"{FILE}.{secrets.token_hex(8)}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secret)
            with suppress(FileExistsError):
                os.link(beside, self._path)
        finally:
            beside.unlink()
        return self._read() or secret
