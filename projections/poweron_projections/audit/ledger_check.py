"""What must hold before a ledger signs: it continues the last checkpoint, and the log still has what was entered."""

from collections.abc import Mapping
from typing import Final

from poweron_events import topics
from poweron_events.errors import Refused
from poweron_events.log import EventLog
from poweron_projections.audit.checkpoint import Checkpoint, InvalidCheckpoint
from poweron_projections.audit.ledger import Ledger
from poweron_projections.audit.ledger_tree import stored_root
from poweron_projections.audit.note_signatures import verified
from poweron_projections.audit.notes import InvalidNote, SignedNote
from poweron_projections.connection import Connection, Pool, acquire
from poweron_projections.records import digest

_LAST_CHECKPOINT: Final = "SELECT note FROM ledger_checkpoints WHERE size IS NOT NULL ORDER BY size DESC LIMIT 1"
_LAST_ENTERED: Final = """
SELECT given.partition, log_offset, sha256
  FROM unnest($1::integer[], $2::bigint[]) AS given (partition, next)
  JOIN records ON records.partition = given.partition AND log_offset = next - 1
"""


class LedgerAlarm(Refused):
    """The ledger, its last checkpoint or the log was changed or lost; the role signs nothing until an operator acts."""


async def check_ledger(log: EventLog, pool: Pool, ledger: Ledger) -> Checkpoint | None:
    """Compare a ledger with the last checkpoint and with the log; return that checkpoint, None if there is none.

    Raises:
        LedgerAlarm: something was changed or lost.
        Unavailable: the log or Postgres cannot be reached.
    """
    await _check_log(log, pool, ledger.positions)
    async with acquire(pool) as connection:
        note = await connection.fetchval(_LAST_CHECKPOINT)
        return None if note is None else await _checked(connection, note, ledger)


async def _checked(connection: Connection, note: str, ledger: Ledger) -> Checkpoint:
    try:
        signed = SignedNote.parse(note)
        found = verified(signed, [key.public for key in ledger.keys])
        last = Checkpoint.parse(signed.text)
    except (InvalidNote, InvalidCheckpoint) as error:
        raise LedgerAlarm(f"The last checkpoint of the ledger cannot be trusted: {error}") from error
    if not found:
        raise LedgerAlarm(
            "The last checkpoint of the ledger was signed with another key. Set POWERON_LEDGER_KEY to the key that "
            "signed it; nothing is signed until then."
        )
    if last.size > ledger.tree.size or await stored_root(connection, last.size) != last.root:
        raise LedgerAlarm(
            f"The ledger has {ledger.tree.size} entries that do not continue the checkpoint of {last.size}: entries "
            "were removed or changed. Nothing is signed until its topic is restored."
        )
    return last


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
