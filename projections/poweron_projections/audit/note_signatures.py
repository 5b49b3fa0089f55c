"""Signatures of notes: made with private keys, and checked against public ones."""

from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey, MLDSA44PublicKey

from poweron_projections.audit.notes import (
    ED25519,
    ML_DSA_44_COSIGNATURE,
    SIGNATURE_SIZE,
    Algorithm,
    InvalidNote,
    NoteSignature,
    SignedNote,
    VerifierKey,
    signed_bytes,
    signed_time,
)
from poweron_projections.audit.verifier.cosignatures import lines_of


def is_signed_by(key: VerifierKey, note: SignedNote, line: NoteSignature) -> bool:
    """Return whether a signature line of the note was made with this key."""
    if len(line.signature) != SIGNATURE_SIZE[key.algorithm]:
        return False
    time, signature = signed_time(line.signature) if key.algorithm != ED25519 else (0, line.signature)
    try:
        signed = signed_bytes(key.name, key.algorithm, note.text, time)
        public = MLDSA44PublicKey if key.algorithm == ML_DSA_44_COSIGNATURE else Ed25519PublicKey
        public.from_public_bytes(key.public).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, made of 32 bytes of chance."""

    name: str
    algorithm: Algorithm
    seed: bytes

    @property
    def public(self) -> VerifierKey:
        """The key that verifies what this one signs."""
        return VerifierKey(self.name, self.algorithm, self._private.public_key().public_bytes_raw())

    def sign(self, text: str, time: int = 0) -> NoteSignature:
        """Sign the text of a note; `time`, in seconds since 1970, is that of a cosignature."""
        signature = self._private.sign(signed_bytes(self.name, self.algorithm, text, time))
        if self.algorithm != ED25519:
            signature = time.to_bytes(8, "big") + signature
        return NoteSignature(self.name, self.public.id, signature)

    @property
    def _private(self) -> Ed25519PrivateKey | MLDSA44PrivateKey:
        if self.algorithm == ML_DSA_44_COSIGNATURE:
            return MLDSA44PrivateKey.from_seed_bytes(self.seed)
        return Ed25519PrivateKey.from_private_bytes(self.seed)


def valid_lines(note: SignedNote, keys: Iterable[VerifierKey]) -> list[NoteSignature]:
    """Return a signature of each of these keys that has made one; others say nothing."""
    made = ([line for line in lines_of(note, key) if is_signed_by(key, note, line)] for key in keys)
    return [lines[0] for lines in made if lines]


def verified(note: SignedNote, keys: Iterable[VerifierKey]) -> list[tuple[VerifierKey, NoteSignature]]:
    """Return the signatures by these keys, with their keys; those of other keys say nothing.

    Raises:
        InvalidNote: a signature that claims to be by one of the keys is not.
    """
    by_id = {(key.name, key.id): key for key in keys}
    found = [(key, line) for line in note.signatures if (key := by_id.get((line.name, line.key_id))) is not None]
    for key, line in found:
        if not is_signed_by(key, note, line):
            raise InvalidNote(f"A signature that names the key of {key.name!r} was not made with it.")
    return found
