"""The disk space of Kafka's segments and of Postgres' tables and indexes, without the WAL that Postgres recycles."""

import asyncio
from pathlib import Path
from typing import Final

from poweron_projections.connection import acquire
from poweron_services.client.connect import Connections
from poweron_services.embedded.folders import Folders

_SIZE: Final = "SELECT pg_database_size(current_database())"
_TOPICS: Final = ("poweron.*", "__consumer_offsets-*")


async def occupied(connections: Connections) -> dict[str, int]:
    """Return the bytes that the log, including its consumer offsets, and the database take up."""
    async with acquire(connections.pool) as connection:
        rows: int = await connection.fetchval(_SIZE)
    data = Folders.of(connections.settings.home).kafka / "data"
    return {"Kafka": await asyncio.to_thread(_segments, data), "Postgres": rows}


def _segments(data: Path) -> int:
    return sum(path.stat().st_size for topic in _TOPICS for path in data.glob(f"{topic}/*.log"))
