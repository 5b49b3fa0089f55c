"""A door on the real servers, within the test."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import asyncpg
import httpx2
import psutil
import pytest
from beside import beside
from servers import Pair
from surviving import until

from poweron_services.door import http_server
from poweron_services.door.http_guard import LOOPBACK_NAMES
from poweron_services.settings.config import Settings

READY_WITHIN = 60.0  # seconds


@dataclass(frozen=True)
class Door:
    """A door that is open, and a client of it."""

    settings: Settings
    address: str
    http: httpx2.AsyncClient

    async def until_ready(self) -> None:
        for path in ("/api/v1/workflows", "/api/v1/lag"):  # Postgres answers, and Kafka
            while (await self.http.get(path)).status_code == 503:
                pass


@asynccontextmanager
async def opened(settings: Settings, *, serving: bool = True) -> AsyncGenerator[Door, None]:
    """A door that plays all roles, unless it is told not to, on a port of its own."""
    sock = http_server.listening("127.0.0.1", 0)
    host, port = sock.getsockname()
    running = http_server.run(settings, sock, LOOPBACK_NAMES, is_local=True, serving=serving, progress=lambda _: None)
    address = f"http://{host}:{port}"
    async with beside(running), httpx2.AsyncClient(base_url=address, timeout=READY_WITHIN) as http:
        door = Door(settings, address, http)
        await door.until_ready()
        yield door


@asynccontextmanager
async def own_database(pair: Pair) -> AsyncGenerator[tuple[str, str], None]:
    """A database of a name that nothing else has, and how to connect to it."""
    name = f"t{uuid.uuid4().hex}"
    connection = await asyncpg.connect(pair.postgres)
    await connection.execute(f"CREATE DATABASE {name}")
    base, question, options = pair.postgres.partition("?")
    try:
        yield name, f"{base.rpartition('/')[0]}/{name}{question}{options}"
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()


@asynccontextmanager
async def door_of_module(pair: Pair, home: Path) -> AsyncGenerator[Door, None]:
    """A door for all tests of a module, with topics and a database of its own."""
    async with own_database(pair) as (name, postgres):
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in replace(pair.kafka, prefix=f"{name}.").environment().items():
                patch.setenv(variable, value)
            async with opened(Settings(home=home, postgres=postgres)) as door:
                yield door


async def stopped(process: psutil.Process) -> None:
    process.kill()
    await until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "it is dead")
