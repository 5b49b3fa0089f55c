"""The ledger's tree in the rows: the leaves, and the complete subtrees of every eighth level, as in tiles of 256.

The hashes of the levels between follow from at most 128 of the stored ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from poweron_events.errors import Conflict
from poweron_projections.audit.merkle_tree import (
    GrowingTree,
    ReadHash,
    consistency_proof,
    edge,
    inclusion_proof,
    node_hash,
    root_of,
)
from poweron_projections.connection import Connection

STORED: Final = 8  # levels from one that is stored to the next

_LEAVES: Final = """
SELECT given.number, leaf AS hash
  FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS given (first, after, number)
  JOIN ledger_entries ON place >= given.first AND place < given.after
 ORDER BY given.number, place
"""
_SUBTREES: Final = """
SELECT given.number, hash
  FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS given (first, after, number)
  JOIN ledger_subtrees ON level = $3 AND place >= given.first AND place < given.after
 ORDER BY given.number, place
"""

Place = tuple[int, int]
"""The level of a complete subtree, and its place among those of its level."""
T = TypeVar("T")


async def loaded_tree(connection: Connection, size: int) -> GrowingTree:
    """Return the tree of this size, to which entries can be appended."""
    return await _computed(connection, lambda read: GrowingTree(size, read), edge(size))


async def stored_edge(connection: Connection, size: int) -> list[bytes]:
    """Return the hashes of the largest complete subtrees that make up the tree of this size, from the left."""
    places = edge(size)
    return await _computed(connection, lambda read: [read(level, place) for level, place in places], places)


async def stored_root(connection: Connection, size: int) -> bytes:
    """Return the root that the tree had at this size."""
    return await _computed(connection, lambda read: root_of(size, read))


async def stored_inclusion_proof(connection: Connection, index: int, size: int) -> list[bytes]:
    """Return the proof that the tree of this size has the leaf of this index."""
    return await _computed(connection, lambda read: inclusion_proof(index, size, read))


async def stored_consistency_proof(connection: Connection, old_size: int, size: int) -> list[bytes]:
    """Return the proof that the tree of the old size is a prefix of the tree of this size."""
    return await _computed(connection, lambda read: consistency_proof(old_size, size, read))


async def stored_consistency_proofs(connection: Connection, old_sizes: Sequence[int], size: int) -> list[list[bytes]]:
    """Return the same for several old sizes, which have most hashes in common."""
    return await _computed(connection, lambda read: [consistency_proof(old, size, read) for old in old_sizes])


async def _computed(
    connection: Connection, compute: Callable[[ReadHash], T], wanted: Sequence[Place] | None = None
) -> T:
    """Fetch the hashes that a computation reads, then run it; if `wanted` is None, run it once to see which.

    Raises:
        Conflict: the rows lack some of them.
    """
    if wanted is None:
        asked = list[Place]()

        def note(level: int, place: int) -> bytes:
            asked.append((level, place))
            return b""

        compute(note)
        wanted = [*dict.fromkeys(asked)]
    hashes = await _subtree_hashes(connection, wanted)
    return compute(lambda level, place: hashes[level, place])


async def _subtree_hashes(connection: Connection, wanted: Sequence[Place]) -> Mapping[Place, bytes]:
    found = dict[Place, bytes]()
    for base in {level - level % STORED for level, _ in wanted}:
        places = [place for place in wanted if place[0] - place[0] % STORED == base]
        firsts = [place << (level - base) for level, place in places]
        afters = [(place + 1) << (level - base) for level, place in places]
        query = (_LEAVES,) if base == 0 else (_SUBTREES, base)
        rows = await connection.fetch(query[0], firsts, afters, *query[1:])
        hashes: list[list[bytes]] = [[] for _ in places]
        for row in rows:
            hashes[row["number"] - 1].append(row["hash"])
        for (level, place), below in zip(places, hashes, strict=True):
            if len(below) != 1 << (level - base):
                raise Conflict(f"the rows lack hashes of the ledger at level {base}; a rebuild restores them")
            found[level, place] = _folded(below)
    return found


def _folded(hashes: Iterable[bytes]) -> bytes:
    """Return the hash of the complete subtree above these hashes, whose number is a power of two."""
    level = list(hashes)
    while len(level) > 1:
        level = [node_hash(*pair) for pair in zip(level[::2], level[1::2], strict=True)]
    return level[0]
