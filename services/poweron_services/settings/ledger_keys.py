"""The keys that sign the ledger's checkpoints: from the settings, or from a file that is made at the first start."""

import hmac
import secrets
from contextlib import suppress
from hashlib import sha256
from typing import Final

from poweron_events.errors import Refused
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519, ML_DSA_44_COSIGNATURE
from poweron_services.settings.config import Settings
from poweron_services.settings.key_file import key_text

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
        return _seed(key_text(path, lambda: secrets.token_hex(SEED_BYTES), "the key of the ledger"), str(path))
    except OSError as error:
        raise Refused(
            f"The key of the ledger, {path}, cannot be used: {error.strerror}. Let this process's user read and write "
            "it, or set POWERON_LEDGER_KEY to 64 hexadecimal digits that only you know."
        ) from error


def _seed(text: str, where: str) -> bytes:
    with suppress(ValueError):
        seed = bytes.fromhex(text.strip())
        if len(seed) == SEED_BYTES:
            return seed
    raise Refused(f"{where} holds no key of a ledger: that is 64 hexadecimal digits, such as `openssl rand -hex 32`.")
