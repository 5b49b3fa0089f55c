"""The views of `bi`: what they count, who may read them, and that they outlive a rebuild."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from builders import CALL, FAILED_CALLS, At, completed, planned, requested, reviewed, step, typical
from poweron_events import topics
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_projections import bi
from poweron_projections.catch_up import catch_up
from poweron_projections.connection import Pool, acquire, connect, schema_of
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import verify

EVENTS = topics.EVENTS.name


async def rows_of(pool: Pool, view: str, order: str = "1") -> list[dict[str, Any]]:
    async with acquire(pool) as connection:
        schema = bi.schema_beside(await schema_of(connection))
        return [dict(row) for row in await connection.fetch(f"SELECT * FROM {schema}.{view} ORDER BY {order}")]


async def test_every_view_is_made_and_every_column_of_it_has_a_comment(log: MemoryLog, pool: Pool) -> None:
    await log.append(EVENTS, typical().messages)
    await catch_up(log, pool)
    async with acquire(pool) as connection:
        schema = bi.schema_beside(await schema_of(connection))
        found = await connection.fetch(
            """
            SELECT relname, obj_description(pg_class.oid) AS view, attname, col_description(attrelid, attnum) AS column
              FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
             WHERE relnamespace = to_regnamespace($1) AND relkind = 'v' ORDER BY relname, attnum
            """,
            schema,
        )
    expected = [(view.name, view.comment, *column) for view in bi.views() for column in view.columns]
    assert sorted(tuple(row) for row in found) == sorted(expected)
    for view in bi.views():
        await rows_of(pool, view.name)
