"""The requests of a door by their senders' ids: what was requested, and the response, for repeats of it.

They are in a schema of their own, which no rebuild touches. The log recognises repeats without them; they add that the
same id with another request is noticed, and that a repeat gets the same response.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from poweron_events.request import RequestIdentity
from poweron_projections.access_keys import LOCK, existing_schema, schema_beside
from poweron_projections.connection import Connection, Pool, acquire, schema_of
from poweron_projections.table_spec import text

TABLE: Final = "request_digests"
KEPT_FOR: Final = timedelta(days=30)

_CREATE: Final = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.request_digests (
    source      text NOT NULL,
    id          text NOT NULL,
    sha256      bytea NOT NULL,
    workflow_id uuid,
    received    timestamptz NOT NULL DEFAULT now(),
    status      smallint,
    location    text,
    body        bytea,
    PRIMARY KEY (source, id)
);
CREATE INDEX IF NOT EXISTS request_digests_received ON {schema}.request_digests (received);
"""
_FORGET: Final = "DELETE FROM {schema}.request_digests WHERE received < now() - $1::interval"
_CLAIM: Final = """
INSERT INTO {schema}.request_digests (source, id, sha256, workflow_id) VALUES ($1, $2, $3, $4::uuid)
ON CONFLICT (source, id) DO NOTHING
"""
_FIND: Final = """
SELECT sha256, workflow_id, status, location, body FROM {schema}.request_digests WHERE (source, id) = ($1, $2)
"""
_KEEP: Final = """
UPDATE {schema}.request_digests SET status = $3, location = $4, body = $5
 WHERE (source, id) = ($1, $2) AND status IS NULL
"""


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """The response to a request that was sent."""

    status: int
    location: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class ClaimedRequest:
    """A request as it was first received."""

    sha256: bytes
    workflow_id: str | None
    """The workflow that it is about or opens; None if it is about several."""
    response: KeptResponse | None
    """None until it was sent."""


async def claim(pool: Pool, identity: RequestIdentity, sha256: bytes, workflow_id: str | None) -> ClaimedRequest:
    """Record a request unless its identity is already known; return what was recorded first.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        schema = await existing_schema(connection, TABLE) or await _create(connection)
        await connection.execute(_FORGET.format(schema=schema), KEPT_FOR)
        source, id_ = text(identity.source), text(identity.id)
        await connection.execute(_CLAIM.format(schema=schema), source, id_, sha256, workflow_id)
        claimed = await _find(connection, schema, identity)
    return claimed or ClaimedRequest(sha256, workflow_id, None)


async def find(pool: Pool, identity: RequestIdentity) -> ClaimedRequest | None:
    """Return the request as it was first received; None if it never was, or too long ago.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        schema = await existing_schema(connection, TABLE)
        return await _find(connection, schema, identity) if schema else None


async def _find(connection: Connection, schema: str, identity: RequestIdentity) -> ClaimedRequest | None:
    row = await connection.fetchrow(_FIND.format(schema=schema), text(identity.source), text(identity.id))
    if row is None:
        return None
    response = None if row["status"] is None else KeptResponse(row["status"], row["location"], row["body"])
    workflow = None if row["workflow_id"] is None else str(row["workflow_id"])
    return ClaimedRequest(row["sha256"], workflow, response)


async def keep(pool: Pool, identity: RequestIdentity, response: KeptResponse) -> None:
    """Keep the response to a request for repeats of it; the first one stays.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        schema = await existing_schema(connection, TABLE)
        if schema is not None:
            place = text(identity.source), text(identity.id)
            await connection.execute(
                _KEEP.format(schema=schema), *place, response.status, response.location, response.body
            )


async def _create(connection: Connection) -> str:
    schema = schema_beside(await schema_of(connection))
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(_CREATE.format(schema=schema))
    return schema
