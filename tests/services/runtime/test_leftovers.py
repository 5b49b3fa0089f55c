"""After hundreds of workflows, a worker holds nothing of them any more."""

import asyncio
from typing import Any

import pytest
from doubles import ROLES, Counting, World, soon
from structlog.testing import capture_logs

from poweron_events.content import MAX_KEYS
from poweron_services.runtime import partitions

WORKFLOWS = 300
AT_ONCE = 100


async def _many(world: World) -> None:
    for start in range(0, WORKFLOWS, AT_ONCE):
        ids = [await world.ask(str(number)) for number in range(start, start + AT_ONCE)]
        for id_ in ids:
            await world.ended(id_)


STANDING = 2  # tasks of a worker without work: tidying, and looking at what intake has committed


def _held(process: Any) -> dict[str, int]:
    """How many things each collection of a process holds."""
    worker, executor = process.worker, process.executor
    partitions_held = worker._held
    collections = {
        "workflows": sum(len(partition.fold.workflows) for partition in partitions_held.partitions.values()),
        "pending": sum(len(partition.pending) for partition in partitions_held.partitions.values()),
        "parked": sum(len(partition.parked) for partition in partitions_held.partitions.values()),
        "works": len(worker._works),
        "deadlines": len(worker._deadlines),
        "claims": len(executor._claims),
        "tasks of the worker but its standing ones": len(worker._tasks._tasks) - STANDING,
    }
    return {name: size for name, size in collections.items() if size}


@pytest.mark.req("E-07")
@pytest.mark.timeout(120)
async def test_a_worker_forgets_hundreds_of_ended_workflows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "TIDY_PERIOD", 0.1)
    world = World([Counting()])
    with capture_logs():
        async with world.process(ROLES, concurrency=32) as process:
            await _many(world)
            await soon(lambda: not _held(process))
            assert process.executor._claims._places._free == 32
            assert len(world.content._keys) <= MAX_KEYS
            assert len(asyncio.all_tasks()) < 20
