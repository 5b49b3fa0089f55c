"""The Merkle tree of RFC 6962: its hashes, its root at any size, and the proofs that auditors check.

A tree of n leaves consists of complete subtrees. The hash of a complete subtree never changes again, so it is computed
once and stored under its level and place: the subtree of 2**level leaves that begins at leaf place * 2**level.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = sha256(b"").digest()

ReadHash = Callable[[int, int], bytes]
"""Returns the hash of the complete subtree with this level and place."""


class Subtree(NamedTuple):
    """The hash of a complete subtree, and where it is: its level, and its place among those of its level."""

    level: int
    place: int
    hash: bytes


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of a leaf (RFC 6962, 2.1)."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node (RFC 6962, 2.1)."""
    return sha256(b"\x01" + left + right).digest()


class GrowingTree:
    """The right edge of a tree: all that is needed to append leaves and to know the root."""

    def __init__(self, size: int = 0, read: ReadHash | None = None) -> None:
        """Continue a tree of `size` leaves, whose subtree hashes `read` returns."""
        self.size = size
        self._edge = [read(level, place) for level, place in edge(size)] if read is not None else []
        if len(self._edge) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves needs its hashes")

    def append(self, leaf: bytes) -> Iterable[Subtree]:
        """Append the hash of a leaf; return the subtrees that it completes, from the leaf upwards."""
        completed, level, place = [Subtree(0, self.size, leaf)], 0, self.size
        while place & 1:
            leaf = node_hash(self._edge.pop(), leaf)
            level, place = level + 1, place >> 1
            completed.append(Subtree(level, place, leaf))
        self._edge.append(leaf)
        self.size += 1
        return completed

    def add(self, leaf: bytes) -> None:
        """Append the hash of a leaf, as `append` does, for callers who keep no subtrees."""
        place, self.size = self.size, self.size + 1
        while place & 1:
            leaf = sha256(b"\x01" + self._edge.pop() + leaf).digest()
            place >>= 1
        self._edge.append(leaf)

    @property
    def root(self) -> bytes:
        """The root of the tree."""
        if not self._edge:
            return EMPTY_ROOT
        *lefts, root = self._edge
        for left in reversed(lefts):
            root = node_hash(left, root)
        return root


def root_of(size: int, read: ReadHash) -> bytes:
    """Return the root that the tree had at this size."""
    return GrowingTree(size, read).root


def inclusion_proof(index: int, size: int, read: ReadHash) -> list[bytes]:
    """Return the audit path of a leaf in the tree of this size (RFC 6962, 2.1.1).

    Raises:
        ValueError: the tree has no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    path, begin, end = list[bytes](), 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(_hash(middle, end, read))
            end = middle
        else:
            path.append(_hash(begin, middle, read))
            begin = middle
    return path[::-1]


def consistency_proof(old_size: int, size: int, read: ReadHash) -> list[bytes]:
    """Return the proof that the tree of the old size is a prefix of the tree of this size (RFC 6962, 2.1.2).

    Raises:
        ValueError: the old tree is empty or larger.
    """
    if not 0 < old_size <= size:
        raise ValueError(f"no proof leads from {old_size} to {size} leaves")
    path, begin, end, is_root = list[bytes](), 0, size, True
    while end != old_size:
        middle = begin + _split(end - begin)
        if old_size <= middle:
            path.append(_hash(middle, end, read))
            end = middle
        else:
            path.append(_hash(begin, middle, read))
            begin, is_root = middle, False
    return [*([] if is_root else [_hash(begin, end, read)]), *reversed(path)]


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether a proof shows that the leaf is in the tree with this root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size or any(len(each) != HASH_BYTES for each in (leaf, root, *proof)):
        return False
    at, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if at & 1 or at == last:
            found = node_hash(sibling, found)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root


def is_consistent(old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether a proof shows that the old tree is a prefix of the new one (RFC 9162, 2.1.4.2)."""
    if not 0 < old_size <= size:
        return False
    if old_size == size:
        return not proof and old_root == root
    if not proof:
        return False
    hashes = [old_root, *proof] if old_size & (old_size - 1) == 0 else [*proof]
    at, last = old_size - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and old == old_root and new == root


def edge(size: int) -> list[tuple[int, int]]:
    """Return the largest complete subtrees that make up a tree, from the left, as levels and places."""
    subtrees, begin = list[tuple[int, int]](), 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            subtrees.append((level, begin >> level))
            begin += 1 << level
    return subtrees


def _split(count: int) -> int:
    """Return the largest power of two below a count of at least two."""
    return 1 << (count - 1).bit_length() - 1


def _hash(begin: int, end: int, read: ReadHash) -> bytes:
    """Return the hash of the leaves in a range that a split of the tree made."""
    count = end - begin
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return read(level, begin >> level)
    middle = begin + _split(count)
    return node_hash(_hash(begin, middle, read), _hash(middle, end, read))
