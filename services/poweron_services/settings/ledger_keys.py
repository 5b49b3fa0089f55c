"""The keys that sign the ledger's checkpoints: from the settings, or from a file that is made at the first start."""

import hmac
import os
import secrets
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from poweron_events.errors import Refused
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519, ML_DSA_44_COSIGNATURE
from poweron_services.settings.config import Settings

KEY_FILE: Final = "ledger.key"
SEED_BYTES: Final = 32
NAMED: Final = 16  # hexadecimal digits of the public key in the name of a ledger that has no other
_OF_ML_DSA: Final = b"poweron ledger ML-DSA-44"


def ledger_keys(settings: Settings) -> tuple[SigningKey, SigningKey]:
    """Return the Ed25519 key and the ML-DSA-44 key of this machine's ledger; both follow from one secret.

    Raises:
        Refused: the secret is no key, or others can read its file.
    """
    seed = _read(settings)
    public = SigningKey("", ED25519, seed).public.public
    origin = settings.ledger_origin or f"localhost/poweron/{sha256(public).hexdigest()[:NAMED]}"
    of_ml_dsa = hmac.digest(seed, _OF_ML_DSA, "sha256")
    return SigningKey(origin, ED25519, seed), SigningKey(origin, ML_DSA_44_COSIGNATURE, of_ml_dsa)


def _read(settings: Settings) -> bytes:
    if settings.ledger_key is not None:
        return _seed(settings.ledger_key.get_secret_value(), "POWERON_LEDGER_KEY")
    path = settings.home / KEY_FILE
    try:
        with suppress(FileExistsError):
            _make(path)
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Refused(f"Others can read {path}, the key of the ledger. Allow only its owner to: chmod 600 {path}")
        return _seed(path.read_text(encoding="ascii", errors="replace"), str(path))
    except OSError as error:
        raise Refused(
            f"The key of the ledger, {path}, cannot be used: {error.strerror}. Let this process's user read and write "
            "it, or set POWERON_LEDGER_KEY to 64 hexadecimal digits that only you know."
        ) from error


def _make(path: Path) -> None:
    """Write a new key; a process that comes second finds the first one's, always whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(SEED_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(written, path)
    finally:
        written.unlink()


def _seed(text: str, where: str) -> bytes:
    with suppress(ValueError):
        seed = bytes.fromhex(text.strip())
        if len(seed) == SEED_BYTES:
            return seed
    raise Refused(f"{where} holds no key of a ledger: that is 64 hexadecimal digits, such as `openssl rand -hex 32`.")
