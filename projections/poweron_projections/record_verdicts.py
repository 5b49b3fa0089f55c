"""The records of one workflow with their verdicts, for deciding them again, forking and comparing."""

from typing import Final, NamedTuple

from poweron_events.codec import decode
from poweron_events.envelope import Envelope
from poweron_events.fold.state import Verdict
from poweron_projections.connection import Pool, acquire
from poweron_projections.reader import stored_records

_HASH: Final = """
SELECT sha256 FROM records WHERE workflow_id = $1::uuid AND seq = $2 AND verdict = 'accepted'
"""


class JudgedRecord(NamedTuple):
    """A record of a workflow, and the fold's verdict on it."""

    seq: int
    verdict: Verdict
    sha256: str
    envelope: Envelope


async def judged_records(pool: Pool, workflow_id: str) -> list[JudgedRecord]:
    """Return all records of the workflow in order, as far as the rows hold them; raise Unavailable without Postgres."""
    return [
        JudgedRecord(each.seq, each.verdict, each.sha256.hex(), decode(each.value))
        for each in await stored_records(pool, workflow_id)
    ]


async def accepted_hash(pool: Pool, workflow_id: str, seq: int) -> str | None:
    """Return the SHA-256 of an accepted record of the workflow; None if there is no such record."""
    async with acquire(pool) as connection:
        found = await connection.fetch(_HASH, workflow_id, seq)
    return found[0]["sha256"].hex() if found else None
