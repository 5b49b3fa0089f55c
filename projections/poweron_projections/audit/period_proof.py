"""The proof of which workflows a period of the ledger has: all its entries, and where they are in the tree."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from zstandard import frame_content_size

from poweron_events.codec import dumps
from poweron_events.errors import Refused
from poweron_events.log import Record
from poweron_events.topics import EVENTS
from poweron_projections.audit.bundle import NotSigned, announced, continued, differs, file_of
from poweron_projections.audit.ledger_entry import NamedRecord, event_line
from poweron_projections.audit.ledger_rows import FOREIGN
from poweron_projections.audit.ledger_tree import stored_consistency_proof, stored_edge
from poweron_projections.audit.merkle_tree import leaf_hash
from poweron_projections.audit.verifier.period_rules import (
    PeriodWorkflow,
    entered,
    entries_within,
    foreign_line,
    grown_tree,
    list_lines,
    listed_workflows,
    sample_of,
)
from poweron_projections.connection import Connection, Found

MAX_ENTRIES: Final = 2_000_000

_FIRST_AFTER: Final = """
SELECT min(place)
  FROM ledger_entries
 WHERE kind = 'heads' AND (convert_from(entry, 'UTF8')::jsonb ->> 'time')::bigint >= $1
"""
_FIRST_COMPLETE: Final = """
SELECT min(place)
  FROM ledger_entries, convert_from(entry, 'UTF8') AS line
 WHERE kind = 'heads' AND place > $2
   AND coalesce((line::jsonb ->> 'asOf')::bigint, (line::jsonb ->> 'time')::bigint) >= $1
"""
_LAST_BEFORE: Final = "SELECT max(place) FROM ledger_entries WHERE kind = 'heads' AND place < $1"
_CHECKPOINT: Final = """
SELECT size, note
  FROM ledger_checkpoints JOIN ledger_entries ON place = size - 1
 WHERE size >= $1
 ORDER BY size DESC, log_offset DESC LIMIT 1
"""
"""The rows of a checkpoint may be there before those of its entries."""
_ENTRIES: Final = """
SELECT entered.kind, entered.entry, entered.leaf, before.leaf AS previous,
       partition, log_offset, records.workflow_id, records.seq, type, verdict, event_id, time_ms, sha256,
       substring(compressed FROM 1 FOR 18) AS frame
  FROM ledger_entries entered
  LEFT JOIN records ON entered.kind = 'event'
   AND records.workflow_id = entered.workflow_id AND records.seq = entered.seq
  LEFT JOIN ledger_entries before ON before.workflow_id = entered.workflow_id AND before.seq = entered.seq - 1
 WHERE entered.place >= $1 AND entered.place < $2
 ORDER BY entered.place
"""
"""The first 18 bytes of a frame may say how long its content is (RFC 8878, 3.1.1.1)."""


class Period(NamedTuple):
    """What an auditor asks about: a period, and how many of its workflows to draw."""

    since_ms: int | None = None
    """The beginning, in ms since 1970; None for that of the ledger."""
    until_ms: int | None = None
    """The end; None for the last heads that were signed."""
    sample: int | None = None
    """The size of the sample; None for all workflows."""
    seed: str = ""


class EnteredPeriod(NamedTuple):
    """What the ledger entered in a period."""

    period: Period
    begin: int
    entries: Sequence[bytes]
    edge: Sequence[bytes]
    workflows: Sequence[PeriodWorkflow]
    chosen: Sequence[str]
    """The workflows of the sample, or all."""

    @property
    def end(self) -> int:
        """The size of the tree with the last entry."""
        return self.begin + len(self.entries)


async def entered_period(connection: Connection, period: Period) -> EnteredPeriod:
    """Return what was entered in a period, and draw the sample.

    Raises:
        NotSigned: nothing was signed after the end of the period.
        Refused: it has too many entries.
    """
    begin, end = await period_bounds(connection, period)
    if end - begin > MAX_ENTRIES:
        raise Refused(f"The period has {end - begin:,} entries; at most {MAX_ENTRIES:,} fit. Choose a shorter one.")
    entries = [_entry(row) for row in await connection.fetch(_ENTRIES, begin, end)]
    edge = await stored_edge(connection, begin)
    read = [entered(line) for line in entries]
    within = entries_within(read, since_ms=period.since_ms, until_ms=period.until_ms, begin=begin)
    workflows = listed_workflows(within)
    chosen = [each.workflow_id for each in workflows]
    if period.sample is not None:
        root = grown_tree(begin, edge, (entry.line for entry in read)).root
        chosen = sample_of(chosen, root=root, seed=period.seed, size=period.sample)
    return EnteredPeriod(period, begin, entries, edge, workflows, chosen)


async def period_files(connection: Connection, entered: EnteredPeriod, held: Sequence[int] = ()) -> dict[str, bytes]:
    """Return the files that prove the list of a period's workflows, by their path; the newest checkpoint signs it.

    There are proofs that it continues checkpoints of the sizes `held`, too.
    """
    signed = await connection.fetchrow(_CHECKPOINT, entered.end)
    if signed is None:
        raise NotSigned("The ledger has not signed the end of the period yet.")
    size, period = signed["size"], entered.period
    told: dict[str, Any] = {
        "begin": entered.begin,
        "consistency": [each.hex() for each in await stored_consistency_proof(connection, entered.end, size)],
        "edge": [each.hex() for each in entered.edge],
        "sample": period.sample,
        "seed": period.seed,
        "since": period.since_ms,
        "until": period.until_ms,
        "v": 1,
    }
    return {
        "period/checkpoint": signed["note"].encode(),
        "period/entries.jsonl": file_of(entered.entries),
        "period/period.json": dumps(told),
        "period/workflows.jsonl": file_of(map(dumps, list_lines(entered.workflows, entered.chosen))),
        **await continued(connection, size, held),
        **await announced(connection, size),
    }


async def period_bounds(connection: Connection, period: Period) -> tuple[int, int]:
    """Return the place of the first entry of the period, and that after the last one.

    Raises:
        NotSigned: nothing was signed after the beginning or the end of the period.
    """
    begin = 0
    if period.since_ms is not None:
        first = await connection.fetchval(_FIRST_AFTER, period.since_ms)
        if first is None:
            raise NotSigned("The ledger has signed nothing since the beginning of the period.")
        begin = await connection.fetchval(_LAST_BEFORE, first) or 0
    if period.until_ms is None:
        end = await connection.fetchval(_CHECKPOINT, begin + 1)
    else:
        last = await connection.fetchval(_FIRST_COMPLETE, period.until_ms, begin or -1)
        end = None if last is None else last + 1
    if end is None or end <= begin:
        raise NotSigned("The ledger has not signed the end of the period yet.")
    return begin, end


def _entry(row: Found) -> bytes:
    """Return the bytes of an entry; those of an event follow from its record and the entry before."""
    if row["kind"] != "event":
        entry: bytes = row["entry"]
        return foreign_line(entry) if row["kind"] == FOREIGN else entry
    if row["sha256"] is None:
        raise NotSigned(f"The rows do not hold record {row['seq']} of a workflow of the period yet.")
    line = event_line(
        Record(EVENTS.name, row["partition"], row["log_offset"], row["time_ms"], None, None, {}),
        NamedRecord(str(row["workflow_id"]), str(row["event_id"]), row["type"]),
        digest=row["sha256"].hex(),
        length=frame_content_size(row["frame"]),
        verdict=row["verdict"],
        seq=row["seq"],
        previous="" if row["previous"] is None else row["previous"].hex(),
    )
    if leaf_hash(line) != row["leaf"]:
        raise differs(row["workflow_id"], row["seq"])
    return line
