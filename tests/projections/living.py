"""A projector that runs beside the test, and how to wait for it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from poweron_events import topics
from poweron_events.errors import Unavailable
from poweron_events.log.memory import MemoryLog
from poweron_projections import bootstrap
from poweron_projections.connection import Pool
from poweron_projections.projector import run


@asynccontextmanager
async def running(log: MemoryLog, pool: Pool) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(run(log, pool))
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def projected(log: MemoryLog, pool: Pool) -> None:
    """Wait until somebody has brought everything into the rows."""
    async with asyncio.timeout(20):
        while not await _is_projected(log, pool):  # noqa: ASYNC110 - Postgres tells nobody
            await asyncio.sleep(0.01)


async def _is_projected(log: MemoryLog, pool: Pool) -> bool:
    with suppress(Unavailable):
        return await bootstrap.positions(pool) == await log.ends(topics.EVENTS.name)
    return False
