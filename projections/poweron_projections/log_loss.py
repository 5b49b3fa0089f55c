"""What is lost if the log does not hold what the rows were made from, for users to see before they recover."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from poweron_events import topics
from poweron_events.errors import LogLost
from poweron_events.event import Model
from poweron_events.log import EventLog, Record
from poweron_projections.connection import Pool, snapshot
from poweron_projections.reader import time
from poweron_projections.records import digest

EVENTS: Final = topics.EVENTS.name

_HELD: Final = "CREATE TEMPORARY TABLE held (partition integer, log_offset bigint, sha256 bytea) ON COMMIT DROP"
_COUNT: Final = """
SELECT (SELECT count(*) FROM held) AS held, count(*) AS known, count(*) - count(held.partition) AS missing
  FROM records LEFT JOIN held USING (partition, log_offset, sha256)
"""
_WORKFLOWS: Final = """
SELECT workflow_id, workflows.opened_ms, rounds.prompt,
       count(*) AS events, count(*) - count(held.partition) AS lost
  FROM records
  LEFT JOIN held USING (partition, log_offset, sha256)
  JOIN workflows USING (workflow_id)
  LEFT JOIN rounds USING (workflow_id)
 WHERE rounds.round IS NULL OR rounds.round = 1
 GROUP BY workflow_id, workflows.opened_ms, rounds.prompt
HAVING count(*) > count(held.partition)
 ORDER BY workflows.opened_ms DESC
"""


class LostWorkflow(Model):
    """A workflow with missing events."""

    workflow_id: str
    opened: str
    prompt: str | None
    events: int
    """The number of its records that the rows were made from."""
    lost: int
    """The number of those that the log does not hold."""


class LogLoss(Model):
    """How many records the log holds, how many the rows were made from, and which of these the log does not hold."""

    held: int
    known: int
    missing: int
    workflows: tuple[LostWorkflow, ...]


async def find_loss(log: EventLog, pool: Pool) -> LogLoss:
    """Compare every record that the rows were made from with the log, which is unguarded.

    Raises:
        Unavailable: the log or Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with snapshot(pool, readonly=False) as connection:
        await connection.execute(_HELD)
        async for records in _all_records(log):
            rows = [(each.partition, each.offset, digest(each.value)) for each in records]
            await connection.copy_records_to_table("held", records=rows)
        (counted,) = await connection.fetch(_COUNT)
        found = await connection.fetch(_WORKFLOWS)
    workflows = [
        LostWorkflow(
            workflow_id=str(each["workflow_id"]),
            opened=time(each["opened_ms"]),
            prompt=each["prompt"],
            events=each["events"],
            lost=each["lost"],
        )
        for each in found
    ]
    return LogLoss(**counted, workflows=tuple(workflows))


async def _all_records(log: EventLog) -> AsyncIterator[Sequence[Record]]:
    try:
        ends = await log.ends(EVENTS)
    except LogLost:  # the topic does not exist
        return
    async for records in log.read(EVENTS, {}, ends):
        yield records
