"""Postgres: how it is reached, and what its errors mean to us. The only other modules that know asyncpg get it here.

A pool looks into one schema: all statements name tables without one. The live rows and a shadow that
is being filled are told apart by `search_path` alone.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
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
"""The schema that readers look into."""

BI_ROLE: Final = "poweron.bi_role"
"""The setting of a connection that names who may read the views of `bi`, beside their owner."""

CONNECTIONS: Final = 8
CONNECT_TIMEOUT: Final = 10.0  # seconds
CLOSE_TIMEOUT: Final = 5.0  # seconds

_SETTINGS: Final = {
    "application_name": "poweron",
    "jit": "off",  # compiling costs more than it saves in queries as short as these
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
    """A pool of connections that look into `schema`. None is opened before it is needed.

    Args:
        dsn: where Postgres is, as libpq writes it.
        schema: the schema in which tables are found.
        connections: how many there may be at a time.
        statement_cache_size: 0 behind PgBouncer in transaction mode, which also has to pass `search_path` on
            (`track_extra_parameters`).
        bi_role: who may read the views of `bi`, and nothing else.

    What is wrong with the DSN shows when the first connection is opened.
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
    except (ValueError, OverflowError):  # a port beyond 65535 overflows; untold: what is taken for it may be a password
        raise _unreadable("its port is wrong, or its password holds `/`, `?` or `#`, as %2F, %3F or %23") from None


def _unreadable(why: str) -> Refused:
    like = "write it like `postgresql://user@host:5432/database`"
    return Refused(f"the address of Postgres cannot be read: {why}; {like}")


async def _init(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """JSON goes in as text and comes out as a value, in the binary format that COPY needs."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda written: b"\x01" + written.encode(),
        decoder=lambda stored: orjson.loads(stored[1:]),
    )


async def _keep(_: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Nothing to forget when a connection is given back, which else takes a statement each time.

    An open transaction has been rolled back by now; who changes a setting or takes a lock closes the connection.
    """


async def _close(pool: Pool) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await pool.close()
    except (TimeoutError, OSError, exceptions.PostgresError, exceptions.InterfaceError):
        pool.terminate()


async def reach(dsn: str, timeout: float) -> None:
    """Return when Postgres has answered.

    Raises:
        Unavailable: it has not within this many seconds.
        Refused: the DSN cannot be read, or Postgres does not let us in.
    """
    async with connect(dsn, connections=1) as pool:
        try:
            async with asyncio.timeout(timeout), acquire(pool) as connection:
                await connection.fetchval("SELECT 1")
        except TimeoutError as error:
            raise Unavailable(f"Postgres does not answer within {timeout:g} s") from error


@asynccontextmanager
async def acquire(pool: Pool) -> AsyncGenerator[Connection, None]:
    """A connection; what goes wrong on it is told in our errors.

    Raises:
        Unavailable: Postgres cannot be reached, or the tables are not there yet.
        Conflict: another transaction was first.
        Refused: Postgres does not let us.
    """
    with _translated():
        async with pool.acquire(timeout=CONNECT_TIMEOUT) as connection:
            yield connection


@asynccontextmanager
async def snapshot(pool: Pool, *, readonly: bool = True) -> AsyncGenerator[Connection, None]:
    """One repeatable-read transaction: everything in it sees the rows of one moment.

    Raises:
        PowerOnError: as `acquire`.
    """
    async with acquire(pool) as connection, connection.transaction(isolation="repeatable_read", readonly=readonly):
        yield connection


def cells(row: Found, columns: Iterable[str]) -> dict[str, Any]:
    """The cells of a row by their columns.

    Raises:
        Unavailable: the rows are still those of another release, until a projector has made them anew.
    """
    try:
        return {column: row[column] for column in columns}
    except KeyError as error:
        raise Unavailable(f"The rows in Postgres are those of another release: they have no {error}") from error


async def schema_of(connection: Connection) -> str:
    """The schema that the connection looks into."""
    schema: str = await connection.fetchval("SELECT current_setting('search_path')")
    return schema


_LATER = (
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
