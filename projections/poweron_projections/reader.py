"""Read workflows from the rows: as entries for people and dashboards, and as records with their verdicts.

Pages are addressed by key, never by number: the next page begins where the last one ended, even if rows arrive.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from poweron_events import topics
from poweron_events.codec import decode, is_uuid
from poweron_events.envelope import Envelope, rfc3339
from poweron_events.errors import Conflict, Refused
from poweron_events.event import READING, Model
from poweron_events.fold.history import item_reference, list_reference
from poweron_events.fold.state import ChatMessage, Opening, Verdict
from poweron_events.instance_events import instance_id
from poweron_events.log import Record
from poweron_events.request import Spent
from poweron_events.round_events import TaskReviewed
from poweron_projections.connection import Found, Pool, acquire, cells, snapshot
from poweron_projections.entries import (
    DeadLetterEntry,
    EventEntry,
    HistoryEntry,
    InstanceEntry,
    LoggedEvent,
    LoggedMessage,
    PolicyEntry,
    WorkflowSummary,
)
from poweron_projections.records import DamagedRecord, decompress, digest
from poweron_projections.workflow_filter import Condition
from poweron_projections.workflows import NO_WORKFLOW

PAGE: Final = 50  # rows, if the caller gives no limit
MAX_DIGITS: Final = 18  # of a number in a cursor, so that it is a bigint

MAX_DECODED_ON_LOOP: Final = 100  # records; a thread decodes more, since this many take some milliseconds

Entry = TypeVar("Entry", bound=Model)
Converted = TypeVar("Converted")

_SUMMARIES: Final = """
SELECT workflows.*, first.prompt, latest.mode, latest.max_steps, latest.message,
       COALESCE(tasks.actions, 0) AS current_action,
       ARRAY(SELECT later.workflow_id::text FROM workflows later
              WHERE later.restarted_from = workflows.workflow_id::text ORDER BY later.opened_ms) AS restarted_as,
       used.steps AS steps, used.tokens, used.cost_nano_usd
  FROM workflows
  LEFT JOIN rounds first ON first.workflow_id = workflows.workflow_id AND first.round = 1
  LEFT JOIN rounds latest ON latest.workflow_id = workflows.workflow_id AND latest.round = workflows.round
  LEFT JOIN tasks ON tasks.workflow_id = workflows.workflow_id
                 AND tasks.round = workflows.round AND tasks.task = workflows.task
  LEFT JOIN LATERAL (
       SELECT COALESCE(SUM(steps), 0)::bigint AS steps,
              COALESCE(SUM(input_tokens + output_tokens), 0)::bigint AS tokens,
              COALESCE(SUM(rounds.cost_nano_usd), 0)::bigint AS cost_nano_usd
         FROM rounds
        WHERE rounds.workflow_id = workflows.workflow_id
  ) used ON TRUE
"""
_WORKFLOWS: Final = f"{_SUMMARIES} WHERE workflows.status <> 'no_workflow'"
_STATES: Final = f"{_SUMMARIES} WHERE workflows.workflow_id = ANY($1::uuid[])"
_OLDER: Final = "(workflows.opened_ms, workflows.workflow_id) < ($2::bigint, $3::uuid)"
_NEWEST: Final = "ORDER BY workflows.opened_ms DESC, workflows.workflow_id DESC LIMIT $1"
_ONE: Final = f"{_WORKFLOWS} AND workflows.workflow_id = $1::uuid"
_HISTORY: Final = """
SELECT * FROM messages WHERE workflow_id = $1::uuid AND seq < $2 ORDER BY seq DESC LIMIT $3
"""
_TOLD: Final = """
SELECT page.*, COALESCE(rounds.prompt, '') AS prompt, reviews.compressed AS review, known.names
  FROM ({}) page
  LEFT JOIN rounds ON rounds.workflow_id = page.workflow_id AND rounds.round = page.round
  LEFT JOIN records reviews ON page.kind = 'task_end'
                           AND reviews.workflow_id = page.workflow_id AND reviews.seq = page.seq
  LEFT JOIN LATERAL (
       SELECT jsonb_object_agg(document_id, document_name) AS names
         FROM documents
        WHERE page.kind = 'round_end' AND documents.workflow_id = page.workflow_id AND documents.round = page.round
          AND document_id IN (SELECT each ->> 'documentId' FROM jsonb_array_elements(page.documents) each)
  ) known ON TRUE
 ORDER BY page.seq DESC
"""
_ENTRIES: Final = _TOLD.format(_HISTORY)
_ADDED: Final = _TOLD.format("""
SELECT messages.* FROM messages JOIN unnest($1::uuid[], $2::integer[]) AS given (workflow_id, seq)
 USING (workflow_id, seq)
""")
_OPENING: Final = """
SELECT records.compressed
  FROM rounds
  JOIN records ON records.workflow_id = rounds.workflow_id AND records.seq = rounds.opening_seq
 WHERE rounds.workflow_id = $1::uuid ORDER BY rounds.round DESC LIMIT 1
"""
_SPENT: Final = """
SELECT COUNT(ended_ms) AS ended,
       COALESCE(SUM(steps), 0)::bigint AS steps,
       COALESCE(SUM(input_tokens), 0)::bigint AS input_tokens,
       COALESCE(SUM(output_tokens), 0)::bigint AS output_tokens,
       COALESCE(SUM(cost_nano_usd), 0)::bigint AS cost_nano_usd,
       (SELECT COALESCE(SUM(retries), 0)::bigint FROM tasks WHERE workflow_id = $1::uuid) AS retries
  FROM rounds WHERE workflow_id = $1::uuid
"""
_EVENTS: Final = """
SELECT * FROM records WHERE workflow_id = $1::uuid AND seq > $2 ORDER BY seq LIMIT $3
"""
_EVENTS_AFTER: Final = """
SELECT merged.*
  FROM unnest($1::bigint[]) WITH ORDINALITY AS given (after, number)
 CROSS JOIN LATERAL (
       SELECT page.*, MAX(time_ms) OVER (ORDER BY log_offset) AS merged_ms
         FROM (SELECT records.*, tableoid FROM records
                WHERE records.partition = number - 1 AND log_offset >= after
                ORDER BY log_offset LIMIT $2) page
  ) merged
 ORDER BY merged_ms, merged.partition, log_offset LIMIT $2
"""
_RECORDS: Final = "SELECT to_regclass('records')::oid"
_COUNTS: Final = "SELECT workflow_id::text, seq FROM workflows WHERE workflow_id = ANY($1::uuid[])"
_STORED: Final = """
SELECT seq, verdict, partition, log_offset, time_ms, sha256, compressed
  FROM records WHERE workflow_id = $1::uuid AND seq > $2 ORDER BY seq LIMIT $3
"""
_IDS: Final = """
SELECT workflow_id FROM workflows
 WHERE status <> 'no_workflow' AND ($1::uuid IS NULL OR workflow_id > $1)
 ORDER BY workflow_id LIMIT $2
"""
_COUNT_IDS: Final = "SELECT COUNT(*) AS count FROM workflows WHERE status <> 'no_workflow'"
_POLICIES: Final = """
SELECT * FROM policies WHERE $2::integer IS NULL OR number = $2 ORDER BY number DESC LIMIT $1
"""
_POLICY_AT: Final = "SELECT * FROM policies WHERE time_ms <= $1 ORDER BY number DESC LIMIT 1"
_INSTANCES_AT: Final = """
SELECT * FROM instances WHERE started_ms <= $1 AND (ended_ms IS NULL OR ended_ms > $1) ORDER BY started_ms, instance
"""
_INSTANCE: Final = "SELECT * FROM instances WHERE workflow_id = $1::uuid"
_DEAD_LETTERS: Final = """
SELECT * FROM dead_letters
 WHERE $2::bigint IS NULL OR (time_ms, topic, partition, log_offset) < ($2, $3::text, $4::integer, $5::bigint)
 ORDER BY time_ms DESC, topic DESC, partition DESC, log_offset DESC LIMIT $1
"""
_DEAD_LETTER: Final = "SELECT * FROM dead_letters WHERE topic = $1 AND partition = $2 AND log_offset = $3"

_STATUS_COUNTS: Final = """
SELECT is_open, status, COUNT(*) AS count, COUNT(*) FILTER (WHERE stuck) AS stuck
  FROM ((SELECT is_open, status, stuck FROM workflows WHERE is_open AND status <> 'no_workflow' LIMIT $1)
        UNION ALL
        (SELECT is_open, status, stuck FROM workflows WHERE NOT is_open AND status <> 'no_workflow'
          ORDER BY opened_ms DESC, workflow_id DESC LIMIT $1)) AS counted
 GROUP BY is_open, status
"""
REPLACED: Final = "A rebuild replaced the rows while they were read."
MOST_COUNTED: Final = 10_000  # workflows that are open, and as many that have ended


@dataclass(frozen=True, slots=True)
class WorkflowCount:
    """How many workflows there are, or at least how many."""

    count: int
    is_exact: bool

    def __str__(self) -> str:
        return f"{self.count:,}{'' if self.is_exact else '+'}"


_LAST_SEQ: Final = 2**31 - 1


class StoredRecord(NamedTuple):
    """A stored record of a workflow, with the verdict on it."""

    seq: int
    verdict: Verdict
    partition: int
    offset: int
    time_ms: int
    sha256: bytes
    value: bytes
    """Empty if the row is damaged."""

    @property
    def is_whole(self) -> bool:
        """Whether these are the original bytes."""
        return digest(self.value) == self.sha256

    def log_record(self, workflow_id: str) -> Record:
        """Return the record as it is in the log, byte for byte except for its headers, which the rows do not keep."""
        return Record(
            topics.EVENTS.name, self.partition, self.offset, self.time_ms, workflow_id.encode(), self.value, {}
        )


async def workflows(
    pool: Pool, *, limit: int = PAGE, before: str | None = None, conditions: Sequence[Condition] = ()
) -> list[WorkflowSummary]:
    """Return a page of the workflows for which all conditions hold, newest first.

    `before` is the `cursor` of the entry that the page follows.

    Raises:
        Unavailable: Postgres cannot be reached.
        Refused: the cursor is not one of ours.
    """
    place = () if before is None else _place(before)
    tests = [_OLDER] if place else []
    tests += [condition.test.format(f"${number}") for number, condition in enumerate(conditions, start=2 + len(place))]
    query = f"{_WORKFLOWS}{''.join(f' AND {test}' for test in tests)} {_NEWEST}"
    values = (condition.value for condition in conditions)
    return [_workflow(row) for row in await _fetch(pool, query, limit, *place, *values)]


def _place(cursor: str) -> tuple[int, str]:
    opened, _, workflow_id = cursor.partition("_")
    if not (opened.isascii() and opened.isdecimal() and len(opened) <= MAX_DIGITS and is_uuid(workflow_id)):
        sentence = f"{cursor[:100]!r} is no cursor; take that of the last line of the page before."
        raise Refused(sentence, code="invalid_request")
    return int(opened), workflow_id


async def workflow_counts(pool: Pool, *, most: int = MOST_COUNTED) -> dict[str, WorkflowCount]:
    """Return the number of workflows of each status, of those that are `stuck`, and of `all`.

    Only `most` workflows that are open are counted, and the `most` newest that have ended.
    """
    found = await _fetch(pool, _STATUS_COUNTS, most)
    counted = {is_open: sum(row["count"] for row in found if row["is_open"] == is_open) for is_open in (True, False)}
    counts = {row["status"]: WorkflowCount(row["count"], counted[row["is_open"]] < most) for row in found}
    counts["stuck"] = WorkflowCount(sum(row["stuck"] for row in found), counted[True] < most)
    counts["all"] = WorkflowCount(sum(counted.values()), max(counted.values()) < most)
    return counts


async def workflow(pool: Pool, workflow_id: str) -> WorkflowSummary | None:
    """Return one workflow; None if it has no records."""
    found = await _fetch(pool, _ONE, workflow_id)
    return _workflow(found[0]) if found else None


async def history(
    pool: Pool, workflow_id: str, *, limit: int = PAGE, before_seq: int | None = None
) -> list[HistoryEntry]:
    """Return a page of the history, newest first; `before_seq` is the `seq` of the message that the page follows.

    Rounds are also newest first, since `seq` grows from round to round (H-01).
    """
    last = _LAST_SEQ if before_seq is None else before_seq
    return [_told(row) for row in await _fetch(pool, _ENTRIES, workflow_id, last, limit)]


async def messages(
    pool: Pool, workflow_id: str, *, limit: int = PAGE, before_seq: int | None = None
) -> list[ChatMessage]:
    """Return the same page as `history`, as messages of the fold, so that its functions can render them (H-03)."""
    last = _LAST_SEQ if before_seq is None else before_seq
    return [build_entry(ChatMessage, row) for row in await _fetch(pool, _HISTORY, workflow_id, last, limit)]


async def opening(pool: Pool, workflow_id: str) -> Opening | None:
    """Return the event that opened the workflow's last round; None if there is none."""
    found = await _fetch(pool, _OPENING, workflow_id)
    event = decode(decompress(found[0]["compressed"])).event if found else None
    return event if isinstance(event, Opening) else None


async def spent(pool: Pool, workflow_id: str) -> tuple[int, Spent]:
    """Return how many rounds of the workflow have ended, and what all of its rounds used."""
    (found,) = await _fetch(pool, _SPENT, workflow_id)
    used = dict(found)
    return used.pop("ended"), Spent(**used)


async def events(pool: Pool, workflow_id: str, *, after_seq: int = -1, limit: int = PAGE) -> list[EventEntry]:
    """Return a page of a workflow's records, oldest first; `after_seq` is the `seq` of the record that it follows."""
    return [event_entry(row) for row in await _fetch(pool, _EVENTS, workflow_id, after_seq, limit)]


class News(NamedTuple):
    """What the rows added to a workflow, as they were at one moment."""

    events: list[EventEntry]
    """A page of records, oldest first; of a damaged row without source and data."""
    messages: dict[int, HistoryEntry]
    """The messages of the history that these records added, by seq."""
    workflow: WorkflowSummary | None
    """The workflow after all of its records, not only these."""


async def news(pool: Pool, workflow_id: str, *, after_seq: int = -1, limit: int = PAGE) -> News:
    """Return the records of a workflow after this seq, with their messages and the workflow's state.

    The workflow is read last: if a rebuild replaces the rows meanwhile, it shows fewer records than these.

    Raises:
        Unavailable: Postgres cannot be reached.
        Conflict: the rows were replaced meanwhile.
    """
    async with snapshot(pool) as connection:
        rows = await connection.fetch(_EVENTS, workflow_id, after_seq, limit)
        told = await connection.fetch(_ENTRIES, workflow_id, rows[-1]["seq"] + 1, len(rows)) if rows else []
        found = await connection.fetch(_ONE, workflow_id)
    workflow = _workflow(found[0]) if found else None
    if rows and workflow is not None and workflow.seq <= rows[-1]["seq"]:
        raise Conflict(REPLACED)
    messages = {row["seq"]: _told(row, damaged=True) for row in reversed(told) if row["seq"] > after_seq}
    return News([event_entry(row, damaged=True) for row in rows], messages, workflow)


class LoggedRecord(NamedTuple):
    """A record in the order of the log."""

    partition: int
    offset: int
    event: LoggedEvent | None
    """None if it is not an event; of a damaged row without source and data."""
    message: LoggedMessage | None = None
    """The message that it added to the history."""
    state: WorkflowSummary | None = None
    """The workflow, if this is its newest record."""


async def records_after(pool: Pool, offsets: Sequence[int], *, limit: int = PAGE) -> list[LoggedRecord]:
    """Return a page of the records of all workflows from these offsets on, one offset for each partition.

    Within each partition, they are in the order of the log and without gaps.
    """
    return [
        LoggedRecord(row["partition"], row["log_offset"], _logged(row))
        for row in await _fetch(pool, _EVENTS_AFTER, list(offsets), limit)
    ]


async def log_news(pool: Pool, offsets: Sequence[int], *, limit: int = PAGE) -> list[LoggedRecord]:
    """Return the same page of records with their messages, and the state of workflows whose newest record is in it.

    Raises:
        Unavailable, Conflict: as `news`, for the same reasons.
    """
    async with snapshot(pool) as connection:
        rows = await connection.fetch(_EVENTS_AFTER, list(offsets), limit)
        places = [(row["workflow_id"], row["seq"]) for row in rows if row["workflow_id"] is not None]
        newest, (ids, seqs) = dict(places), zip(*places, strict=True) if places else ((), ())
        told = await connection.fetch(_ADDED, ids, seqs) if places else []
        found = await connection.fetch(_STATES, [*newest]) if places else []
        if rows and await connection.fetchval(_RECORDS) != rows[0]["tableoid"]:
            raise Conflict(REPLACED)
    messages = {(row["workflow_id"], row["seq"]): _logged_message(row) for row in told}
    states = {(row["workflow_id"], row["seq"] - 1): row for row in found if row["status"] != NO_WORKFLOW}
    records = list[LoggedRecord]()
    for row in rows:
        place = row["workflow_id"], row["seq"]
        state = _workflow(states[place]) if place in states else None
        records.append(LoggedRecord(row["partition"], row["log_offset"], _logged(row), messages.get(place), state))
    return records


async def states(pool: Pool, workflow_ids: Collection[str]) -> dict[str, WorkflowSummary]:
    """Return those of these workflows that have records, by id."""
    found = map(_workflow, await _fetch(pool, _STATES, [*workflow_ids]))
    return {state.workflow_id: state for state in found}


async def record_counts(pool: Pool, workflow_ids: Sequence[str]) -> dict[str, int]:
    """Return the number of records of each of these workflows that has any."""
    return {row["workflow_id"]: row["seq"] for row in await _fetch(pool, _COUNTS, list(workflow_ids))}


async def stored_records(
    pool: Pool, workflow_id: str, *, after_seq: int = -1, limit: int | None = None
) -> list[StoredRecord]:
    """Return the records of a workflow, oldest first, as bytes: all of them, or a page."""
    return await _convert_all(stored_record, await _fetch(pool, _STORED, workflow_id, after_seq, limit))


async def workflow_ids(pool: Pool, *, after: str | None = None, limit: int = PAGE) -> list[str]:
    """Return a page of the ids of all workflows that have records, including those that were never opened."""
    return [str(row["workflow_id"]) for row in await _fetch(pool, _IDS, after, limit)]


async def count_workflow_ids(pool: Pool) -> int:
    """Return how many workflows have records."""
    (row,) = await _fetch(pool, _COUNT_IDS)
    return int(row["count"])


async def policies(pool: Pool, *, limit: int = PAGE, number: int | None = None) -> list[PolicyEntry]:
    """Return the policies that were applied, newest first, or only the one with this number."""
    found = await _fetch(pool, _POLICIES, limit, number)
    return [build_entry(PolicyEntry, row, time=time(row["time_ms"])) for row in found]


async def policy_at(pool: Pool, time_ms: int) -> PolicyEntry | None:
    """Return the policy under which a round was opened at this time; None if none was applied yet."""
    found = await _fetch(pool, _POLICY_AT, time_ms)
    return next((build_entry(PolicyEntry, row, time=time(row["time_ms"])) for row in found), None)


async def instances_at(pool: Pool, time_ms: int) -> list[InstanceEntry]:
    """Return the processes that had started by this time and not ended; one that was killed has no end."""
    return [_instance(row) for row in await _fetch(pool, _INSTANCES_AT, time_ms)]


async def instance(pool: Pool, name: str) -> InstanceEntry | None:
    """Return what a process recorded about itself; None if there is none of this name."""
    return next(map(_instance, await _fetch(pool, _INSTANCE, instance_id(name))), None)


async def dead_letters(
    pool: Pool, *, limit: int = PAGE, before: tuple[int, str, int, int] | None = None
) -> list[DeadLetterEntry]:
    """Return a page of the dead letters, newest first; `before` is the time in ms and the place of the one before."""
    return [_dead_letter(row) for row in await _fetch(pool, _DEAD_LETTERS, limit, *(before or (None,) * 4))]


async def dead_letter(pool: Pool, topic: str, partition: int, offset: int) -> DeadLetterEntry | None:
    """Return the dead letter of the record at this place; None if there is none."""
    return next(map(_dead_letter, await _fetch(pool, _DEAD_LETTER, topic, partition, offset)), None)


def time(milliseconds: int) -> str:
    """Format a broker's time as RFC 3339 in UTC."""
    return rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))


async def _fetch(pool: Pool, query: str, *arguments: object) -> Sequence[Found]:
    async with acquire(pool) as connection:
        return await connection.fetch(query, *arguments)


def build_entry(kind: type[Entry], row: Found, **changed: Any) -> Entry:
    """Build an entry from the columns that have its fields' names, and from `changed` for its other fields."""
    given = cells(row, (name for name in kind.model_fields if name not in changed))
    return kind.model_validate({**given, **changed}, context=READING)


def _workflow(row: Found) -> WorkflowSummary:
    workflow_id = str(row["workflow_id"])
    return build_entry(
        WorkflowSummary,
        row,
        workflow_id=workflow_id,
        workflow_mode=row["mode"],
        current_round=row["round"],
        current_task=row["task"],
        current_step=row["step"],
        opened=time(row["opened_ms"]),
        updated=time(row["updated_ms"]),
        paused=None if row["paused_ms"] is None else time(row["paused_ms"]),
        cursor=f"{row['opened_ms']}_{workflow_id}",
    )


def _instance(row: Found) -> InstanceEntry:
    ended = row["ended_ms"]
    return build_entry(
        InstanceEntry, row, started=time(row["started_ms"]), ended=None if ended is None else time(ended)
    )


def stored_record(row: Found | Mapping[str, Any]) -> StoredRecord:
    """Return a row of `records` with its bytes."""
    given = {name: row[name] for name in ("seq", "verdict", "partition", "time_ms", "sha256")}
    try:
        value = decompress(row["compressed"])
    except DamagedRecord:
        value = b""
    return StoredRecord(**given, offset=row["log_offset"], value=value)


def _dead_letter(row: Found) -> DeadLetterEntry:
    return build_entry(DeadLetterEntry, row, offset=row["log_offset"], time=time(row["time_ms"]))


def _told(row: Found, *, damaged: bool = False) -> HistoryEntry:
    """Build the entry; with `damaged`, a damaged review is left out."""
    return build_entry(HistoryEntry, row, **_message_fields(row, damaged=damaged))


def _logged_message(row: Found) -> LoggedMessage:
    return build_entry(LoggedMessage, row, workflow_id=str(row["workflow_id"]), **_message_fields(row, damaged=True))


def _message_fields(row: Found, *, damaged: bool) -> dict[str, Any]:
    try:
        reason = _reason(row["review"])
    except Refused:
        if not damaged:
            raise
        reason = None
    return {"review_reason": reason, "references": _references(row), "time": time(row["time_ms"])}


def _reason(review: bytes | None) -> str | None:
    event = None if review is None else decode(decompress(review)).event
    return event.reason if isinstance(event, TaskReviewed) else None


def _references(row: Found) -> tuple[str, ...]:
    """Return the documents of a message as references, with the names under which the documents were added."""
    label, names = row["documents_label"], row["names"] or {}
    items = ((document["documentId"], document["documentName"]) for document in row["documents"])
    return (
        *((list_reference(label),) if label else ()),
        *(item_reference(document_id, names.get(document_id, name)) for document_id, name in items),
    )


def event_entry(row: Found, *, damaged: bool = False) -> EventEntry:
    """Return a row of `records` as an entry; with `damaged`, one of a damaged row has no source and no data."""
    return build_entry(EventEntry, row, **_event_fields(row, damaged=damaged))


def _logged(row: Found) -> LoggedEvent | None:
    if row["workflow_id"] is None:
        return None
    return build_entry(LoggedEvent, row, workflow_id=str(row["workflow_id"]), **_event_fields(row, damaged=True))


def _event_fields(row: Found, *, damaged: bool) -> dict[str, Any]:
    causation = row["causation_id"]
    try:
        attributes = orjson.loads(decompress(row["compressed"]))
    except DamagedRecord:
        if not damaged:
            raise
        attributes = {"source": "", "data": None}
    return {
        "offset": row["log_offset"],
        "time": time(row["time_ms"]),
        "id": str(row["event_id"]),
        "source": attributes["source"],
        "causationid": None if causation is None else str(causation),
        "sha256": row["sha256"].hex(),
        "data": attributes["data"],
    }


class JudgedRecord(NamedTuple):
    """A record of a workflow, and the fold's verdict on it."""

    seq: int
    verdict: Verdict
    sha256: str
    envelope: Envelope


async def judged_records(pool: Pool, workflow_id: str) -> list[JudgedRecord]:
    """Return all records of the workflow that the rows hold, in order; raise Unavailable without Postgres."""
    return await _convert_all(_judged, await stored_records(pool, workflow_id))


def _judged(record: StoredRecord) -> JudgedRecord:
    return JudgedRecord(record.seq, record.verdict, record.sha256.hex(), decode(record.value))


async def _convert_all(convert: Callable[[Any], Converted], items: Sequence[Any]) -> list[Converted]:
    """Convert items in order; a thread converts many, so that the event loop goes on."""
    if len(items) <= MAX_DECODED_ON_LOOP:
        return [*map(convert, items)]
    return await asyncio.to_thread(lambda: [*map(convert, items)])
