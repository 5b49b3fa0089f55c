"""What changes from step to step of a workflow: the bytes that it writes, and where its prompts begin to differ.

The bytes of its 40th step are taken beside those of its 4th. They are counted as the log and the rows hold them. A
workflow that ends at that step stands for the rows that each step replaces, which are then as that step has left them.
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


async def prompts_kept(runner: WorkflowRunner) -> float:
    """How many of the characters of a ten-step run's prompts stand where they stood in the prompt before, of 1.

    A provider that has kept a prompt reads what begins alike from its cache. The prompt before is that of the same
    template.
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
