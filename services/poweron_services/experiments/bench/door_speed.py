"""The speed of a door: followers of a workflow, the list of many workflows, and the page of a long one.

A door costs the roles what it takes of their rate, measured with a door and without one in turn.
"""

import http.client
import time
from asyncio import to_thread
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from poweron_events.errors import Refused
from poweron_projections import reader
from poweron_projections.connection import acquire
from poweron_services.experiments.bench.door_load import Appender, DoorProcess, door_process, measured
from poweron_services.experiments.bench.figures import percentile
from poweron_services.experiments.bench.loop_speed import WorkflowRunner
from poweron_services.experiments.sandbox.servers import Sandbox
from poweron_services.file_limit import raise_file_limit

PER_SECOND: Final = 10.0  # records that are appended while clients follow
REQUESTS: Final = 100
LISTED: Final = 50  # workflows of a page
SHORT: Final = 100  # events of the workflow that a long one is compared with
_FILL: Final = """
INSERT INTO {table}
SELECT filled.*
  FROM {table} AS template
 CROSS JOIN generate_series(1, $1::integer) AS number
 CROSS JOIN LATERAL jsonb_populate_record(
       template, jsonb_build_object('workflow_id', md5('listed ' || number), 'opened_ms', template.opened_ms - number)
  ) AS filled
 WHERE template.workflow_id = $2::uuid
"""


@asynccontextmanager
async def door_of(sandbox: Sandbox, command: Sequence[str]) -> AsyncGenerator[DoorProcess, None]:
    """Run a door on the servers of this run."""
    async with door_process(command, sandbox.environment(), sandbox.home / "door.log") as door:
        yield door


async def follower_figures(
    door: DoorProcess, runner: WorkflowRunner, *, followers: int, idle: int, seconds: float
) -> dict[str, float]:
    """Let clients follow a workflow, some of which do not read."""
    raise_file_limit()
    appender = await Appender.opened(runner.connections.log)
    found = await measured(
        door, appender, followers=followers - idle, idle=idle, seconds=seconds, per_second=PER_SECOND
    )
    return {
        "door_followers": followers,
        "door_event_p50_ms": found.p50_ms,
        "door_event_p95_ms": found.p95_ms,
        "door_cpu_ms_per_follower_second": 1_000 * found.cores / followers,
        "door_kb_per_follower": found.kb_per_follower,
    }


async def list_figures(door: DoorProcess, runner: WorkflowRunner, *, workflows: int) -> dict[str, float]:
    """Read the newest page of a list of this many workflows, and the same without HTTP."""
    written = await runner.run(1)
    await runner.projected()
    async with acquire(runner.connections.pool) as connection:
        for table in ("workflows", "rounds"):
            await connection.execute(_FILL.format(table=table), workflows, written)
            await connection.execute(f"ANALYZE {table}")
    queried: list[float] = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        await reader.workflows(runner.connections.pool, limit=LISTED)
        queried.append(1_000 * (time.perf_counter() - began))
    answered = await to_thread(_answer_times, door.port, f"/api/v1/workflows?limit={LISTED}")
    return {"door_list_p95_ms": percentile(answered, 95), "list_query_p95_ms": percentile(queried, 95)}


async def page_figures(door: DoorProcess, runner: WorkflowRunner, *, events: int) -> dict[str, float]:
    """Read the page of a workflow with this many events, and of one with `SHORT`."""
    long, short = [await Appender.opened(runner.connections.log) for _ in range(2)]
    await long.append(events - len(long.written))
    await short.append(SHORT - len(short.written))
    await runner.projected()
    times = [await to_thread(_answer_times, door.port, f"/w/{each.workflow_id}") for each in (long, short)]
    return {"door_long_page_p50_ms": percentile(times[0], 50), "door_short_page_p50_ms": percentile(times[1], 50)}


def _answer_times(port: int, path: str) -> list[float]:
    """Return the ms that each of some requests took, one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times: list[float] = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        times.append(1_000 * (time.perf_counter() - began))
        if answer.status != HTTPStatus.OK:
            raise Refused(f"The door answers {path} with {answer.status}.")
    connection.close()
    return times
