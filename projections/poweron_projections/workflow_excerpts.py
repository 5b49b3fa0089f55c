"""The rounds, tasks, steps, documents and model calls of one workflow: all of them, pages of them, or the newest."""

from collections.abc import Iterable
from typing import Any, Final

from poweron_events.event import READING, DocumentRef, UnreadDocument
from poweron_events.fold.state import Place
from poweron_projections.connection import Found, Pool, acquire, cells
from poweron_projections.entries import DocumentEntry, RoundSummary, StepEntry, TaskEntry, UsageEntry
from poweron_projections.reader import time
from poweron_projections.record_queries import place_of_record

_IDS: Final = "SELECT workflow_id FROM workflows WHERE workflow_id BETWEEN $1::uuid AND $2::uuid LIMIT $3"
_ALL_ROUNDS: Final = "SELECT * FROM rounds WHERE workflow_id = $1::uuid AND round > $2 ORDER BY round LIMIT $3"
_ALL_TASKS: Final = """
SELECT * FROM tasks WHERE workflow_id = $1::uuid AND (round, task) > ($2, $3) ORDER BY round, task LIMIT $4
"""
_ALL_STEPS: Final = """
SELECT * FROM steps WHERE workflow_id = $1::uuid AND (round, task, attempt, step) > ($2, $3, $4, $5)
 ORDER BY round, task, attempt, step LIMIT $6
"""
_STEP: Final = """
SELECT * FROM steps WHERE workflow_id = $1::uuid AND (round, task, attempt, step) = ($2, $3, $4, $5)
"""
_ALL_OF_EVENTS: Final = """
SELECT * FROM (
       SELECT * FROM {table} WHERE workflow_id = $1::uuid AND seq > $2 ORDER BY seq FETCH FIRST $3 ROWS WITH TIES
) page
 ORDER BY seq, position
"""
_ALL_DOCUMENTS: Final = _ALL_OF_EVENTS.format(table="documents")
_ALL_USAGE: Final = _ALL_OF_EVENTS.format(table="usage")
_OF_SEQS: Final = """
SELECT * FROM {table} WHERE workflow_id = $1::uuid AND seq = ANY($2::integer[]) ORDER BY seq, position
"""
_DOCUMENTS_OF: Final = _OF_SEQS.format(table="documents")
_DOCUMENTS_LABELLED: Final = """
SELECT * FROM documents WHERE workflow_id = $1::uuid AND label = ANY($2::text[]) ORDER BY seq, position
"""
_USAGE_OF: Final = _OF_SEQS.format(table="usage")
_ROUNDS: Final = "SELECT * FROM rounds WHERE workflow_id = $1::uuid AND round < $2 ORDER BY round DESC LIMIT $3"
_TASKS: Final = "SELECT * FROM tasks WHERE workflow_id = $1::uuid AND round BETWEEN $2 AND $3 ORDER BY round, task"
_STEPS: Final = """
SELECT * FROM steps WHERE workflow_id = $1::uuid AND (round, task, attempt, step) < ($2, $3, $4, $5)
 ORDER BY round DESC, task DESC, attempt DESC, step DESC LIMIT $6
"""
_FAILED_STEPS: Final = """
SELECT * FROM steps WHERE workflow_id = $1::uuid AND (round, task, attempt, step) < ($2, $3, $4, $5)
   AND (success = FALSE OR error IS NOT NULL OR refusals <> '[]' OR approval = 'denied')
 ORDER BY round DESC, task DESC, attempt DESC, step DESC LIMIT $6
"""
_DOCUMENTS: Final = """
SELECT * FROM documents WHERE workflow_id = $1::uuid ORDER BY seq DESC, position DESC LIMIT $2
"""
_DOCUMENT: Final = """
SELECT * FROM documents WHERE workflow_id = $1::uuid AND document_id = $2 ORDER BY seq DESC LIMIT 1
"""
_DOCUMENTS_OF_SIZE: Final = "SELECT * FROM documents WHERE size = $1 ORDER BY workflow_id, seq, position"
_DOCUMENT_COUNT: Final = "SELECT COUNT(*) AS count FROM documents WHERE workflow_id = $1::uuid"
_FIRST_OF_STEP: Final = """
SELECT records.seq, records.compressed FROM records
  JOIN steps ON (steps.workflow_id, steps.round, steps.task, steps.attempt, steps.step) = ($1::uuid, $2, $3, $4, $5)
 WHERE records.workflow_id = $1::uuid AND records.time_ms BETWEEN steps.started_ms AND
       COALESCE(steps.selected_ms, steps.ended_ms, steps.started_ms)
   AND records.verdict = 'accepted' AND records.compressed IS NOT NULL
 ORDER BY records.seq
"""
LAST: Final = 2**31 - 1
AFTER_ALL: Final[Place] = (LAST, LAST, LAST, LAST)


BEFORE_ALL: Final[Place] = (-1, -1, -1, -1)
ALL: Final = LAST  # rows


class TimedStep(StepEntry):
    """A step with the times (ms since 1970) of its stages."""

    approval_ms: int | None
    approval_answered_ms: int | None
    claimed_ms: int | None
    begun_ms: int
    selected_ms: int | None
    parameterized_ms: int | None
    completed_ms: int | None
    observed_ms: int | None
    refined_ms: int | None
    ended_ms: int | None

    @property
    def name(self) -> str:
        """Its place as addresses have it, such as `r1t1a1s2`."""
        return f"r{self.round}t{self.task}a{self.attempt}s{self.step}"


async def ids_between(pool: Pool, least: str, last: str, *, limit: int) -> list[str]:
    """Return ids of workflows from one to another; raise Unavailable without Postgres."""
    return [str(row["workflow_id"]) for row in await _fetch(pool, _IDS, least, last, limit)]


async def rounds(pool: Pool, workflow_id: str, *, after: int = -1, limit: int = ALL) -> list[RoundSummary]:
    """Return the rounds after one, in order; raise Unavailable without Postgres, as the next functions do."""
    return [_round(row) for row in await _fetch(pool, _ALL_ROUNDS, workflow_id, after, limit)]


async def tasks(
    pool: Pool, workflow_id: str, *, after: tuple[int, int] = BEFORE_ALL[:2], limit: int = ALL
) -> list[TaskEntry]:
    """Return the tasks after a round and task, in the order in which they are worked on."""
    return [_entry(TaskEntry, row) for row in await _fetch(pool, _ALL_TASKS, workflow_id, *after, limit)]


async def steps(pool: Pool, workflow_id: str, *, after: Place = BEFORE_ALL, limit: int = ALL) -> list[StepEntry]:
    """Return the steps after a place, in order."""
    return [_entry(StepEntry, row) for row in await _fetch(pool, _ALL_STEPS, workflow_id, *after, limit)]


async def step(pool: Pool, workflow_id: str, place: Place) -> StepEntry | None:
    """Return the step at a place; None if there is none."""
    return next((_entry(StepEntry, row) for row in await _fetch(pool, _STEP, workflow_id, *place)), None)


async def documents(pool: Pool, workflow_id: str, *, after: int = -1, limit: int = ALL) -> list[DocumentEntry]:
    """Return the documents of the events after one, in the order in which they were added.

    All documents of an event are on one page, which may have a few more than `limit`.
    """
    return [_entry(DocumentEntry, row) for row in await _fetch(pool, _ALL_DOCUMENTS, workflow_id, after, limit)]


async def documents_of_size(pool: Pool, size: int) -> list[tuple[str, DocumentEntry]]:
    """Return the documents with this many bytes, each with its workflow, those of one workflow next to one another."""
    rows = await _fetch(pool, _DOCUMENTS_OF_SIZE, size)
    return [(str(row["workflow_id"]), _entry(DocumentEntry, row)) for row in rows]


async def usage(pool: Pool, workflow_id: str, *, after: int = -1, limit: int = ALL) -> list[UsageEntry]:
    """Return the model calls in order, including those of superseded events, in the same pages."""
    return [_entry(UsageEntry, row) for row in await _fetch(pool, _ALL_USAGE, workflow_id, after, limit)]


async def documents_of(pool: Pool, workflow_id: str, seqs: Iterable[int]) -> list[DocumentEntry]:
    """Return the documents of these events, in order."""
    return [_entry(DocumentEntry, row) for row in await _fetch(pool, _DOCUMENTS_OF, workflow_id, [*seqs])]


async def documents_labelled(pool: Pool, workflow_id: str, labels: Iterable[str]) -> list[DocumentEntry]:
    """Return the documents of these lists, in order."""
    return [_entry(DocumentEntry, row) for row in await _fetch(pool, _DOCUMENTS_LABELLED, workflow_id, [*labels])]


async def usage_of(pool: Pool, workflow_id: str, seqs: Iterable[int]) -> list[UsageEntry]:
    """Return the model calls of these events, in order."""
    return [_entry(UsageEntry, row) for row in await _fetch(pool, _USAGE_OF, workflow_id, [*seqs])]


async def newest_rounds(pool: Pool, workflow_id: str, *, limit: int, before: int = LAST) -> list[RoundSummary]:
    """Return the newest rounds, newest first; raise Unavailable without Postgres."""
    return [_round(row) for row in await _fetch(pool, _ROUNDS, workflow_id, before, limit)]


async def tasks_of_rounds(pool: Pool, workflow_id: str, first: int, last: int) -> list[TaskEntry]:
    """Return the tasks of these rounds in order; raise Unavailable without Postgres."""
    return [_entry(TaskEntry, row) for row in await _fetch(pool, _TASKS, workflow_id, first, last)]


async def newest_steps(
    pool: Pool, workflow_id: str, *, limit: int, before: Place = AFTER_ALL, failures: bool = False
) -> list[TimedStep]:
    """Return the newest steps before a place, newest first, or only those in which something failed.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    query = _FAILED_STEPS if failures else _STEPS
    return [_entry(TimedStep, row) for row in await _fetch(pool, query, workflow_id, *before, limit)]


async def newest_documents(pool: Pool, workflow_id: str, *, limit: int) -> tuple[list[DocumentEntry], int]:
    """Return the newest documents, newest first, and the number of all; raise Unavailable without Postgres."""
    found = [_entry(DocumentEntry, row) for row in await _fetch(pool, _DOCUMENTS, workflow_id, limit)]
    (row,) = await _fetch(pool, _DOCUMENT_COUNT, workflow_id)
    return found, row["count"]


async def document(pool: Pool, workflow_id: str, document_id: str) -> DocumentEntry | None:
    """Return a document; None if there is none of this id. Raise Unavailable without Postgres."""
    return next((_entry(DocumentEntry, row) for row in await _fetch(pool, _DOCUMENT, workflow_id, document_id)), None)


async def seq_of_step(pool: Pool, workflow_id: str, place: Place) -> int | None:
    """Return the first event of a step; None if there is no such step. Raise Unavailable without Postgres."""
    rows = await _fetch(pool, _FIRST_OF_STEP, workflow_id, *place)
    return next((row["seq"] for row in rows if place_of_record(row) == place), None)


async def _fetch(pool: Pool, query: str, *arguments: object) -> Any:
    async with acquire(pool) as connection:
        return await connection.fetch(query, *arguments)


def _entry(kind: Any, row: Found) -> Any:
    return kind.model_validate(cells(row, kind.model_fields), context=READING)


def _round(row: Found) -> RoundSummary:
    ended = row["ended_ms"]
    given = {
        **cells(row, (name for name in RoundSummary.model_fields if name in row.keys())),  # noqa: SIM118 - a record
        "workflow_mode": row["mode"],
        "duration_ms": None if ended is None else ended - row["opened_ms"],
        "opened": time(row["opened_ms"]),
    }
    return RoundSummary.model_validate(given, context=READING)


_LAST_ANSWER: Final = """
SELECT documents FROM messages WHERE workflow_id = $1::uuid AND kind = 'round_end' ORDER BY seq DESC LIMIT 1
"""
_UNREAD: Final = """
SELECT unread FROM messages WHERE workflow_id = $1::uuid AND round = $2 AND kind = 'step' AND unread <> '[]'
 ORDER BY seq
"""


async def answer_documents(pool: Pool, workflow_id: str) -> list[DocumentRef]:
    """Return the documents of the last round that ended; raise Unavailable without Postgres."""
    found = await _fetch(pool, _LAST_ANSWER, workflow_id)
    given = found[0]["documents"] if found else ()
    return [DocumentRef.model_validate(each, context=READING) for each in given]


async def unread_documents(pool: Pool, workflow_id: str, number: int) -> list[UnreadDocument]:
    """Return the documents that steps of a round could not read completely; raise Unavailable without Postgres."""
    found = await _fetch(pool, _UNREAD, workflow_id, number)
    return [UnreadDocument.model_validate(each, context=READING) for row in found for each in row["unread"]]
