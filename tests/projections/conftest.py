"""A pool that looks into an empty schema of its own, and a log in memory."""

import uuid
from collections.abc import AsyncGenerator

import pytest

from poweron_events.log.memory import MemoryLog
from poweron_projections.connection import Pool, acquire, connect


@pytest.fixture
async def pool(pair) -> AsyncGenerator[Pool, None]:
    schema = f"t{uuid.uuid4().hex}"
    async with connect(pair.postgres, schema=schema) as pool:
        yield pool
        async with acquire(pool) as connection:
            await connection.execute(f"DROP SCHEMA IF EXISTS {schema}, {schema}_bi, {schema}_door CASCADE")


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()
