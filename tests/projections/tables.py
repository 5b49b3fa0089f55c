"""All rows as values, to compare one state of Postgres with another."""

from hypothesis import HealthCheck, settings

from poweron_projections.connection import Pool, acquire, schema_of
from poweron_projections.tables import ALL

Contents = dict[str, list[tuple[object, ...]]]

on_one_database = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""For laws: every example begins with `wipe`."""


async def contents(pool: Pool) -> Contents:
    async with acquire(pool) as connection:
        return {
            table.name: [
                tuple(row)
                for row in await connection.fetch(f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key)}")
            ]
            for table in ALL
        }


async def count(pool: Pool, what: str) -> int:
    async with acquire(pool) as connection:
        return await connection.fetchval(f"SELECT count(*) FROM {what}")


async def wipe(pool: Pool) -> None:
    async with acquire(pool) as connection:
        await connection.execute(f"DROP SCHEMA IF EXISTS {await schema_of(connection)} CASCADE")
