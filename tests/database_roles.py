"""Roles of Postgres for tests: one that may log in and nothing else."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg


@asynccontextmanager
async def database_role(dsn: str, name: str = "") -> AsyncGenerator[str, None]:
    """A role of its own, gone in the end with all that it was given in this database."""
    name = name or f"t{uuid.uuid4().hex}"
    async with _administrator(dsn) as connection:
        await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
        try:
            yield name
        finally:
            await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@asynccontextmanager
async def _administrator(dsn: str) -> AsyncGenerator[asyncpg.Connection, None]:
    """Somebody who may make roles: our own role may not on an embedded server, whose `postgres` may."""
    own = await asyncpg.connect(dsn)
    may = await own.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    connection = own if may else await asyncpg.connect(dsn, user="postgres")
    try:
        yield connection
    finally:
        await connection.close()
        await own.close()


@asynccontextmanager
async def reader(dsn: str, name: str) -> AsyncGenerator[asyncpg.Connection, None]:
    """A connection as this role."""
    connection = await asyncpg.connect(dsn, user=name, password="secret")
    try:
        yield connection
    finally:
        await connection.close()
