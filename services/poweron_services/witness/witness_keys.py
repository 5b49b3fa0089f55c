"""The keys of a witness, in a file that is made at the first start: a signed-note private key, which has its name."""

import base64
import binascii
import hmac
import re
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

from poweron_events.errors import Refused
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519_COSIGNATURE, ML_DSA_44_COSIGNATURE
from poweron_services.settings.key_file import key_text

KEY_FILE: Final = "witness.key"
SEED_BYTES: Final = 32
NAMED: Final = 16  # hexadecimal digits of the public key in the name of a witness that has no other
NAME: Final = re.compile(r"[^\s+]{1,200}")
_PREFIX: Final = "PRIVATE+KEY+"
_OF_ML_DSA: Final = b"poweron witness ML-DSA-44"


def witness_keys(folder: Path, name: str | None) -> tuple[SigningKey, SigningKey]:
    """Return the Ed25519 key and the ML-DSA-44 key of the witness in this folder; both follow from one secret.

    Raises:
        Refused: the file is no key or has another name, or others can read it.
    """
    path = folder / KEY_FILE
    if name is not None and not NAME.fullmatch(name):
        raise Refused(f"{name!r} is no name of a witness: it has up to 200 characters, no blanks and no plus.")
    try:
        key = _parsed(key_text(path, lambda: _new(name), "the key of the witness"), path)
    except OSError as error:
        raise Refused(f"The key of the witness, {path}, cannot be used: {error.strerror}.") from error
    if name not in (None, key.name):
        raise Refused(
            f"The witness in {folder} is named {key.name!r}. A key has one name; use another --state for {name!r}."
        )
    return key, SigningKey(key.name, ML_DSA_44_COSIGNATURE, hmac.digest(key.seed, _OF_ML_DSA, "sha256"))


def _new(name: str | None) -> str:
    seed = secrets.token_bytes(SEED_BYTES)
    public = SigningKey("", ED25519_COSIGNATURE, seed).public.public
    key = SigningKey(
        name or f"localhost/poweron-witness/{sha256(public).hexdigest()[:NAMED]}", ED25519_COSIGNATURE, seed
    )
    text = base64.b64encode(bytes([ED25519_COSIGNATURE]) + seed).decode()
    return f"{_PREFIX}{key.name}+{key.public.id.hex()}+{text}"


def _parsed(text: str, path: Path) -> SigningKey:
    name, _, rest = text.removeprefix(_PREFIX).partition("+")
    try:
        kind, *seed = base64.b64decode(rest.partition("+")[2], validate=True)
    except (binascii.Error, ValueError):
        kind, seed = 0, []
    key = SigningKey(name, ED25519_COSIGNATURE, bytes(seed))
    is_key = text.startswith(_PREFIX) and kind == ED25519_COSIGNATURE and len(seed) == SEED_BYTES
    if not is_key or not NAME.fullmatch(name) or key.public.id.hex() != rest.partition("+")[0]:
        raise Refused(f"{path} holds no key of a witness.")
    return key
