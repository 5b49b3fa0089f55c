"""The records of one workflow with their verdicts, as they are decided again, forked and compared."""

from typing import Final, NamedTuple, cast

from poweron_events.codec import decode
from poweron_events.envelope import Envelope
from poweron_events.fold.state import Verdict
from poweron_projections.connection import Pool, acquire

_RECORDS: Final = "SELECT seq, verdict, sha256, value FROM records WHERE workflow_id = $1::uuid ORDER BY seq"

_HASH: Final = """
SELECT sha256 FROM records WHERE workflow_id = $1::uuid AND seq = $2 AND verdict = 'accepted'
"""


class JudgedRecord(NamedTuple):
    """A record of a workflow, and what the fold said of it."""

    seq: int
    verdict: Verdict
    sha256: str
    envelope: Envelope


async def judged_records(pool: Pool, workflow_id: str) -> list[JudgedRecord]:
    """All records of the workflow in order, as far as the rows hold them; raises Unavailable without Postgres."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(_RECORDS, workflow_id)
    return [
        JudgedRecord(row["seq"], cast("Verdict", row["verdict"]), row["sha256"].hex(), decode(row["value"]))
        for row in rows
    ]


async def accepted_hash(pool: Pool, workflow_id: str, seq: int) -> str | None:
    """The SHA-256 of a record of the workflow; None where there is none that was accepted."""
    async with acquire(pool) as connection:
        found = await connection.fetch(_HASH, workflow_id, seq)
    return found[0]["sha256"].hex() if found else None
