"""Workflows as they were at an earlier offset, folded from their records in the rows."""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from poweron_events.codec import read_record
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import Record
from poweron_events.topics import EVENTS
from poweron_projections.audit.ledger_entry import Head
from poweron_projections.connection import Connection
from poweron_projections.records import decompress

PREFETCHED: Final = 500  # records fetched at a time

_RECORDS: Final = """
SELECT records.partition, log_offset, time_ms, workflow_id, compressed
  FROM unnest($1::uuid[], $2::bigint[]) AS given (wanted, before)
  JOIN records ON workflow_id = wanted AND log_offset < before
 ORDER BY workflow_id, records.seq
"""
_HEADS: Final = """
SELECT last.*
  FROM unnest($1::uuid[], $2::integer[]) AS given (wanted, at)
  JOIN ledger_entries AS last ON workflow_id = wanted AND seq = at
"""


class PastWorkflow(NamedTuple):
    """A workflow, and the offset in its partition before which its records count."""

    workflow_id: str
    partition: int
    before: int


async def past_workflows(
    connection: Connection, asked: Sequence[PastWorkflow]
) -> AsyncIterator[tuple[Workflow, Head | None]]:
    """Yield each workflow that has records there, and its entry of the last of them."""
    workflows = dict[str, Workflow]()
    given = [each.workflow_id for each in asked], [each.before for each in asked]
    async for row in connection.cursor(_RECORDS, *given, prefetch=PREFETCHED):
        name = str(row["workflow_id"])
        value = decompress(row["compressed"])
        record = Record(EVENTS.name, row["partition"], row["log_offset"], row["time_ms"], name.encode(), value, {})
        workflows[name], _ = evolve(workflows.get(name) or Workflow(name), read_record(record))
    last = [*workflows], [workflow.seq - 1 for workflow in workflows.values()]
    heads = {
        str(row["workflow_id"]): Head(str(row["workflow_id"]), row["seq"], row["leaf"].hex())
        for row in await connection.fetch(_HEADS, *last)
    }
    for name, workflow in workflows.items():
        yield workflow, heads.get(name)
