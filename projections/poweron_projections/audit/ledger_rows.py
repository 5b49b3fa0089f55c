"""The ledger as rows: what its entries and checkpoints become, as the projector reads them back from their topics."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from poweron_events.errors import Conflict
from poweron_events.log import Record
from poweron_projections.audit.checkpoint import Checkpoint, InvalidCheckpoint
from poweron_projections.audit.ledger_entry import parsed_entry
from poweron_projections.audit.ledger_tree import STORED, loaded_tree
from poweron_projections.audit.merkle_tree import GrowingTree, leaf_hash
from poweron_projections.audit.notes import InvalidNote, SignedNote
from poweron_projections.connection import Connection, Pool, acquire
from poweron_projections.projection import Changes
from poweron_projections.table_spec import Row, Table, Uuid, text

REPEATED: Final = "repeated"
FOREIGN: Final = "foreign"


class LedgerEntryRow(NamedTuple):
    """One entry. `kind` is its own, `repeated` if an earlier one is about the same record, `foreign` if it is none."""

    place: int
    leaf: bytes
    kind: str
    workflow_id: Uuid | None
    seq: int | None
    entry: bytes | None
    """Its bytes; None for an event, whose entry follows from its record and the leaf before."""


class LedgerSubtreeRow(NamedTuple):
    """The hash of a complete subtree of a stored level."""

    level: int
    place: int
    hash: bytes


class LedgerPositionRow(NamedTuple):
    """How far the ledger has entered a partition of `poweron.events`."""

    partition: int
    next_offset: int


class LedgerCheckpointRow(NamedTuple):
    """One signed checkpoint; a record of the topic that is none has no size."""

    log_offset: int
    size: int | None
    root: bytes | None
    time_ms: int
    note: str


ENTRIES: Final = Table("ledger_entries", LedgerEntryRow, key=("place",))
SUBTREES: Final = Table("ledger_subtrees", LedgerSubtreeRow, key=("level", "place"))
POSITIONS: Final = Table("ledger_positions", LedgerPositionRow, key=("partition",), keeps="newest")
CHECKPOINTS: Final = Table("ledger_checkpoints", LedgerCheckpointRow, key=("log_offset",))

_POSITIONS: Final = "SELECT partition, next_offset FROM ledger_positions"


class LedgerFolding:
    """What must be known of the entries before, to make the rows of the next ones."""

    def __init__(self, tree: GrowingTree, positions: Mapping[int, int]) -> None:
        self._tree, self._positions = tree, dict(positions)

    @classmethod
    async def load(cls, connection: Connection, size: int) -> "LedgerFolding":
        """Continue where the rows end, after this number of entries."""
        return cls(await loaded_tree(connection, size), await ledger_positions(connection))

    def take(self, records: Iterable[Record]) -> Changes:
        """Return the rows of the next entries.

        Raises:
            Conflict: an entry is missing before one of them.
        """
        entries, subtrees, before = list[Row](), list[Row](), dict(self._positions)
        for record in records:
            if record.offset != self._tree.size:
                raise Conflict(f"entry {record.offset} of the ledger is not the next one after {self._tree.size}")
            value = record.value or b""
            leaf = leaf_hash(value)
            entries.append(self._row(record.offset, leaf, value))
            completed = self._tree.append(leaf)
            subtrees += [LedgerSubtreeRow(*each) for each in completed if each.level and each.level % STORED == 0]
        moved = [LedgerPositionRow(*place) for place in self._positions.items() if before.get(place[0]) != place[1]]
        return Changes({ENTRIES.name: entries, SUBTREES.name: subtrees}, {POSITIONS.name: moved}, ())

    def _row(self, place: int, leaf: bytes, value: bytes) -> LedgerEntryRow:
        entry = parsed_entry(value)
        if entry is None or entry.size not in (None, place):  # heads of a ledger that had lost its turn
            return LedgerEntryRow(place, leaf, FOREIGN, None, None, value)
        if entry.partition is None:
            return LedgerEntryRow(place, leaf, entry.kind, None, None, value)
        if entry.offset < self._positions.get(entry.partition, 0):
            return LedgerEntryRow(place, leaf, REPEATED, None, None, value)
        self._positions[entry.partition] = entry.offset + 1
        if entry.workflow_id is None:
            return LedgerEntryRow(place, leaf, entry.kind, None, None, value)
        return LedgerEntryRow(place, leaf, entry.kind, entry.workflow_id, entry.seq, None)


async def ledger_positions(connection: Connection) -> dict[int, int]:
    """Return the next offset of each partition of `poweron.events` that the ledger has entered."""
    return {row["partition"]: row["next_offset"] for row in await connection.fetch(_POSITIONS)}


async def entered_count(pool: Pool) -> int:
    """Return the number of entries that the rows hold."""
    async with acquire(pool) as connection:
        count: int = await connection.fetchval("SELECT coalesce(max(place) + 1, 0) FROM ledger_entries")
    return count


def checkpoint_changes(records: Iterable[Record]) -> Changes:
    """Return the rows of records of `poweron.checkpoints`."""
    return Changes({CHECKPOINTS.name: [_checkpoint_row(record) for record in records]}, {}, ())


def _checkpoint_row(record: Record) -> LedgerCheckpointRow:
    note = (record.value or b"").decode(errors="replace")
    try:
        checkpoint = Checkpoint.parse(SignedNote.parse(note).text)
    except (InvalidNote, InvalidCheckpoint):
        return LedgerCheckpointRow(record.offset, None, None, record.time_ms, text(note))
    return LedgerCheckpointRow(record.offset, checkpoint.size, checkpoint.root, record.time_ms, note)
