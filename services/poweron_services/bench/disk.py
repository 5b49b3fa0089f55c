"""What lies on the disk: Kafka's segments and Postgres' tables and indexes, without the log that Postgres recycles."""

import asyncio
from pathlib import Path
from typing import Final

from poweron_projections.connection import acquire
from poweron_services.connections import Connections
from poweron_services.embedded.folders import Folders

_SIZE: Final = "SELECT pg_database_size(current_database())"
_TOPICS: Final = ("poweron.*", "__consumer_offsets-*")


async def occupied(connections: Connections) -> int:
    """The bytes that the log, the places of its readers and the database take."""
    async with acquire(connections.pool) as connection:
        rows: int = await connection.fetchval(_SIZE)
    return rows + await asyncio.to_thread(_segments, Folders.of(connections.settings.home).kafka / "data")


def _segments(data: Path) -> int:
    return sum(path.stat().st_size for topic in _TOPICS for path in data.glob(f"{topic}/*.log"))
