"""Postgres: how to reach it, and what its errors mean. The other modules that use asyncpg get it from here.

A pool uses one schema: all statements name tables without one. Only `search_path` distinguishes the live rows
from a shadow that is being filled.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeAlias

import asyncpg
import orjson
from asyncpg import exceptions
from asyncpg.pool import PoolConnectionProxy

from poweron_events.errors import Conflict, DiskFull, Refused, Unavailable

Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Found: TypeAlias = asyncpg.Record
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"

LIVE: Final = "poweron"
"""The schema that readers use."""

BI_ROLE: Final = "poweron.bi_role"
"""The connection setting that names the role which, besides their owner, may read the views of `bi`."""

CONNECTIONS: Final = 8
CONNECT_TIMEOUT: Final = 10.0  # seconds
CLOSE_TIMEOUT: Final = 5.0  # seconds

_SETTINGS: Final = {
    "application_name": "poweron",
    "jit": "off",  # compiling takes longer than it saves in queries this short
    "plan_cache_mode": "force_custom_plan",  # a plan made for an empty table must not outlive it
}


@asynccontextmanager
async def connect(
    dsn: str,
    *,
    schema: str = LIVE,
    connections: int = CONNECTIONS,
    statement_cache_size: int = 100,
    bi_role: str | None = None,
) -> AsyncGenerator[Pool, None]:
    """Provide a pool of connections that use `schema`. Each is opened when it is first needed.

    Args:
        dsn: where Postgres is, in the format of libpq.
        schema: the schema in which tables are found.
        connections: the most connections at a time.
        statement_cache_size: 0 behind PgBouncer in transaction mode, which also has to pass `search_path` on
            (`track_extra_parameters`).
        bi_role: the role that may read the views of `bi`, and nothing else.

    An error in the DSN is raised when the first connection is opened.
    """
    pool = await asyncpg.create_pool(
        dsn,
        min_size=0,
        max_size=connections,
        statement_cache_size=statement_cache_size,
        timeout=CONNECT_TIMEOUT,
        connect=_connect,
        init=_init,
        reset=_keep,
        server_settings={**_SETTINGS, "search_path": schema} | ({BI_ROLE: bi_role} if bi_role else {}),
    )
    try:
        yield pool
    finally:
        await _close(pool)


async def _connect(*arguments: Any, **options: Any) -> "asyncpg.Connection[asyncpg.Record]":
    try:
        return await asyncpg.connect(*arguments, **options)
    except exceptions.ClientConfigurationError as error:
        raise _unreadable(str(error).rstrip(".")) from error
    except (ValueError, OverflowError):  # a port beyond 65535 overflows; the message omits it: it may be a password
        raise _unreadable("its port is wrong, or its password holds `/`, `?` or `#`, as %2F, %3F or %23") from None


def _unreadable(why: str) -> Refused:
    like = "write it like `postgresql://user@host:5432/database`"
    return Refused(f"the address of Postgres cannot be read: {why}; {like}")


async def _init(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Pass JSON in as text and out as a value, in the binary format that COPY needs."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda written: b"\x01" + written.encode(),
        decoder=lambda stored: orjson.loads(stored[1:]),
    )


async def _keep(_: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Reset nothing when a connection is returned, which saves a statement each time.

    Any open transaction has been rolled back by now; code that changes a setting or takes a lock closes the connection.
    """


async def _close(pool: Pool) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await pool.close()
    except (TimeoutError, OSError, exceptions.PostgresError, exceptions.InterfaceError):
        pool.terminate()


async def reach(dsn: str, timeout: float) -> None:
    """Return once Postgres has answered.

    Raises:
        Unavailable: it has not answered within `timeout` seconds.
        Refused: the DSN cannot be read, or Postgres denies access.
    """
    async with connect(dsn, connections=1) as pool:
        try:
            async with asyncio.timeout(timeout), acquire(pool) as connection:
                await connection.fetchval("SELECT 1")
        except TimeoutError as error:
            raise Unavailable(f"Postgres does not answer within {timeout:g} s") from error


@asynccontextmanager
async def acquire(pool: Pool) -> AsyncGenerator[Connection, None]:
    """Acquire a connection and translate its errors into ours.

    Raises:
        Unavailable: Postgres cannot be reached, or the tables do not exist yet.
        Conflict: another transaction was first.
        Refused: Postgres does not allow it.
    """
    with _translated():
        async with pool.acquire(timeout=CONNECT_TIMEOUT) as connection:
            try:
                yield connection
            except asyncio.CancelledError:
                _terminate(connection)
                raise


def _terminate(connection: Connection) -> None:
    """Close the connection of a task that was cancelled.

    A statement that was being prepared, or a transaction whose end was cancelled too, would go on in the pool, and keep
    its locks.
    """
    with suppress(exceptions.InterfaceError):  # the connection was lost and is no longer in the pool
        connection.terminate()


@asynccontextmanager
async def snapshot(pool: Pool, *, readonly: bool = True) -> AsyncGenerator[Connection, None]:
    """Run one repeatable-read transaction, in which every statement sees the rows at one moment.

    Raises:
        PowerOnError: as `acquire`.
    """
    async with acquire(pool) as connection, connection.transaction(isolation="repeatable_read", readonly=readonly):
        yield connection


def cells(row: Found, columns: Iterable[str]) -> dict[str, Any]:
    """Return the cells of a row by their columns.

    Raises:
        Unavailable: the rows are still those of another release, until a projector has rebuilt them.
    """
    try:
        return {column: row[column] for column in columns}
    except KeyError as error:
        raise Unavailable(f"The rows in Postgres are those of another release: they have no {error}") from error


async def schema_of(connection: Connection) -> str:
    """Return the schema that the connection uses."""
    schema: str = await connection.fetchval("SELECT current_setting('search_path')")
    return schema


_LATER = (
    exceptions.ObjectNotInPrerequisiteStateError,  # the database takes no connections for now
    exceptions.PostgresConnectionError,
    exceptions.InterfaceError,
    exceptions.OperatorInterventionError,
    exceptions.InsufficientResourcesError,
    exceptions.UndefinedTableError,
    exceptions.UndefinedColumnError,  # the rows are still those of another release
    exceptions.InvalidSchemaNameError,
    exceptions.InvalidCachedStatementError,
    exceptions.IdleInTransactionSessionTimeoutError,
    exceptions.InternalClientError,
    OSError,
    TimeoutError,
)
_RACED = (
    exceptions.SerializationError,
    exceptions.DeadlockDetectedError,
    exceptions.UniqueViolationError,
    exceptions.LockNotAvailableError,
)


@contextmanager
def _translated() -> Generator[None, None, None]:
    try:
        yield
    except _RACED as error:
        raise Conflict(f"another transaction was first: {error}") from error
    except exceptions.DiskFullError as error:
        raise DiskFull(f"The disk of Postgres is full: {error}") from error
    except _LATER as error:
        raise Unavailable(f"Postgres is not available: {str(error) or type(error).__name__}") from error
    except exceptions.PostgresError as error:
        raise Refused(f"Postgres refuses: {error}") from error
