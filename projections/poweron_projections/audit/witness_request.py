"""Requests to a witness (C2SP `tlog-witness`, `add-checkpoint`): a checkpoint, and how it continues an older one."""

import base64
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from poweron_projections.audit.checkpoint import ROOT_SIZE, Checkpoint
from poweron_projections.audit.notes import SignedNote

MAX_PROOF: Final = 63  # hashes
_OLD: Final = re.compile(r"old (0|[1-9][0-9]{0,18})")


class InvalidWitnessRequest(ValueError):
    """The bytes are no request to a witness."""


class WitnessRequest(NamedTuple):
    """A signed checkpoint, and the proof that it continues the checkpoint of the old size."""

    old_size: int
    proof: Sequence[bytes]
    note: SignedNote

    @classmethod
    def parse(cls, body: bytes) -> "WitnessRequest":
        """Read a request; raise InvalidWitnessRequest if it is none."""
        try:
            head, blank, text = body.decode().partition("\n\n")
            first, *lines = head.split("\n")
            old = _OLD.fullmatch(first)
            proof = [base64.b64decode(line, validate=True) for line in lines]
            request = cls(int(old[1]) if old else -1, proof, SignedNote.parse(text))
            size = request.checkpoint.size
        except ValueError as error:
            raise InvalidWitnessRequest(f"The request cannot be read: {error}") from error
        if not blank or not old or len(proof) > MAX_PROOF or any(len(each) != ROOT_SIZE for each in proof):
            raise InvalidWitnessRequest("The request is not `old SIZE`, up to 63 hashes, an empty line, a checkpoint.")
        if request.old_size > size:
            raise InvalidWitnessRequest(f"The old size {request.old_size} is larger than that of the checkpoint.")
        return request

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint.parse(self.note.text)

    def __bytes__(self) -> bytes:
        lines = [f"old {self.old_size}", *(base64.b64encode(each).decode() for each in self.proof)]
        return "".join(f"{line}\n" for line in (*lines, "")).encode() + str(self.note).encode()


class WitnessAnswer(NamedTuple):
    """The answer of a witness: its HTTP status and the body; of a conflict, the size that it has cosigned."""

    status: int
    body: bytes
    known_size: int | None = None
