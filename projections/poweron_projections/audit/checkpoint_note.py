"""Signed notes (C2SP `signed-note`) and the keys that sign them.

Three kinds of signatures: Ed25519 over the text, and the cosignatures of C2SP `tlog-cosignature`, Ed25519 or ML-DSA-44
over a checkpoint and a time.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey, MLDSA44PublicKey

from poweron_projections.audit.checkpoint import Checkpoint

ED25519: Final = 0x01
ED25519_COSIGNATURE: Final = 0x04
ML_DSA_44_COSIGNATURE: Final = 0x06
Algorithm = Literal[0x01, 0x04, 0x06]
PUBLIC_SIZE: Final[dict[int, int]] = {ED25519: 32, ED25519_COSIGNATURE: 32, ML_DSA_44_COSIGNATURE: 1312}  # bytes
SIGNATURE_SIZE: Final[dict[int, int]] = {ED25519: 64, ED25519_COSIGNATURE: 72, ML_DSA_44_COSIGNATURE: 2428}  # bytes
MAX_SIGNATURES: Final = 64
MAX_TIME: Final = 2**63 - 1  # seconds since 1970, the limit of the format
_LINE: Final = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_KEY_NAME: Final = re.compile(r"[^\s+]+")


class InvalidNote(ValueError):
    """The text is no signed note, no key, or a signature of a known key is wrong."""


class NoteSignature(NamedTuple):
    """A signature line of a note."""

    name: str
    key_id: bytes
    signature: bytes

    def __str__(self) -> str:
        return f"— {self.name} {base64.b64encode(self.key_id + self.signature).decode()}\n"


class SignedNote(NamedTuple):
    """A note: its text, which ends with a newline, and its signatures."""

    text: str
    signatures: Sequence[NoteSignature]

    @classmethod
    def parse(cls, data: str) -> "SignedNote":
        """Read a note; raise InvalidNote if it is none."""
        text, blank, lines = data.rpartition("\n\n")
        is_clean = all(character >= " " or character == "\n" for character in data)
        signatures = [_LINE.fullmatch(line) for line in lines.removesuffix("\n").split("\n")]
        if not (text and blank and lines.endswith("\n") and is_clean) or len(signatures) > MAX_SIGNATURES:
            raise InvalidNote("This is no signed note.")
        return cls(f"{text}\n", [_signature(match) for match in signatures])

    def __str__(self) -> str:
        return f"{self.text}\n" + "".join(map(str, self.signatures))


def _signature(line: re.Match[str] | None) -> NoteSignature:
    try:
        data = base64.b64decode(line[2], validate=True) if line is not None else b""
    except binascii.Error:
        data = b""
    if line is None or len(data) <= 4:
        raise InvalidNote("A line of the note is no signature.")
    return NoteSignature(line[1], data[:4], data[4:])


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key and the name of who signs with it; as text, a `vkey` of C2SP `signed-note`."""

    name: str
    algorithm: Algorithm
    public: bytes

    @classmethod
    def parse(cls, vkey: str) -> "VerifierKey":
        """Read a `vkey`, `NAME+ID+KEY`; raise InvalidNote if it is none or its id is wrong."""
        name, *rest = vkey.strip().split("+", 2)
        try:
            id_text, key_text = rest
            algorithm, *public = base64.b64decode(key_text, validate=True)
        except ValueError as error:
            raise InvalidNote("A key is NAME+ID+KEY, as `poweron audit status` prints it.") from error
        if PUBLIC_SIZE.get(algorithm) != len(public) or not _KEY_NAME.fullmatch(name):
            raise InvalidNote(f"The key of {name!r} is of no kind that can sign a checkpoint.")
        key = cls(name, algorithm, bytes(public))  # type: ignore[arg-type] # its size is known
        if key.id.hex() != id_text:
            raise InvalidNote(f"The id of the key of {name!r} is not that of its bytes: it was copied wrongly.")
        return key

    @property
    def id(self) -> bytes:
        """The four bytes that a signature line names it by."""
        return sha256(b"%s\n%c%s" % (self.name.encode(), self.algorithm, self.public)).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(bytes([self.algorithm]) + self.public).decode()}"

    def verifies(self, note: SignedNote, line: NoteSignature) -> bool:
        """Return whether a signature line of the note is by this key."""
        if len(line.signature) != SIGNATURE_SIZE[self.algorithm]:
            return False
        time, signature = signed_time(line.signature) if self.algorithm != ED25519 else (0, line.signature)
        try:
            signed = _signed_bytes(self.name, self.algorithm, note.text, time)
            key = MLDSA44PublicKey if self.algorithm == ML_DSA_44_COSIGNATURE else Ed25519PublicKey
            key.from_public_bytes(self.public).verify(signature, signed)
        except (InvalidSignature, ValueError):
            return False
        return True


def signed_time(signature: bytes) -> tuple[int, bytes]:
    """Return the seconds since 1970 and the bare signature of a cosignature."""
    return int.from_bytes(signature[:8]), signature[8:]


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
        signature = self._private.sign(_signed_bytes(self.name, self.algorithm, text, time))
        if self.algorithm != ED25519:
            signature = time.to_bytes(8) + signature
        return NoteSignature(self.name, self.public.id, signature)

    @property
    def _private(self) -> Ed25519PrivateKey | MLDSA44PrivateKey:
        if self.algorithm == ML_DSA_44_COSIGNATURE:
            return MLDSA44PrivateKey.from_seed_bytes(self.seed)
        return Ed25519PrivateKey.from_private_bytes(self.seed)


def verified(note: SignedNote, keys: Iterable[VerifierKey]) -> list[tuple[VerifierKey, NoteSignature]]:
    """Return the signatures by these keys, with their keys; those of other keys say nothing.

    Raises:
        InvalidNote: a signature that claims to be by one of the keys is not.
    """
    by_id = {(key.name, key.id): key for key in keys}
    found = [(key, line) for line in note.signatures if (key := by_id.get((line.name, line.key_id))) is not None]
    for key, line in found:
        if not key.verifies(note, line):
            raise InvalidNote(f"A signature that names the key of {key.name!r} was not made with it.")
    return found


def _signed_bytes(name: str, algorithm: Algorithm, text: str, time: int) -> bytes:
    """Return the bytes that a key signs for the text of a note."""
    if algorithm == ED25519:
        return text.encode()
    if not 0 <= time <= MAX_TIME:
        raise ValueError(f"{time} is no time of a cosignature")
    if algorithm == ED25519_COSIGNATURE:
        return f"cosignature/v1\ntime {time}\n{text}".encode()
    checkpoint = Checkpoint.parse(text)
    names = [b"%c%s" % (len(each), each) for each in (name.encode(), checkpoint.origin.encode())]
    numbers = [number.to_bytes(8) for number in (time, 0, checkpoint.size)]
    return b"subtree/v1\n\0" + names[0] + numbers[0] + names[1] + numbers[1] + numbers[2] + checkpoint.root
