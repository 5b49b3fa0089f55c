"""Queries for single records of a workflow: those of one step, those of one type, and the names of its contents."""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import orjson

from poweron_events.fold.state import Place
from poweron_projections.connection import Found, Pool, acquire
from poweron_projections.entries import EventEntry
from poweron_projections.reader import event_entry
from poweron_projections.records import decompress

_SINCE_STEP: Final = """
SELECT * FROM records
 WHERE workflow_id = $1::uuid AND compressed IS NOT NULL
   AND time_ms >= (SELECT begun_ms FROM steps
                    WHERE workflow_id = $1::uuid AND (round, task, attempt, step) = ($2, $3, $4, $5))
 ORDER BY seq
"""
_COUNT_OF_TYPES: Final = """
SELECT COUNT(*) FROM records WHERE workflow_id = $1::uuid AND type = ANY($2::text[]) AND verdict = 'accepted'
"""
_HASH: Final = """
SELECT sha256 FROM records WHERE workflow_id = $1::uuid AND seq = $2 AND verdict = 'accepted'
"""
_NAMES: Final = """
SELECT name, media_type, document_id FROM (
SELECT 1 AS kind, document_name AS name, mime_type AS media_type, document_id
  FROM documents
 WHERE workflow_id = $1::uuid AND content = $2
 UNION ALL
SELECT 2, 'page.html', 'text/html', document_id
  FROM documents
 WHERE workflow_id = $1::uuid AND (page ->> 'content' = $2 OR sources @> jsonb_build_array(
       jsonb_build_object('page', jsonb_build_object('content', $2::text))))
 UNION ALL
SELECT 3, 'source.md', 'text/markdown', document_id
  FROM documents
 WHERE workflow_id = $1::uuid AND sources @> jsonb_build_array(jsonb_build_object('text', $2::text))
 UNION ALL
SELECT 4, CASE WHEN prompt_ref = $2 THEN 'prompt.txt' ELSE 'answer.txt' END, 'text/plain', NULL
  FROM usage
 WHERE workflow_id = $1::uuid AND $2 IN (prompt_ref, answer_ref)
) AS names
 ORDER BY document_id IS DISTINCT FROM $3::text, kind
 LIMIT 1
"""


async def step_events(pool: Pool, workflow_id: str, place: Place) -> list[EventEntry]:
    """Return all records that name this step, oldest first, with their verdicts; raise Unavailable without Postgres."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(_SINCE_STEP, workflow_id, *place)
    return [event_entry(row) for row in rows if place_of_record(row) == place]


async def count_of_types(pool: Pool, workflow_id: str, types: Collection[str]) -> int:
    """Return the number of accepted events of these types in a workflow; raise Unavailable without Postgres."""
    async with acquire(pool) as connection:
        return int(await connection.fetchval(_COUNT_OF_TYPES, workflow_id, [*types]))


async def accepted_hash(pool: Pool, workflow_id: str, seq: int) -> str | None:
    """Return the SHA-256 of an accepted record of the workflow; None if there is no such record."""
    async with acquire(pool) as connection:
        found = await connection.fetch(_HASH, workflow_id, seq)
    return found[0]["sha256"].hex() if found else None


class NamedContent(NamedTuple):
    """A content to which events refer."""

    name: str
    """The name of its document, or one that says what it is."""
    media_type: str
    document_id: str | None
    """Its document, or the one that was made from it; None for prompts and answers."""


async def named_content(
    pool: Pool, workflow_id: str, content: str, document_id: str | None = None
) -> NamedContent | None:
    """Return a content to which the workflow's events refer; None if none does.

    If several documents have it, the name is that of `document_id`, if one of them has this id.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        found = await connection.fetch(_NAMES, workflow_id, content, document_id)
    return NamedContent(*found[0]) if found else None


def place_of_record(row: Found) -> tuple[Any, ...]:
    """Return the place that a record names; empty or with gaps if it names none."""
    data = orjson.loads(decompress(row["compressed"]))["data"]
    return tuple(data.get(name) for name in ("round", "task", "attempt", "step")) if isinstance(data, dict) else ()
