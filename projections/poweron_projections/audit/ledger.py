"""The ledger: enters each record of `poweron.events` in its topic, in the order of their offsets, and signs its size.

An entry follows from its record, the verdict of the fold and the entry before of the same workflow alone, so two
ledgers that run at once can only repeat each other: a reader counts the first entry of a record. What is
signed is the topic as it is: if an append is not answered with the next offsets, this ledger gives up, and the next one
begins with what the topic holds.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from poweron_events import topics
from poweron_events.archive_events import WorkflowExported
from poweron_events.codec import Undecodable
from poweron_events.envelope import Recorded
from poweron_events.errors import Conflict, Refused
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Message, Record
from poweron_projections import offsets
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.ledger_clock import LedgerClock
from poweron_projections.audit.ledger_entry import Head, NamedRecord, event_entry, heads_entry, reject_entry
from poweron_projections.audit.ledger_heads import last_complete_ms, listed_heads
from poweron_projections.audit.ledger_rows import ledger_positions
from poweron_projections.audit.ledger_tree import loaded_tree
from poweron_projections.audit.merkle_tree import EMPTY_ROOT, GrowingTree, leaf_hash
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import SignedNote
from poweron_projections.audit.past_workflows import PastWorkflow, past_workflows
from poweron_projections.connection import Pool, snapshot
from poweron_projections.fold_cache import fold_cache
from poweron_projections.projection import Read, read

KEY: Final = b"ledger"
"""The key of all entries: they keep the order in which they were appended."""
TURN: Final = 500  # records entered before other tasks get their turn
WAIT: Final = 0.05  # seconds between two looks whether the rows have caught up


class LedgerAlarm(Refused):
    """The ledger, its last checkpoint or the log was changed or lost; the role signs nothing until an operator acts."""


@dataclass(slots=True)
class Ledger:
    """A ledger that writes: its tree, how far it has entered each partition, and the workflows that it holds.

    After an error it may be ahead of its topic and must not be used.
    """

    log: EventLog
    pool: Pool
    keys: Sequence[SigningKey]
    tree: GrowingTree
    positions: dict[int, int]
    open_heads: dict[str, Head]
    """Where the open workflows are."""
    changed: dict[str, Head] = field(default_factory=dict)
    """Where the workflows are that have entries since the last heads."""
    ended: dict[str, Head] = field(default_factory=dict)
    """Where those are that changed before the last heads and are still held."""
    held: dict[str, Workflow] = field(default_factory=dict)
    """The states of workflows that may receive records: the next one is judged by them."""
    in_rows: int = 0
    """The number of entries that the rows held when they were read last."""
    released: int = 0
    """The rows must hold this many entries before a workflow that is not held is read from them."""
    clock: LedgerClock = field(default_factory=LedgerClock)
    is_export_entered: bool = False
    """Whether a workflow was exported since the last heads, so that its bundle waits for the next checkpoint."""
    signed: int = 0
    """The size of the tree that was signed last."""

    @classmethod
    async def load(cls, log: EventLog, pool: Pool, keys: Sequence[SigningKey]) -> "Ledger":
        """Begin where the topic ends, once the rows have caught up with it.

        Raises:
            LedgerAlarm: the topic has fewer entries than the rows.
            Unavailable: the log or Postgres cannot be reached.
        """
        end = (await log.ends(topics.LEDGER.name))[0]
        while True:
            async with snapshot(pool) as connection:
                reached = await offsets.read_all(connection)
                taken = reached[topics.LEDGER.name].get(0, 0)
                if taken > end:
                    raise lost_entries(end, taken)
                positions = dict.fromkeys(range(topics.PARTITIONS), 0) | await ledger_positions(connection)
                if taken == end and _is_projected(reached[topics.EVENTS.name], positions):
                    heads = await listed_heads(connection, end)
                    tree = await loaded_tree(connection, end)
                    open_heads = {head.workflow_id: head for head in heads.open}
                    changed = {head.workflow_id: head for head in heads.changed}
                    clock = LedgerClock(await last_complete_ms(connection))
                    return cls(log, pool, keys, tree, positions, open_heads, changed, released=end, clock=clock)
            await asyncio.sleep(WAIT)

    @property
    def has_new_entries(self) -> bool:
        """Whether something was entered since the last heads."""
        return bool(self.changed)

    async def enter(self, records: Iterable[Record]) -> None:
        """Append the entries of the next records.

        Raises:
            Conflict: another ledger has written in the meantime.
            Unavailable: the log or Postgres cannot be reached; it is unknown what was appended.
        """
        fresh = [record for record in records if record.offset >= self.positions[record.partition]]
        for start in range(0, len(fresh), TURN):
            await self._enter([read(record) for record in fresh[start : start + TURN]])

    async def _enter(self, reads: Sequence[Read]) -> None:
        await self._hold(reads)
        entries = [self._entry(record, recorded) for record, recorded in reads]
        await self.append(entries)

    def _entry(self, record: Record, recorded: Recorded | Undecodable) -> bytes:
        self.positions[record.partition] = record.offset + 1
        if isinstance(recorded, Undecodable):
            return reject_entry(record, "unreadable" if record.unreadable else "undecodable")
        envelope = recorded.envelope
        before = self.held[envelope.workflow_id]
        before, after, verdict = fold_cache.judge(before, recorded)
        head = self.changed.get(before.id) or self.open_heads.get(before.id) or self.ended.get(before.id)
        previous = "" if head is None else head.leaf
        named = NamedRecord(before.id, envelope.id, envelope.type)
        seq, digest = before.seq, recorded.sha256
        entry = event_entry(record, named, verdict=verdict, seq=seq, previous=previous, digest=digest)
        self.is_export_entered |= isinstance(envelope.event, WorkflowExported)
        self.held[before.id] = after
        self.changed[before.id] = Head(before.id, seq, leaf_hash(entry).hex())
        return entry

    async def _hold(self, reads: Sequence[Read]) -> None:
        """Read the workflows of these records that are not held from the rows, as of where the ledger is."""
        asked = dict[str, PastWorkflow]()
        for record, recorded in reads:
            if not isinstance(recorded, Undecodable) and (name := recorded.envelope.workflow_id) not in self.held:
                asked.setdefault(name, PastWorkflow(name, record.partition, self.positions[record.partition]))
        if not asked:
            return
        needed = {each.partition: each.before for each in asked.values()}
        while True:
            async with snapshot(self.pool) as connection:
                reached = await offsets.read_all(connection)
                self.in_rows = reached[topics.LEDGER.name].get(0, 0)
                if self.in_rows >= self.released and _is_projected(reached[topics.EVENTS.name], needed):
                    async for workflow, head in past_workflows(connection, list(asked.values())):
                        self.held[workflow.id] = workflow
                        if head is not None:
                            self.changed.setdefault(workflow.id, head)
                    break
            await asyncio.sleep(WAIT)
        self.held |= {name: Workflow(name) for name in asked if name not in self.held}

    async def append(self, entries: Sequence[bytes]) -> None:
        """Append entries to the topic and to the tree."""
        size = self.tree.size
        appended = await self.log.append(topics.LEDGER.name, [Message(KEY, entry) for entry in entries])
        if list(appended) != [*range(size, size + len(entries))]:
            raise Conflict("another ledger has appended entries")
        for entry in entries:
            self.tree.add(leaf_hash(entry))

    async def sign(self, now_ms: int) -> None:
        """Append the heads of all workflows that changed or are open, then sign the tree and publish that."""
        await self.publish(await self.signed_tree(now_ms))

    async def signed_tree(self, now_ms: int, keys: Sequence[SigningKey] = ()) -> SignedNote:
        """Append the heads of all workflows that changed or are open; return the tree that ends with them, signed.

        By default, the keys of the ledger sign.
        """
        for name, head in self.changed.items():
            if self.held[name].is_open if name in self.held else name in self.open_heads:
                self.open_heads[name] = head
            else:
                self.open_heads.pop(name, None)
        heads = {**self.open_heads, **self.changed}
        as_of_ms = await self.complete_until(now_ms)
        open_count = len(self.open_heads)
        size = self.tree.size
        entry = heads_entry([*heads.values()], open_count=open_count, size=size, time_ms=now_ms, as_of_ms=as_of_ms)
        await self.append([entry])
        self._release()
        checkpoint = Checkpoint(self.keys[0].name, self.tree.size, self.tree.root)
        return signed_checkpoint(checkpoint, keys or self.keys, now_ms)

    async def complete_until(self, now_ms: int) -> int:
        """Return the time, in ms since 1970, up to which everything is entered; often asked, it is seldom long ago."""
        return self.clock.as_of_ms(self.positions, await self.log.ends(topics.EVENTS.name), now_ms)

    async def publish(self, note: SignedNote) -> None:
        """Append a checkpoint to its topic."""
        await self.log.append(topics.CHECKPOINTS.name, [Message(KEY, str(note).encode())])

    def _release(self) -> None:
        """Forget the workflows that are not open and did not change since the heads before these.

        Only once the rows hold those heads: otherwise, entering would have to wait for the rows.
        """
        if self.in_rows >= self.signed:
            kept = self.open_heads.keys() | self.changed.keys()
            self.held = {name: workflow for name, workflow in self.held.items() if name in kept}
            self.ended.clear()
            self.released = max(self.released, self.signed)
        self.ended |= self.changed
        self.changed.clear()
        self.is_export_entered = False
        self.signed = self.tree.size


def signed_checkpoint(checkpoint: Checkpoint | None, keys: Sequence[SigningKey], now_ms: int) -> SignedNote:
    """Return a checkpoint, by default that of an empty tree, with the signatures of these keys."""
    text = str(checkpoint or Checkpoint(keys[0].name, 0, EMPTY_ROOT))
    return SignedNote(text, [key.sign(text, now_ms // 1000) for key in keys])


def lost_entries(end: int, taken: int) -> LedgerAlarm:
    """Return the alarm about a topic that is shorter than the rows that were made of it."""
    return LedgerAlarm(
        f"{topics.LEDGER.name} has {end} entries, but the rows were made of {taken}: entries were removed. Nothing is "
        "signed until the topic is restored."
    )


def _is_projected(projected: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    return all(projected.get(partition, 0) >= offset for partition, offset in wanted.items())
