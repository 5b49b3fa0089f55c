"""How long the content of workflows is kept, what was erased of it, and which workflows may have copies."""

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from poweron_events.archive_events import ContentErased, WorkflowRetained
from poweron_events.codec import decode
from poweron_events.fold.retention import RETENTION_EVENTS, Retention, retention
from poweron_events.request import DocumentErased
from poweron_projections.connection import Found, Pool, acquire
from poweron_projections.entries import EventEntry
from poweron_projections.reader import event_entry
from poweron_projections.records import decompress

_ACCEPTED: Final = """
SELECT * FROM records
 WHERE workflow_id = $1::uuid AND type = ANY($2::text[]) AND verdict = 'accepted' ORDER BY seq
"""
_EXPIRING: Final = """
SELECT workflow_id::text, compressed
  FROM records
 WHERE type = ANY($1::text[]) AND verdict = 'accepted'
   AND workflow_id IN (SELECT retained.workflow_id FROM records retained
                         JOIN workflows ON workflows.workflow_id = retained.workflow_id AND NOT is_open AND NOT frozen
                        WHERE retained.type = 'poweron.workflow.retained.v1' AND retained.verdict = 'accepted')
 ORDER BY workflow_id, seq
"""
_COPIES: Final = """
WITH RECURSIVE copies (workflow_id) AS (
    SELECT $1
     UNION
    SELECT workflows.workflow_id::text
      FROM copies JOIN workflows ON copies.workflow_id IN (workflows.forked_from, workflows.restarted_from)
)
SELECT workflow_id FROM copies WHERE workflow_id <> $1 ORDER BY workflow_id
"""
_TYPES: Final = [event.TYPE for event in RETENTION_EVENTS]
ERASURES: Final = (ContentErased.TYPE, DocumentErased.TYPE)


async def workflow_retention(pool: Pool, workflow_id: str) -> Retention:
    """Return how long the content of a workflow is kept, and what was erased; raise Unavailable without Postgres."""
    async with acquire(pool) as connection:
        return _retention(await connection.fetch(_ACCEPTED, workflow_id, _TYPES))


async def expired_workflows(pool: Pool, now_ms: int) -> list[str]:
    """Return the workflows whose retention is over and whose content can be erased; they have no open round.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        rows = await connection.fetch(_EXPIRING, _TYPES)
    found = groupby(rows, key=lambda row: str(row["workflow_id"]))
    return [id_ for id_, records in found if _retention(records).is_expired(now_ms)]


async def lifetime_events(pool: Pool, workflow_id: str) -> list[EventEntry]:
    """Return the events that changed how long content is kept, or erased some; raise Unavailable without Postgres."""
    types = [*ERASURES, WorkflowRetained.TYPE]
    async with acquire(pool) as connection:
        return [event_entry(row) for row in await connection.fetch(_ACCEPTED, workflow_id, types)]


async def copies(pool: Pool, workflow_id: str) -> list[str]:
    """Return the workflows that were forked or restarted from this one, or from one of them.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        return [str(row["workflow_id"]) for row in await connection.fetch(_COPIES, workflow_id)]


def _retention(rows: Iterable[Found]) -> Retention:
    events = (decode(decompress(row["compressed"])).event for row in rows)
    return retention(event for event in events if event is not None)
