"""Growth over the steps of a workflow: the bytes that each step writes, and where its prompts begin to differ.

The bytes of the 40th step are compared with those of the 4th, as the log and the rows store them. Each step also
replaces some rows, so each of the two is measured in a workflow that ends with it: the rows are then as it left them.
"""

from itertools import takewhile
from typing import Final

import orjson

from poweron_projections.connection import acquire
from poweron_projections.reader import stored_records
from poweron_services.bench.loop_speed import WorkflowRunner

EARLY_STEP, LATE_STEP = 4, 40  # steps
PROMPTED_STEPS = 10

_WHOLE: Final = "SELECT COALESCE(sum(pg_column_size({0}.*)), 0)::bigint FROM {0} WHERE workflow_id = $1::uuid"
_BY_SEQ: Final = f"{_WHOLE} AND seq BETWEEN $2 AND $3"
_STEP: Final = f"{_WHOLE.format('steps')} AND step = $2"

SEQUENTIAL: Final = ("records", "messages", "documents", "usage")
REPLACED: Final = ("workflows", "rounds", "tasks")


async def growth(runner: WorkflowRunner) -> float:
    """Return the bytes that the late step writes, divided by those of the early step."""
    return await _written_by(runner, LATE_STEP) / await _written_by(runner, EARLY_STEP)


async def _written_by(runner: WorkflowRunner, step: int) -> int:
    """Run a workflow of this many steps and return the bytes that its last step has written."""
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


async def prompts_kept(runner: WorkflowRunner) -> float:
    """Return the share of a ten-step run's prompt characters, from 0 to 1, that repeat the previous prompt's start.

    A provider with a prompt cache reads an identical beginning from it. Each prompt is compared with the previous one
    of the same template.
    """
    workflow = await runner.run(PROMPTED_STEPS)
    await runner.projected()
    before: dict[str, str] = {}
    kept = written = 0
    for record in await stored_records(runner.connections.pool, workflow):
        call = orjson.loads(record.value)["data"].get("modelCall")
        if call is None:
            continue
        prompt = (await runner.connections.content.get(workflow, call["promptRef"])).decode()
        if (last := before.get(call["template"])) is not None:
            kept += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(last, prompt, strict=False)))
            written += len(prompt)
        before[call["template"]] = prompt
    return kept / written
