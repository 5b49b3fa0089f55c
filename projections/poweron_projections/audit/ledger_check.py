"""What must hold before a ledger signs: it continues the last checkpoint, and the log still has what was entered."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from poweron_events import topics
from poweron_events.log import EventLog
from poweron_projections.audit.checkpoint import Checkpoint, InvalidCheckpoint
from poweron_projections.audit.ledger import LedgerAlarm
from poweron_projections.audit.ledger_tree import stored_root
from poweron_projections.audit.note_signatures import verified
from poweron_projections.audit.notes import InvalidNote, SignedNote, VerifierKey
from poweron_projections.connection import Pool, acquire
from poweron_projections.records import digest

_LAST_CHECKPOINTS: Final = """
(SELECT note FROM ledger_checkpoints WHERE size IS NOT NULL ORDER BY size DESC LIMIT 1)
UNION ALL
(SELECT note FROM ledger_checkpoints WHERE size <= $1 ORDER BY size DESC LIMIT 1)
"""
_LAST_ENTERED: Final = """
SELECT given.partition, log_offset, sha256
  FROM unnest($1::integer[], $2::bigint[]) AS given (partition, next)
  JOIN records ON records.partition = given.partition AND log_offset = next - 1
"""


class LastCheckpoint(NamedTuple):
    """The checkpoint that was signed last, and who signed it."""

    checkpoint: Checkpoint
    signers: Sequence[VerifierKey]


async def check_ledger(
    log: EventLog, pool: Pool, *, entries: tuple[int, int], positions: Mapping[int, int], keys: Sequence[VerifierKey]
) -> LastCheckpoint | None:
    """Compare a ledger with the last checkpoint and with the log; return that checkpoint, None if there is none.

    Args:
        log: the log.
        pool: the rows.
        entries: the number of entries that the rows hold, and that the topic of the ledger has.
        positions: how far those of the rows have entered each partition.
        keys: one of them must have signed the last checkpoint.

    Raises:
        LedgerAlarm: something was changed or lost.
        Unavailable: the log or Postgres cannot be reached.
    """
    await _check_log(log, pool, positions)
    held, end = entries
    async with acquire(pool) as connection:
        notes = [row["note"] for row in await connection.fetch(_LAST_CHECKPOINTS, held)]
        found = [checked_note(note, keys) for note in dict.fromkeys(notes)]
        for checkpoint, _ in found:
            is_held = checkpoint.size <= held
            if checkpoint.size > end or (is_held and await stored_root(connection, checkpoint.size) != checkpoint.root):
                raise LedgerAlarm(
                    f"The ledger has {end} entries that do not continue the checkpoint of {checkpoint.size}: entries "
                    "were removed or changed. Nothing is signed until its topic is restored."
                )
    return max(found, key=lambda last: last.checkpoint.size, default=None)


def checked_note(note: str, keys: Sequence[VerifierKey]) -> LastCheckpoint:
    """Read the last checkpoint; raise LedgerAlarm if none of the keys has signed it."""
    try:
        signed = SignedNote.parse(note)
        signers = [key for key, _ in verified(signed, keys)]
        checkpoint = Checkpoint.parse(signed.text)
    except (InvalidNote, InvalidCheckpoint) as error:
        raise LedgerAlarm(f"The last checkpoint of the ledger cannot be trusted: {error}") from error
    if not signers:
        raise LedgerAlarm(
            "The last checkpoint of the ledger was signed with another key. Set POWERON_LEDGER_KEY to the key that "
            "signed it, after a new one if there is one; nothing is signed until then."
        )
    return LastCheckpoint(checkpoint, signers)


async def _check_log(log: EventLog, pool: Pool, positions: Mapping[int, int]) -> None:
    """Check that the log still has the last record of each partition that was entered."""
    entered = {partition: offset for partition, offset in positions.items() if offset}
    ends = await log.ends(topics.EVENTS.name, entered)
    for partition, offset in entered.items():
        if ends[partition] < offset:
            raise LedgerAlarm(
                f"The ledger entered {offset} records of partition {partition} of {topics.EVENTS.name}, which has "
                f"{ends[partition]}: records were lost. Nothing is signed until the topic is restored."
            )
    async with acquire(pool) as connection:
        rows = await connection.fetch(_LAST_ENTERED, [*entered], [*entered.values()])
    kept = {row["partition"]: row["sha256"] for row in rows}
    start = {partition: offset - 1 for partition, offset in entered.items()}
    async for records in log.read(topics.EVENTS.name, start, entered):
        for record in records:
            if kept.get(record.partition) != digest(record.value):
                raise LedgerAlarm(
                    f"Record {record.offset} of partition {record.partition} of {topics.EVENTS.name} is not the one "
                    "that was entered. Nothing is signed until the topic is restored."
                )
