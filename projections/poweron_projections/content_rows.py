"""The contents that the rows refer to: in all accepted events, or in a few of the newest workflows."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from poweron_projections.connection import Pool, acquire, snapshot
from poweron_projections.records import DamagedRecord, decompress

SCANNED: Final = 500  # events fetched at a time

_ACCEPTED: Final = """
SELECT workflow_id::text, seq, compressed FROM records
 WHERE workflow_id IS NOT NULL AND verdict = 'accepted' AND compressed IS NOT NULL
   AND ($1::text[] IS NULL OR type = ANY ($1))
"""
_HAS_ROWS: Final = "SELECT to_regclass('workflows') IS NOT NULL"
_RECENT: Final = """
SELECT recent.workflow_id::text, found.name
  FROM (SELECT workflow_id FROM workflows
         WHERE round > 0 AND NOT EXISTS (SELECT FROM records
                                          WHERE records.workflow_id = workflows.workflow_id AND verdict = 'accepted'
                                            AND type IN ('poweron.content.erased.v1', 'poweron.document.erased.v1'))
         ORDER BY opened_ms DESC NULLS LAST LIMIT 20) AS recent
 CROSS JOIN LATERAL (
           (SELECT content AS name FROM documents WHERE documents.workflow_id = recent.workflow_id LIMIT 1)
           UNION ALL
           (SELECT prompt_ref FROM usage
             WHERE usage.workflow_id = recent.workflow_id AND prompt_ref IS NOT NULL LIMIT 1)
       ) AS found
"""


async def accepted_events(
    pool: Pool, types: Sequence[str] | None = None
) -> AsyncGenerator[Sequence[tuple[str, int, bytes]], None]:
    """Yield all accepted events, or those of some types, one page at a time: workflow, seq and bytes.

    They come in no particular order. Damaged rows are left to `verify`.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with snapshot(pool) as connection:
        cursor = await connection.cursor(_ACCEPTED, types)
        while rows := await cursor.fetch(SCANNED):
            events = []
            for workflow_id, seq, compressed in rows:
                try:
                    events.append((workflow_id, seq, decompress(compressed)))
                except DamagedRecord:
                    continue
            yield events


async def recent_contents(pool: Pool) -> list[tuple[str, str]]:
    """Return a few contents that the newest workflows refer to, by workflow and name; none before any projection.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        if not await connection.fetchval(_HAS_ROWS):
            return []
        return [(row["workflow_id"], row["name"]) for row in await connection.fetch(_RECENT)]
