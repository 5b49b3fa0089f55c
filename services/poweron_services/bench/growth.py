"""Whether what a workflow writes grows with its steps: the bytes of its 40th step beside those of its 4th.

They are counted as the log and the rows hold them. A workflow that ends at that step stands for the rows that each
step replaces, which are then as that step has left them.
"""

from typing import Final

import orjson

from poweron_projections.connection import acquire
from poweron_projections.reader import stored_records
from poweron_services.bench.loop_speed import WorkflowRunner

EARLY_STEP, LATE_STEP = 4, 40  # steps

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
    records = await stored_records(runner.connections.pool, workflow)
    written = [record for record in records if orjson.loads(record.value)["data"].get("step") == step]
    async with acquire(runner.connections.pool) as connection:
        rows = [
            *[(_BY_SEQ.format(table), (workflow, written[0].seq, written[-1].seq)) for table in SEQUENTIAL],
            *[(_WHOLE.format(table), (workflow,)) for table in REPLACED],
            (_STEP, (workflow, step)),
        ]
        kept: list[int] = [await connection.fetchval(query, *named) for query, named in rows]
    return sum(len(record.value) for record in written) + sum(kept)
