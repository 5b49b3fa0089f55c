"""Requests to a witness as ledgers make them, honest ones and others, and a witness that answers them."""

from pathlib import Path

from audit_vectors import VECTORS

from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.checkpoint_witness import Witness, WitnessState
from poweron_projections.audit.merkle_tree import EMPTY_ROOT, GrowingTree, consistency_proof, leaf_hash, root_of
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519, ED25519_COSIGNATURE, ML_DSA_44_COSIGNATURE, SignedNote
from poweron_projections.audit.witness_request import WitnessRequest

LOG = SigningKey(VECTORS["origin"], ED25519, bytes.fromhex(VECTORS["seeds"]["log"]))
KEYS = [SigningKey("witness.example/w1", kind, b"w" * 32) for kind in (ED25519_COSIGNATURE, ML_DSA_44_COSIGNATURE)]
PUBLIC = [key.public for key in KEYS]
NOW = 1_795_219_204


def _tree(size: int, *, other: bool = False) -> dict[tuple[int, int], bytes]:
    """The hashes of a tree; `other` changes its first leaf."""
    tree, hashes = GrowingTree(), dict[tuple[int, int], bytes]()
    for number in range(size):
        leaf = leaf_hash(b"%d" % (number + (1_000 if other and number == 0 else 0)))
        hashes |= {(each.level, each.place): each.hash for each in tree.append(leaf)}
    return hashes


def request(old: int, size: int, *, key: SigningKey = LOG, other: bool = False) -> WitnessRequest:
    """The request of a ledger of this size, which may have rewritten its first entry."""
    hashes = _tree(size, other=other)

    def read(level: int, place: int) -> bytes:
        return hashes[level, place]

    text = str(Checkpoint(key.name, size, root_of(size, read) if size else EMPTY_ROOT))
    proof = consistency_proof(old, size, read) if 0 < old < size else []
    return WitnessRequest(old, proof, SignedNote(text, [key.sign(text)]))


def witness_at(folder: Path) -> Witness:
    return Witness(KEYS, [LOG.public], WitnessState(folder), lambda: NOW)
