"""The verification of everything: events, ledger and checkpoints are read from Kafka side by side, each only once."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, closing
from dataclasses import dataclass
from typing import Final

from poweron_events import topics
from poweron_events.log import EventLog, Record
from poweron_projections.audit.checkpoint import Checkpoint, InvalidCheckpoint
from poweron_projections.audit.ledger_entry import ParsedEntry, parsed_entry
from poweron_projections.audit.ledger_verification import CLAIMS, LedgerClaim, LedgerVerification
from poweron_projections.audit.notes import InvalidNote, SignedNote
from poweron_projections.audit.verifier.bundle_claims import Trust

NOT_SIGNED: Final = ("not_checked", "there is no checkpoint")
NOT_READ: Final = ("not_checked", "give --content to have them read, which takes long")
NOT_KNOWN: Final = ("not_checked", "V13 does not hold")
TURN: Final = 200  # entries checked before other tasks get their turn


@dataclass(frozen=True, slots=True)
class FullVerification:
    """The claims about everything, and what they are about."""

    claims: Sequence[LedgerClaim]
    origin: str
    signed_ms: int | None
    """The time of the newest checkpoint."""
    events: int
    size: int
    foreign: int
    """Entries that no ledger has written; readers skip them."""

    @property
    def is_ok(self) -> bool:
        """Whether every claim holds that the auditor asked for."""
        return all(claim.status != "fail" for claim in self.claims)


async def verify_everything(
    log: EventLog,
    trust: Trust,
    compare_rows: Callable[[], Awaitable[str]],
    on_read: Callable[[int, int], None] = lambda _, __: None,
    check_contents: Callable[[], Awaitable[str]] | None = None,
) -> FullVerification:
    """Check every entry, checkpoint and row, and all contents if there is a way to.

    Args:
        log: the log.
        trust: what the auditor brings along.
        compare_rows: returns which row differs from the log, nothing if none does.
        on_read: receives the number of entries that were checked, and of all.
        check_contents: returns which content is wrong, nothing if none is; not called if a row differs, since the rows
            say what was accepted.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
    """
    with closing(LedgerVerification(trust.key, trust.checkpoints)) as verification:
        try:
            async with asyncio.TaskGroup() as group:
                rows = group.create_task(_compared(compare_rows))
                ends = await _read_all(log, verification, on_read)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        claims = verification.claims(ends, trust.max_age_s, trust.now_s())
        note = verification.note
        claims.append(LedgerClaim("V7", *(trust.unwitnessed(note) if note is not None else NOT_SIGNED)))
        claims.append(LedgerClaim("V13", "fail" if rows.result() else "ok", rows.result()))
        if check_contents is None or rows.result():
            claims.append(LedgerClaim("V10", *(NOT_READ if check_contents is None else NOT_KNOWN)))
        else:
            wrong = await check_contents()
            claims.append(LedgerClaim("V10", "fail" if wrong else "ok", wrong))
        return FullVerification(
            claims=sorted(claims, key=lambda claim: [*CLAIMS].index(claim.id)),
            origin=trust.key.name,
            signed_ms=verification.signed_ms,
            events=verification.events,
            size=verification.tree.size,
            foreign=verification.foreign,
        )


async def _compared(compare_rows: Callable[[], Awaitable[str]]) -> str:
    return await compare_rows()


async def _read_all(
    log: EventLog, verification: LedgerVerification, on_read: Callable[[int, int], None]
) -> Mapping[int, int]:
    """Read what there is now; return the ends of the events."""
    signed = (await log.ends(topics.CHECKPOINTS.name))[0]
    end = (await log.ends(topics.LEDGER.name))[0]
    ends = await log.ends(topics.EVENTS.name)
    async with AsyncExitStack() as stack:
        readers = {
            partition: _Reader(await stack.enter_async_context(aclosing(_read(log, topics.EVENTS, partition, stop))))
            for partition, stop in ends.items()
        }
        notes = _Reader(await stack.enter_async_context(aclosing(_read(log, topics.CHECKPOINTS, 0, signed))))
        async with aclosing(_read(log, topics.LEDGER, 0, end)) as entries:
            async for batch in entries:
                for start in range(0, len(batch), TURN):
                    await _take(verification, batch[start : start + TURN], readers)
                    await _take_checkpoints(verification, notes)
                    await asyncio.sleep(0)
                on_read(verification.tree.size, end)
        await _take_checkpoints(verification, notes, rest=True)
    return ends


def _read(log: EventLog, topic: topics.Topic, partition: int, stop: int) -> AsyncGenerator[Sequence[Record]]:
    return log.read(topic.name, {partition: 0}, {partition: stop})


class _Reader:
    """Reads one partition up to the offsets that it is asked for, and holds the records that were not taken yet."""

    def __init__(self, batches: AsyncGenerator[Sequence[Record], None]) -> None:
        self._batches = batches
        self._records = deque[Record]()
        self._read_to = 0

    async def reach(self, offset: int) -> None:
        """Read until the record at this offset is held, or to the end."""
        while self._read_to <= offset:
            batch = await anext(self._batches, None)
            if batch is None:
                return
            self._records += batch
            self._read_to = batch[-1].offset + 1

    def take(self, offset: int) -> tuple[Record | None, int]:
        """Return the record at this offset, if there is one, and how many before it were never asked for."""
        skipped = 0
        while self._records and self._records[0].offset < offset:
            self._records.popleft()
            skipped += 1
        if self._records and self._records[0].offset == offset:
            return self._records.popleft(), skipped
        return None, skipped

    async def next(self) -> Record | None:
        """Return the first record that was not taken, without taking it."""
        if not self._records:
            await self.reach(self._read_to)
        return self._records[0] if self._records else None


async def _take(verification: LedgerVerification, entries: Sequence[Record], readers: Mapping[int, _Reader]) -> None:
    parsed = [parsed_entry(entry.value or b"") for entry in entries]
    for partition, offset in _needed(parsed).items():
        if partition in readers:
            await readers[partition].reach(offset)
    for entry, found in zip(entries, parsed, strict=True):
        record = None
        if found is not None and found.partition in readers:
            assert found.partition is not None
            if found.offset >= verification.next_offsets.get(found.partition, 0):
                record, skipped = readers[found.partition].take(found.offset)
                if skipped:
                    verification.fail("V4", f"{skipped} records before {found.partition}/{found.offset} are left out")
        verification.take_entry(entry.value or b"", record, found)


def _needed(entries: Sequence[ParsedEntry | None]) -> dict[int, int]:
    """Return the highest offset of each partition that these entries name."""
    needed = dict[int, int]()
    for entry in entries:
        if entry is not None and entry.partition is not None:
            needed[entry.partition] = max(needed.get(entry.partition, 0), entry.offset)
    return needed


async def _take_checkpoints(verification: LedgerVerification, notes: _Reader, *, rest: bool = False) -> None:
    """Check the checkpoints of the entries so far, or all that are left."""
    while (record := await notes.next()) is not None and (rest or _size(record) <= verification.tree.size):
        notes.take(record.offset)
        verification.take_checkpoint(record.value or b"", record.offset)


def _size(record: Record) -> int:
    """Return the size that a checkpoint names; 0 if it names none."""
    try:
        return Checkpoint.parse(SignedNote.parse((record.value or b"").decode()).text).size
    except (InvalidNote, InvalidCheckpoint, UnicodeError):
        return 0
