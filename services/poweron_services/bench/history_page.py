"""The speed of reading the newest page of a long history from a large table.

Every workflow in the table has a long history, and their messages are interleaved as in real use.
"""

import time
from typing import Final

from poweron_events.request import workflow_id
from poweron_projections import reader
from poweron_projections.connection import acquire, connect
from poweron_projections.messages import MESSAGES
from poweron_projections.migrations import migrate
from poweron_services.bench.figures import percentile
from poweron_services.bench.loop_speed import BENCH_SOURCE, WorkflowRunner

PAGE_SCHEMA: Final = "paged"
READS: Final = 200

_OTHERS: Final = ", ".join(name for name in MESSAGES.columns if name not in {"workflow_id", "seq"})
_FILL: Final = f"""
INSERT INTO {PAGE_SCHEMA}.messages (workflow_id, seq, {_OTHERS})
SELECT id, seq, {_OTHERS}
  FROM generate_series(1, $1::integer) AS seq,
       unnest($2::uuid[]) AS id,
       (SELECT {_OTHERS} FROM messages WHERE workflow_id = $3::uuid AND kind = 'step' LIMIT 1) AS message
 ORDER BY seq
"""  # noqa: S608 - names from our own tables


async def page_p50_ms(runner: WorkflowRunner, dsn: str, *, rows: int, workflows: int) -> float:
    """Return the median time to read the newest page, going through the workflows in turn."""
    written = await runner.run(1)
    await runner.projected()
    ids = [workflow_id(BENCH_SOURCE, f"page {number}") for number in range(workflows)]
    async with connect(dsn, schema=PAGE_SCHEMA) as pool:
        await migrate(pool)
        async with acquire(runner.connections.pool) as connection:
            await connection.execute(f"ALTER TABLE {PAGE_SCHEMA}.messages SET UNLOGGED")  # it is only read
            await connection.execute(_FILL, rows // workflows, ids, written)
            await connection.execute(f"ANALYZE {PAGE_SCHEMA}.messages")
        took: list[float] = []
        for number in range(READS):
            began = time.perf_counter()
            await reader.history(pool, ids[number % len(ids)])
            took.append(1_000 * (time.perf_counter() - began))
        async with acquire(pool) as connection:
            await connection.execute(f"DROP SCHEMA {PAGE_SCHEMA} CASCADE")
    return percentile(took, 50)
