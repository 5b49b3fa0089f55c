"""The keys that sign the ledger's checkpoints: from the settings, or from a file that is made at the first start.

The newest secret signs. The ones before it announce it, and name the ledger if it has no name of its own.
"""

import hmac
import secrets
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final

from poweron_events.errors import Refused
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519, ML_DSA_44_COSIGNATURE
from poweron_services.settings.config import Settings
from poweron_services.settings.key_file import key_text, replace_key

KEY_FILE: Final = "ledger.key"
SEED_BYTES: Final = 32
NAMED: Final = 16  # hexadecimal digits of the public key in the name of a ledger that has no other
_OF_ML_DSA: Final = b"poweron ledger ML-DSA-44"


def ledger_keys(settings: Settings) -> tuple[SigningKey, SigningKey]:
    """Return the Ed25519 key and the ML-DSA-44 key that sign this machine's ledger; both follow from one secret.

    Raises:
        Refused: the secret is no key, or others can read its file.
    """
    return _pairs(settings, _secrets(settings))[0]


def retired_ledger_keys(settings: Settings) -> list[tuple[SigningKey, SigningKey]]:
    """Return the keys that signed the ledger before and whose secrets are still here, newest first."""
    return _pairs(settings, _secrets(settings))[1:]


def known_ledger_keys(settings: Settings) -> list[SigningKey]:
    """Return all keys of the ledger that are on this machine, without making any; there may be none."""
    if settings.ledger_key is None and not (settings.home / KEY_FILE).exists():
        return []
    return [key for pair in _pairs(settings, _secrets(settings)) for key in pair]


def rotate_ledger_key(settings: Settings) -> tuple[SigningKey, SigningKey]:
    """Add a new secret to the file and return its keys; a ledger that starts announces them under the old ones.

    Raises:
        Refused: the secret is in the settings, where we cannot change it, or its file cannot be used.
    """
    if settings.ledger_key is not None:
        raise Refused(
            "The key of the ledger is set in POWERON_LEDGER_KEY. Put a new secret before the old one there, separated "
            "by a space: POWERON_LEDGER_KEY='NEW OLD', where NEW is the output of `openssl rand -hex 32`."
        )
    known = _secrets(settings)
    path = settings.home / KEY_FILE
    replace_key(path, "\n".join(seed.hex() for seed in (secrets.token_bytes(SEED_BYTES), *known)))
    return ledger_keys(settings)


def _pairs(settings: Settings, seeds: Sequence[bytes]) -> list[tuple[SigningKey, SigningKey]]:
    """Return the keys of each secret; a ledger without a name is named after the oldest one."""
    public = SigningKey("", ED25519, seeds[-1]).public.public
    origin = settings.ledger_origin or f"localhost/poweron/{sha256(public).hexdigest()[:NAMED]}"
    return [
        (
            SigningKey(origin, ED25519, seed),
            SigningKey(origin, ML_DSA_44_COSIGNATURE, hmac.digest(seed, _OF_ML_DSA, "sha256")),
        )
        for seed in seeds
    ]


def _secrets(settings: Settings) -> list[bytes]:
    """Return the secrets, newest first."""
    if settings.ledger_key is not None:
        return _seeds(settings.ledger_key.get_secret_value(), "POWERON_LEDGER_KEY")
    path = settings.home / KEY_FILE
    try:
        return _seeds(key_text(path, lambda: secrets.token_hex(SEED_BYTES), "the key of the ledger"), str(path))
    except OSError as error:
        raise Refused(
            f"The key of the ledger, {path}, cannot be used: {error.strerror}. Let this process's user read and write "
            "it, or set POWERON_LEDGER_KEY to 64 hexadecimal digits that only you know."
        ) from error


def _seeds(text: str, where: str) -> list[bytes]:
    with suppress(ValueError):
        seeds = [bytes.fromhex(part) for part in text.split()]
        if seeds and {len(seed) for seed in seeds} == {SEED_BYTES}:
            return seeds
    raise Refused(
        f"{where} holds no key of a ledger: that is 64 hexadecimal digits, such as `openssl rand -hex 32`; retired "
        "ones may follow, separated by spaces."
    )
