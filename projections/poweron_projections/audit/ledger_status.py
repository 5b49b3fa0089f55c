"""How the ledger is: how far it has entered and signed, and whether what it signed still holds.

Nothing is changed, and the rows are read as they are: entries that they lack are read from the topic of the ledger. The
checks are those with which a ledger begins, so what stops it is seen here too, by any process with the same keys.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from poweron_events import topics
from poweron_events.archive_events import ContentErased
from poweron_events.event import Model
from poweron_events.log import EventLog
from poweron_events.request import DocumentErased
from poweron_projections import offsets
from poweron_projections.audit.ledger import LedgerAlarm, lost_entries, signed_checkpoint
from poweron_projections.audit.ledger_check import check_ledger
from poweron_projections.audit.ledger_entry import parsed_entry
from poweron_projections.audit.ledger_rows import REPEATED, ledger_positions
from poweron_projections.audit.ledger_witnesses import LedgerWitnesses
from poweron_projections.audit.note_signatures import SigningKey, is_signed_by
from poweron_projections.audit.notes import InvalidNote, SignedNote, VerifierKey
from poweron_projections.audit.tlog_policy import NO_QUORUM, TlogPolicy
from poweron_projections.audit.verifier.cosignatures import cosignatures_of
from poweron_projections.connection import Connection, Pool, snapshot

_KINDS: Final = "SELECT kind, count(*) AS entries FROM ledger_entries WHERE kind <> 'event' GROUP BY kind"
_ERASED: Final = "SELECT count(*) FROM records WHERE type = ANY($1) AND verdict = 'accepted'"
ERASURES: Final = (DocumentErased.TYPE, ContentErased.TYPE)
_NEWEST: Final = """
SELECT size, time_ms, note FROM ledger_checkpoints WHERE size IS NOT NULL ORDER BY size DESC, log_offset DESC LIMIT 1
"""
_NOTES: Final = (
    "SELECT note FROM ledger_checkpoints WHERE size IS NOT NULL ORDER BY size DESC, log_offset DESC LIMIT $1"
)
_KEYS: Final = "SELECT entry FROM ledger_entries WHERE kind = 'key' ORDER BY place"
_HAS_ROWS: Final = "SELECT to_regclass('ledger_checkpoints') IS NOT NULL"


WITNESSED: Final = 1_000  # newest checkpoints among which one must have cosignatures


class LedgerStatus(Model):
    """How far the ledger is; None for what is unknown."""

    entries: int
    lag_records: int
    """Records of the events that are not entered yet."""
    lag_ms: int
    """Since when the oldest of them waits."""
    checkpoint_size: int | None
    checkpoint_age_seconds: int | None
    witness_age_seconds: int | None
    """The age of the newest cosignature; None if there is none, or no policy."""
    quorum_met: bool | None
    """Whether the newest checkpoint with cosignatures has those that the policy asks for; None without a policy."""
    rejects: int
    """Records that could not be decoded."""
    repeated: int
    """Entries about a record that has one already."""
    erased: int
    """Erasures that were accepted."""
    projection_lag: int
    """Records of the events that the rows lack."""
    last_verified: str | None
    """When everything was verified last on this machine."""


class StatusLimits(NamedTuple):
    """How much is too much."""

    lag_ms: int
    checkpoint_age_seconds: int
    witness_age_seconds: int


class _Rows(NamedTuple):
    taken: int
    positions: Mapping[int, int]
    projected: Mapping[int, int]
    kinds: Mapping[str, int]
    erased: int
    checkpoint: tuple[int, int] | None
    """Its size, its time and its note."""
    announced: Sequence[VerifierKey]


async def ledger_status(
    log: EventLog, pool: Pool, now_ms: int, last_verified: str | None = None, policy: TlogPolicy | None = None
) -> LedgerStatus:
    """Return how the ledger is.

    Args:
        log: the log.
        pool: the rows, as they are.
        now_ms: the time.
        last_verified: when everything was verified last.
        policy: says which witnesses count.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
    """
    ends, end = await log.ends(topics.EVENTS.name), (await log.ends(topics.LEDGER.name))[0]
    async with snapshot(pool) as connection:
        rows = await _read(connection)
        cosigned_s, is_met = await _witnessed(connection, policy)
    positions = dict(rows.positions)
    async for records in log.read(topics.LEDGER.name, {0: rows.taken}, {0: end}):
        for record in records:
            entry = parsed_entry(record.value or b"")
            if entry is not None and entry.partition is not None:
                positions[entry.partition] = max(positions.get(entry.partition, 0), entry.offset + 1)
    size, signed_ms = rows.checkpoint or (None, None)
    return LedgerStatus(
        entries=end,
        lag_records=_behind(ends, positions),
        lag_ms=await _waiting_ms(log, ends, positions, now_ms),
        checkpoint_size=size,
        checkpoint_age_seconds=None if signed_ms is None else max(0, now_ms - signed_ms) // 1000,
        witness_age_seconds=None if cosigned_s is None else max(0, now_ms // 1000 - cosigned_s),
        quorum_met=is_met,
        rejects=rows.kinds.get("reject", 0),
        repeated=rows.kinds.get(REPEATED, 0),
        erased=rows.erased,
        projection_lag=_behind(ends, rows.projected),
        last_verified=last_verified,
    )


async def ledger_alarm(log: EventLog, pool: Pool, keys: Sequence[VerifierKey] = ()) -> LedgerAlarm | None:
    """Return why nothing can be signed, None if nothing is wrong.

    Args:
        log: the log.
        pool: the rows, as they are.
        keys: those of the ledger; if there are none here, all that it announced count.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
    """
    end = (await log.ends(topics.LEDGER.name))[0]
    async with snapshot(pool) as connection:
        rows = await _read(connection)
    if rows.taken > end:
        return lost_entries(end, rows.taken)
    try:
        known = keys or rows.announced
        await check_ledger(log, pool, entries=(rows.taken, end), positions=rows.positions, keys=known)
    except LedgerAlarm as alarm:
        return alarm
    return None


async def witness_alarm(
    log: EventLog, pool: Pool, witnesses: LedgerWitnesses, keys: Sequence[SigningKey], now_ms: int
) -> LedgerAlarm | None:
    """Return which witness has seen more than the ledger has, or something else; None if none of those that answer.

    Args:
        log: the log.
        pool: the rows, as they are.
        witnesses: the witnesses that can be asked.
        keys: if there is no checkpoint yet, these sign that of an empty tree; without any, no witness is asked then.
        now_ms: the time.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
    """
    async with snapshot(pool) as connection:
        newest = await newest_checkpoint(connection)
    if not witnesses or (newest is None and not keys):
        return None
    note = SignedNote.parse(newest) if newest is not None else signed_checkpoint(None, keys, now_ms)
    try:
        await witnesses.cosigned(log, pool, note)
    except LedgerAlarm as alarm:
        return alarm
    return None


def beyond(status: LedgerStatus, limits: StatusLimits) -> list[str]:
    """Return the names of the values that are beyond their limits."""
    unsigned = status.entries > 0 and status.checkpoint_size is None
    found = {
        "lagMs": status.lag_ms > limits.lag_ms,
        "checkpointAgeSeconds": unsigned or (status.checkpoint_age_seconds or 0) > limits.checkpoint_age_seconds,
        "witnessAgeSeconds": (status.witness_age_seconds or 0) > limits.witness_age_seconds,
        "quorumMet": status.quorum_met is False,
    }
    return [name for name, is_beyond in found.items() if is_beyond]


async def newest_checkpoint(connection: Connection) -> str | None:
    """Return the note of the newest checkpoint, None if there is none yet."""
    if not await connection.fetchval(_HAS_ROWS):
        return None
    row = await connection.fetchrow(_NEWEST)
    return None if row is None else row["note"]


async def _read(connection: Connection) -> _Rows:
    kinds = {row["kind"]: row["entries"] for row in await connection.fetch(_KINDS)}
    reached = await offsets.read_all(connection)
    newest, keys = await connection.fetchrow(_NEWEST), await connection.fetch(_KEYS)
    return _Rows(
        taken=reached[topics.LEDGER.name].get(0, 0),
        positions=await ledger_positions(connection),
        projected=reached[topics.EVENTS.name],
        kinds=kinds,
        erased=await connection.fetchval(_ERASED, ERASURES),
        checkpoint=None if newest is None else (newest["size"], newest["time_ms"]),
        announced=[key for row in keys for key in announced_keys(row["entry"])],
    )


async def _witnessed(connection: Connection, policy: TlogPolicy | None) -> tuple[int | None, bool | None]:
    """Return when the newest checkpoint with cosignatures was cosigned, and whether that meets the policy."""
    if policy is None or policy.quorum == NO_QUORUM:
        return None, None
    for row in await connection.fetch(_NOTES, WITNESSED):
        if times := cosignatures_of(SignedNote.parse(row["note"]), policy.keys, is_signed_by):
            return max(times.values()), policy.is_met_by(times)
    return None, False


def announced_keys(entry: bytes) -> list[VerifierKey]:
    """Return the keys that an entry of the ledger names; none if they cannot be read."""
    try:
        return [VerifierKey.parse(key) for key in orjson.loads(entry)["keys"]]
    except (InvalidNote, ValueError, KeyError, TypeError, AttributeError):
        return []


def _behind(ends: Mapping[int, int], positions: Mapping[int, int]) -> int:
    return sum(max(0, end - positions.get(partition, 0)) for partition, end in ends.items())


async def _waiting_ms(log: EventLog, ends: Mapping[int, int], positions: Mapping[int, int], now_ms: int) -> int:
    """Return for how long the oldest record has waited that is not entered."""
    start = {partition: positions.get(partition, 0) for partition, end in ends.items()}
    first = {partition: offset + 1 for partition, offset in start.items() if offset < ends[partition]}
    oldest = now_ms
    async for records in log.read(topics.EVENTS.name, start, first):
        oldest = min(oldest, *(record.time_ms for record in records))
    return max(0, now_ms - oldest)
