"""Signed notes (C2SP `signed-note`) and the keys that their signatures name.

Three kinds of signatures: Ed25519 over the text, and the cosignatures of C2SP `tlog-cosignature`, Ed25519 or ML-DSA-44
over a checkpoint and a time.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from poweron_projections.audit.checkpoint import Checkpoint

ED25519: Final = 0x01
ED25519_COSIGNATURE: Final = 0x04
ML_DSA_44_COSIGNATURE: Final = 0x06
Algorithm = Literal[0x01, 0x04, 0x06]
PUBLIC_SIZE: Final[dict[int, int]] = {ED25519: 32, ED25519_COSIGNATURE: 32, ML_DSA_44_COSIGNATURE: 1312}  # bytes
SIGNATURE_SIZE: Final[dict[int, int]] = {ED25519: 64, ED25519_COSIGNATURE: 72, ML_DSA_44_COSIGNATURE: 2428}  # bytes
MAX_SIGNATURES: Final = 64
MAX_TIME: Final = 2**63 - 1  # seconds since 1970, the limit of the format
_NOT_IN_NOTES: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
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
        signatures = [_LINE.fullmatch(line) for line in lines.removesuffix("\n").split("\n")]
        is_note = text and blank and lines.endswith("\n") and not _NOT_IN_NOTES.search(data)
        if not is_note or len(signatures) > MAX_SIGNATURES:
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
            raise InvalidNote("A key is NAME+ID+KEY, as `poweron audit key` prints it, on one line.") from error
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


def signed_time(signature: bytes) -> tuple[int, bytes]:
    """Return the seconds since 1970 and the bare signature of a cosignature."""
    return int.from_bytes(signature[:8], "big"), signature[8:]


def signed_bytes(name: str, algorithm: Algorithm, text: str, time: int) -> bytes:
    """Return the bytes that a key signs for the text of a note."""
    if algorithm == ED25519:
        return text.encode()
    if not 0 <= time <= MAX_TIME:
        raise ValueError(f"{time} is no time of a cosignature")
    if algorithm == ED25519_COSIGNATURE:
        return f"cosignature/v1\ntime {time}\n{text}".encode()
    checkpoint = Checkpoint.parse(text)
    names = [b"%c%s" % (len(each), each) for each in (name.encode(), checkpoint.origin.encode())]
    numbers = [number.to_bytes(8, "big") for number in (time, 0, checkpoint.size)]
    return b"subtree/v1\n\0" + names[0] + numbers[0] + names[1] + numbers[1] + numbers[2] + checkpoint.root
