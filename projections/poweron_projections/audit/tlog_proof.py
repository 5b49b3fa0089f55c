"""Proofs that an entry is in a signed log, as text (C2SP `tlog-proof`)."""

import base64
from collections.abc import Sequence
from typing import Final, NamedTuple

_HEADER: Final = "c2sp.org/tlog-proof@v1"


class InvalidProof(ValueError):
    """The text is no proof."""


class TlogProof(NamedTuple):
    """The index of an entry, the hashes of its inclusion proof, and the signed checkpoint that it leads to."""

    leaf_index: int
    hashes: Sequence[bytes]
    checkpoint: str

    @classmethod
    def parse(cls, text: str) -> "TlogProof":
        """Read a proof; raise InvalidProof if it is none."""
        head, blank, checkpoint = text.partition("\n\n")
        header, index, *hashes = (*head.split("\n"), "")[:-1] if head.count("\n") else ("", "")
        word, _, number = index.partition(" ")
        is_proof = header == _HEADER and word == "index" and number.isascii() and number.isdigit()
        if not (is_proof and blank and checkpoint):
            raise InvalidProof("This is no proof of C2SP tlog-proof.")
        try:
            return cls(int(number), [base64.b64decode(line, validate=True) for line in hashes], checkpoint)
        except ValueError as error:
            raise InvalidProof("A hash of the proof is not in base64.") from error

    def __str__(self) -> str:
        lines = (_HEADER, f"index {self.leaf_index}", *(base64.b64encode(each).decode() for each in self.hashes))
        return "\n".join(lines) + f"\n\n{self.checkpoint}"
