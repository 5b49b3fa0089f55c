"""The tables as SQL, and their version.

Tables are never altered in place: rows follow from the log, so tables of an older version are rebuilt
beside the live ones and replace them.
"""

from importlib import resources
from typing import Final

from poweron_events.errors import Refused
from poweron_projections import bi
from poweron_projections.connection import Connection, Pool, acquire, schema_of
from poweron_projections.tables import ALL

VERSION: Final = 18
"""Grows whenever a table, or what the fold writes into one, changes."""

_LOCK: Final = 5_796_104_317  # any number that no other lock uses

_MISSING: Final = "SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(quote_ident(name)) IS NULL"


async def migrate(pool: Pool) -> bool:
    """Create the tables if there are none; any process may call this at any time.

    Returns:
        Whether the tables are those of this release; if not, they must be rebuilt.

    Raises:
        Refused: the tables are of a newer release.
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection, connection.transaction():
        await lock(connection)
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {await schema_of(connection)}")
        missing = await connection.fetch(_MISSING, ["projection", *(table.name for table in ALL)])
        if len(missing) == len(ALL) + 1:
            await create_tables(connection)
            await bi.keep(connection)
            return True
        current = not missing and await _is_current(connection)
        if current:
            await bi.keep(connection)
        return current


async def lock(connection: Connection) -> None:
    """Keep other processes from creating or exchanging the tables until the transaction ends."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)


async def create_tables(connection: Connection) -> None:
    """Create all tables and views in the first schema of the search path."""
    for script in sorted(resources.files(__name__).iterdir(), key=lambda file: file.name):
        if script.name.endswith(".sql"):
            await connection.execute(script.read_text(encoding="utf-8"))
    await connection.execute("INSERT INTO projection (version) VALUES ($1)", VERSION)


async def _is_current(connection: Connection) -> bool:
    version = await connection.fetchval("SELECT version FROM projection")
    if version is not None and version > VERSION:
        raise Refused(
            f"the tables are of projection version {version}, this release writes {VERSION}; use the newer release"
        )
    return bool(version == VERSION)
