"""Which signatures of a checkpoint hold: those of its log, and the cosignatures of witnesses."""

from collections.abc import Callable, Collection

from poweron_projections.audit.notes import (
    ED25519,
    ML_DSA_44_COSIGNATURE,
    SIGNATURE_SIZE,
    NoteSignature,
    SignedNote,
    VerifierKey,
    signed_bytes,
    signed_time,
)
from poweron_projections.audit.verifier.ed25519 import is_signature

SignatureCheck = Callable[[VerifierKey, SignedNote, NoteSignature], bool]
"""Returns whether a signature line of the note was made with this key."""


def is_ed25519_line(key: VerifierKey, note: SignedNote, line: NoteSignature) -> bool:
    """Return whether a signature line was made with this key; never for one of ML-DSA-44, which it cannot check."""
    if key.algorithm == ML_DSA_44_COSIGNATURE or len(line.signature) != SIGNATURE_SIZE[key.algorithm]:
        return False
    time, signature = (0, line.signature) if key.algorithm == ED25519 else signed_time(line.signature)
    try:
        return is_signature(key.public, signed_bytes(key.name, key.algorithm, note.text, time), signature)
    except ValueError:
        return False


def lines_of(note: SignedNote, key: VerifierKey) -> list[NoteSignature]:
    """Return the signature lines that name the key, whether or not they hold."""
    return [line for line in note.signatures if (line.name, line.key_id) == (key.name, key.id)]


def has_signature(note: SignedNote, key: VerifierKey, is_made_with: SignatureCheck = is_ed25519_line) -> bool:
    """Return whether the note has a signature of this key."""
    return any(is_made_with(key, note, line) for line in lines_of(note, key))


def cosignatures_of(
    note: SignedNote, witnesses: Collection[VerifierKey], is_made_with: SignatureCheck = is_ed25519_line
) -> dict[VerifierKey, int]:
    """Return which of these witnesses have cosigned the checkpoint, and when, in seconds since 1970.

    A caller that has `cryptography` gives `is_signed_by`, which also checks ML-DSA-44 and is faster.
    """
    times = {
        key: [signed_time(line.signature)[0] for line in lines_of(note, key) if is_made_with(key, note, line)]
        for key in witnesses
    }
    return {key: max(each) for key, each in times.items() if each}
