"""How fast the newest page of a long history is read from a large table.

Every workflow there has a long history, and their messages lie mixed as they would have been written.
"""

import time
from typing import Final

from poweron_events.request import workflow_id
from poweron_projections import reader
from poweron_projections.connection import acquire, connect
from poweron_projections.messages import MESSAGES
from poweron_projections.migrations import migrate
from poweron_services.bench.figures import percentile
from poweron_services.bench.loop_speed import SOURCE, Load

SCHEMA: Final = "paged"
LOOKS: Final = 200

_OTHERS: Final = ", ".join(name for name in MESSAGES.columns if name not in {"workflow_id", "seq"})
_FILL: Final = f"""
INSERT INTO {SCHEMA}.messages (workflow_id, seq, {_OTHERS})
SELECT id, seq, {_OTHERS}
  FROM generate_series(1, $1::integer) AS seq,
       unnest($2::uuid[]) AS id,
       (SELECT {_OTHERS} FROM messages WHERE workflow_id = $3::uuid AND kind = 'step' LIMIT 1) AS said
 ORDER BY seq
"""  # noqa: S608 - names from our own tables


async def page_p50_ms(load: Load, *, rows: int, workflows: int) -> float:
    """The time to read the newest page, of one workflow after the other."""
    dsn = load.connections.settings.postgres
    assert dsn is not None
    said = await load.run(1)
    await load.projected()
    ids = [workflow_id(SOURCE, f"page {number}") for number in range(workflows)]
    async with connect(dsn.get_secret_value(), schema=SCHEMA) as pool:
        await migrate(pool)
        async with acquire(load.connections.pool) as connection:
            await connection.execute(f"ALTER TABLE {SCHEMA}.messages SET UNLOGGED")  # it is only to be read
            await connection.execute(_FILL, rows // workflows, ids, said)
            await connection.execute(f"ANALYZE {SCHEMA}.messages")
        took: list[float] = []
        for number in range(LOOKS):
            began = time.perf_counter()
            await reader.history(pool, ids[number % len(ids)])
            took.append(1_000 * (time.perf_counter() - began))
        async with acquire(pool) as connection:
            await connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    return percentile(took, 50)
