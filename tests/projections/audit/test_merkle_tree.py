"""The Merkle tree against the definitions of RFC 6962, word for word, and against vectors that Go opened."""

import base64
from collections.abc import Sequence
from hashlib import sha256

import orjson
import pytest
from audit_vectors import VECTORS
from hypothesis import given
from hypothesis import strategies as st

from poweron_projections.audit.merkle_tree import (
    EMPTY_ROOT,
    GrowingTree,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    leaf_hash,
    root_of,
)

SIZES = st.integers(min_value=1, max_value=70)


def mth(entries: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1."""
    if not entries:
        return sha256(b"").digest()
    if len(entries) == 1:
        return sha256(b"\x00" + entries[0]).digest()
    k = max(1 << power for power in range(10) if 1 << power < len(entries))
    return sha256(b"\x01" + mth(entries[:k]) + mth(entries[k:])).digest()


def path(m: int, entries: Sequence[bytes]) -> list[bytes]:
    """PATH of RFC 6962, 2.1.1."""
    if len(entries) == 1:
        return []
    k = max(1 << power for power in range(10) if 1 << power < len(entries))
    if m < k:
        return [*path(m, entries[:k]), mth(entries[k:])]
    return [*path(m - k, entries[k:]), mth(entries[:k])]


def subproof(m: int, entries: Sequence[bytes], *, known: bool) -> list[bytes]:
    """SUBPROOF of RFC 6962, 2.1.2."""
    if m == len(entries):
        return [] if known else [mth(entries)]
    k = max(1 << power for power in range(10) if 1 << power < len(entries))
    if m <= k:
        return [*subproof(m, entries[:k], known=known), mth(entries[k:])]
    return [*subproof(m - k, entries[k:], known=False), mth(entries[:k])]


class Stored:
    """A tree whose subtrees are stored as they are completed."""

    def __init__(self, entries: Sequence[bytes]) -> None:
        self.hashes = dict[tuple[int, int], bytes]()
        self.tree = GrowingTree()
        self.roots = [self.tree.root]
        for entry in entries:
            for level, place, hash_ in self.tree.append(leaf_hash(entry)):
                assert (level, place) not in self.hashes
                self.hashes[level, place] = hash_
            self.roots.append(self.tree.root)

    def read(self, level: int, place: int) -> bytes:
        return self.hashes[level, place]


ENTRIES = [str(number).encode() for number in range(70)]
STORED = Stored(ENTRIES)


def test_every_root_is_that_of_the_rfc() -> None:
    assert STORED.roots == [mth(ENTRIES[:size]) for size in range(len(ENTRIES) + 1)]
    assert [root_of(size, STORED.read) for size in range(len(ENTRIES) + 1)] == STORED.roots
    assert STORED.roots[0] == EMPTY_ROOT


@given(SIZES, st.data())
def test_a_leaf_is_proven_by_the_path_of_the_rfc_and_by_no_other(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof, leaf, root = inclusion_proof(index, size, STORED.read), leaf_hash(ENTRIES[index]), STORED.roots[size]
    assert proof == path(index, ENTRIES[:size])
    assert is_included(leaf, index, size, proof, root)
    other = data.draw(st.integers(0, size - 1).filter(lambda each: each != index)) if size > 1 else size
    assert not is_included(leaf, other, size, proof, root)
    assert not is_included(leaf_hash(b"forged"), index, size, proof, root)
    assert not is_included(leaf, index, size, [*proof, root], root)
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        assert not is_included(leaf, index, size, [*proof[:at], *proof[at + 1 :]], root)
        assert not is_included(leaf, index, size, [*proof[:at], leaf_hash(b"x"), *proof[at + 1 :]], root)


@given(SIZES, st.data())
def test_an_older_tree_is_proven_by_the_proof_of_the_rfc_and_by_no_other(size: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, size))
    proof, old_root, root = consistency_proof(old, size, STORED.read), STORED.roots[old], STORED.roots[size]
    assert proof == subproof(old, ENTRIES[:size], known=True)
    assert is_consistent(old, old_root, size, root, proof)
    assert not is_consistent(old, mth([*ENTRIES[: old - 1], b"forged"]), size, root, proof)
    assert not is_consistent(old, old_root, size, mth([*ENTRIES[:size], b"more"]), proof)
    assert not is_consistent(old, old_root, size, root, [*proof, root])
    if old < size:
        assert not is_consistent(old + 1, old_root, size, root, proof)
        assert not is_consistent(old, old_root, size, root, proof[:-1])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 33, 70])
def test_a_tree_goes_on_where_it_was_left(size: int) -> None:
    tree = GrowingTree(size, STORED.read)
    for entry in ENTRIES[size:]:
        tree.add(leaf_hash(entry))
    assert (tree.size, tree.root) == (len(ENTRIES), STORED.roots[-1])


def test_a_node_is_no_leaf() -> None:
    left, right = leaf_hash(b"0"), leaf_hash(b"1")
    assert not is_included(leaf_hash(left + right), 0, 1, [], STORED.roots[2])


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_what_is_not_in_the_tree_has_no_proof(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="has no leaf"):
        inclusion_proof(index, size, STORED.read)
    assert not is_included(STORED.roots[1], index, size, [], STORED.roots[size])


def test_the_golden_vectors_have_these_hashes_and_proofs() -> None:
    entries = [line["entry"].encode() for line in VECTORS["log"]]
    stored = Stored(entries)
    assert [leaf_hash(entry).hex() for entry in entries] == [line["leaf"] for line in VECTORS["log"]]
    assert {str(size): root.hex() for size, root in enumerate(stored.roots)} == VECTORS["roots"]
    encoded = [base64.b64encode(hash_).decode() for hash_ in inclusion_proof(3, 5, stored.read)]
    assert encoded == VECTORS["inclusion_3_in_5"]
    encoded = [base64.b64encode(hash_).decode() for hash_ in consistency_proof(3, 5, stored.read)]
    assert encoded == VECTORS["consistency_3_to_5"]
    lines = [line.encode() for line in VECTORS["heads"]["lines"]]
    assert Stored(lines).roots[-1].hex() == VECTORS["heads"]["root"]
    assert all(orjson.dumps(orjson.loads(line), option=orjson.OPT_SORT_KEYS) == line for line in [*entries, *lines])
