"""The log read backwards from the rows: every record of a workflow or of all, with its verdict and its cause.

A filter looks at a bounded number of records for each page, so a page may hold few of them and still have a next one.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import orjson

from poweron_events.topics import PARTITIONS
from poweron_projections.connection import Found, Pool, acquire
from poweron_projections.entries import EventEntry
from poweron_projections.reader import event_entry, time
from poweron_projections.records import decompress

SCANNED: Final = 5_000  # records that one page looks at
BATCH: Final = 500  # records fetched at a time
FIRST: Final = 2**62

Offsets = tuple[int, ...]
"""By partition, the offset before which a page goes on."""

_OF_WORKFLOW: Final = """
SELECT * FROM records WHERE workflow_id = $1::uuid AND seq < $2 ORDER BY seq DESC LIMIT $3
"""
_OF_ALL: Final = """
SELECT records.*
  FROM unnest($1::bigint[]) WITH ORDINALITY AS given (before, number)
 CROSS JOIN LATERAL (
       SELECT * FROM records
        WHERE records.partition = number - 1 AND log_offset < before
        ORDER BY log_offset DESC LIMIT $2
  ) records
 ORDER BY time_ms DESC, records.partition DESC, log_offset DESC LIMIT $2
"""
_CAUSES: Final = """
SELECT event_id, workflow_id, seq FROM records WHERE workflow_id = ANY($1::uuid[]) AND event_id = ANY($2::uuid[])
 ORDER BY verdict = 'accepted'
"""
_RIVALS: Final = """
SELECT workflow_id, causation_id, event_id, seq, type, sha256
  FROM records
 WHERE verdict = 'accepted' AND workflow_id = ANY($1::uuid[])
   AND (causation_id = ANY($2::uuid[]) OR event_id = ANY($3::uuid[]))
"""


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which records of the log to show; empty for all."""

    types: frozenset[str] = frozenset()
    verdicts: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not (self.types or self.verdicts or self.roles)

    def takes(self, type_: str | None, verdict: str, role: Callable[[], str]) -> bool:
        """Return whether it shows a record; `role` is called only if the filter names roles."""
        if self.verdicts and verdict not in self.verdicts:
            return False
        return (not self.types or type_ in self.types) and (not self.roles or role() in self.roles)


class Rival(NamedTuple):
    """An accepted record that came before a superseded one."""

    seq: int
    type: str
    is_same: bool
    """Whether it is the same event, written twice."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of the log."""

    partition: int
    offset: int
    time: str
    verdict: str
    """`undecodable` if it is no event."""
    workflow_id: str | None
    entry: EventEntry | None
    """None if it is no event, or its row is damaged."""
    cause_seq: int | None = None
    """The number of the event that caused it; None if none did, or if it is not in the rows."""
    rival: Rival | None = None
    """Of a superseded record, the accepted one that came first; None if it was simply out of turn."""

    @property
    def role(self) -> str:
        """The role that wrote it."""
        return "" if self.entry is None else role_of(self.entry.source)


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page of the log, newest first."""

    records: Sequence[LogRecord]
    next: Offsets | None
    """Where the next page goes on; None if this is the last one. Of a workflow, the seq before which it does."""
    scanned: int
    """How many records were looked at."""
    is_cut: bool
    """Whether the page ends because it looked at `SCANNED` records."""


def role_of(source: str) -> str:
    """Return the role of a source `/poweron/<role>/<instance>`; of any other, the source."""
    parts = source.split("/")
    return parts[2] if len(parts) > 3 and parts[1] == "poweron" else source


async def workflow_log(
    pool: Pool, workflow_id: str, *, before: int | None = None, limit: int, wanted: LogFilter
) -> LogPage:
    """Return a page of a workflow's records, newest first.

    Raises:
        Unavailable: Postgres cannot be reached.
    """

    async def fetch(cursor: Offsets, count: int) -> Sequence[Found]:
        async with acquire(pool) as connection:
            return await connection.fetch(_OF_WORKFLOW, workflow_id, cursor[0], count)

    def advanced(_: Offsets, row: Found) -> Offsets:
        return (row["seq"],)

    start = (2**31 - 1 if before is None else before,)
    return await _page(pool, _Scan(fetch, advanced, start), limit, wanted)


async def whole_log(pool: Pool, *, before: Offsets | None = None, limit: int, wanted: LogFilter) -> LogPage:
    """Return a page of the records of all workflows, newest first, with those that are no events.

    Raises:
        Unavailable: Postgres cannot be reached.
    """

    async def fetch(cursor: Offsets, count: int) -> Sequence[Found]:
        async with acquire(pool) as connection:
            return await connection.fetch(_OF_ALL, list(cursor), count)

    def advanced(cursor: Offsets, row: Found) -> Offsets:
        place = row["partition"]
        return (*cursor[:place], row["log_offset"], *cursor[place + 1 :])

    return await _page(pool, _Scan(fetch, advanced, before or (FIRST,) * PARTITIONS), limit, wanted)


@dataclass(slots=True)
class _Scan:
    fetch: Callable[[Offsets, int], Awaitable[Sequence[Found]]]
    advanced: Callable[[Offsets, Found], Offsets]
    cursor: Offsets
    scanned: int = 0
    has_more: bool = True
    rows: list[Found] = field(default_factory=list)

    async def fill(self, limit: int, wanted: LogFilter) -> None:
        """Collect rows until there are `limit` of them, or enough was looked at."""
        batch = BATCH if not wanted.is_empty else limit + 1
        while self.has_more and self.scanned < SCANNED:
            rows = await self.fetch(self.cursor, batch)
            self.has_more = len(rows) == batch
            for row in rows:
                if len(self.rows) == limit:
                    self.has_more = True
                    return
                self.scanned += 1
                self.cursor = self.advanced(self.cursor, row)
                if wanted.takes(row["type"], row["verdict"], partial(_role, row)):
                    self.rows.append(row)


async def _page(pool: Pool, scan: _Scan, limit: int, wanted: LogFilter) -> LogPage:
    await scan.fill(limit, wanted)
    causes, rivals = await _causes(pool, scan.rows), await _rivals(pool, scan.rows)
    records = [_record(row, causes, rivals) for row in scan.rows]
    is_cut = scan.has_more and len(records) < limit
    return LogPage(records, scan.cursor if scan.has_more else None, scan.scanned, is_cut)


def _role(row: Found) -> str:
    return role_of(str(orjson.loads(decompress(row["compressed"]))["source"])) if row["workflow_id"] else ""


async def _causes(pool: Pool, rows: Sequence[Found]) -> dict[object, int]:
    """Return the numbers of the events that caused these records, by workflow and event id."""
    caused = [row for row in rows if row["causation_id"] is not None]
    if not caused:
        return {}
    async with acquire(pool) as connection:
        found = await connection.fetch(
            _CAUSES, *([row[name] for row in caused] for name in ("workflow_id", "causation_id"))
        )
    return {(row["workflow_id"], row["event_id"]): row["seq"] for row in found}


async def _rivals(pool: Pool, rows: Sequence[Found]) -> Sequence[Found]:
    superseded = [row for row in rows if row["verdict"] == "superseded"]
    if not superseded:
        return ()
    names = ("workflow_id", "causation_id", "event_id")
    async with acquire(pool) as connection:
        return await connection.fetch(_RIVALS, *([row[name] for row in superseded if row[name]] for name in names))


def _record(row: Found, causes: dict[object, int], rivals: Sequence[Found]) -> LogRecord:
    is_event = row["workflow_id"] is not None and row["compressed"] is not None
    return LogRecord(
        partition=row["partition"],
        offset=row["log_offset"],
        time=time(row["time_ms"]),
        verdict=row["verdict"],
        workflow_id=None if row["workflow_id"] is None else str(row["workflow_id"]),
        entry=event_entry(row) if is_event else None,
        cause_seq=causes.get((row["workflow_id"], row["causation_id"])),
        rival=_rival(row, rivals) if row["verdict"] == "superseded" else None,
    )


def _rival(row: Found, rivals: Sequence[Found]) -> Rival | None:
    for rival in rivals:
        if rival["workflow_id"] != row["workflow_id"] or rival["seq"] >= row["seq"]:
            continue
        is_rival = rival["event_id"] == row["event_id"] or (
            row["causation_id"] is not None and rival["causation_id"] == row["causation_id"]
        )
        if is_rival:
            return Rival(rival["seq"], rival["type"], rival["sha256"] == row["sha256"])
    return None
