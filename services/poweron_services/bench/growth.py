"""Whether what a workflow writes grows with its steps: the bytes of its 40th step beside those of its 4th.

They are counted as the log and the rows hold them. A workflow that ends at that step stands for the rows that each
step replaces, which are then as that step has left them.
"""

from typing import Final

from poweron_projections.connection import acquire
from poweron_services.bench.loop_speed import WorkflowRunner

EARLY_STEP, LATE_STEP = 4, 40  # steps

_EVENTS: Final = """
SELECT min(seq) AS first, max(seq) AS last, sum(octet_length(value)) AS bytes
  FROM records
 WHERE workflow_id = $1::uuid
   AND (convert_from(value, 'UTF8')::jsonb -> 'data' ->> 'step')::integer = $2
"""
_WHOLE: Final = "SELECT COALESCE(sum(pg_column_size({0}.*)), 0)::bigint FROM {0} WHERE workflow_id = $1::uuid"
_BY_SEQ: Final = f"{_WHOLE} AND seq BETWEEN $2 AND $3"
_STEP: Final = f"{_WHOLE.format('steps')} AND step = $2"

SEQUENTIAL: Final = ("records", "messages", "documents", "usage")
REPLACED: Final = ("workflows", "rounds", "tasks")


async def growth(runner: WorkflowRunner) -> float:
    """What the late step writes, divided by what the early one does."""
    return await _written_by(runner, LATE_STEP) / await _written_by(runner, EARLY_STEP)


async def _written_by(runner: WorkflowRunner, step: int) -> int:
    """The bytes that the last step of a workflow of so many steps has written."""
    workflow = await runner.run(step)
    await runner.projected()
    async with acquire(runner.connections.pool) as connection:
        events = await connection.fetchrow(_EVENTS, workflow, step)
        assert events is not None
        rows = [
            *[(_BY_SEQ.format(table), (workflow, events["first"], events["last"])) for table in SEQUENTIAL],
            *[(_WHOLE.format(table), (workflow,)) for table in REPLACED],
            (_STEP, (workflow, step)),
        ]
        kept: list[int] = [await connection.fetchval(query, *named) for query, named in rows]
    return int(events["bytes"]) + sum(kept)
