"""A connection falls silent without a word, as where a firewall forgets it: nobody waits for ever."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from surviving import Survival, all_at_work, witnesses

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


class Wire:
    """Carries bytes to Postgres and back; what goes over a cut connection is lost."""

    def __init__(self, dsn: str) -> None:
        self._dsn = urlsplit(dsn)
        self._cut = asyncio.Event()
        self._ends: list[asyncio.StreamWriter] = []
        self.address = ""

    @property
    def dsn(self) -> str:
        user = self._dsn.netloc.rpartition("@")[0]
        return self._dsn._replace(netloc=f"{user}@{self.address}", query="").geturl()

    def cut(self) -> None:
        """Connections that stand carry nothing any more and stay open; new ones are as good as ever."""
        self._cut.set()
        self._cut = asyncio.Event()

    @asynccontextmanager
    async def strung(self) -> AsyncGenerator[None, None]:
        server = await asyncio.start_server(self._connected, "127.0.0.1")
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        try:
            yield
        finally:
            server.close()
            for end in self._ends:
                end.close()
                with suppress(ConnectionError):
                    await end.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut = self._cut
        there, to_there = await self._reach()
        self._ends += [writer, to_there]
        async with asyncio.TaskGroup() as group:
            group.create_task(_carry(reader, to_there, cut))
            group.create_task(_carry(there, writer, cut))

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        options = parse_qs(self._dsn.query)
        if "host" in options:
            return await asyncio.open_unix_connection(f"{options['host'][0]}/.s.PGSQL.{options['port'][0]}")
        return await asyncio.open_connection(self._dsn.hostname, self._dsn.port or 5432)


async def _carry(here: asyncio.StreamReader, there: asyncio.StreamWriter, cut: asyncio.Event) -> None:
    with suppress(ConnectionError):
        while data := await here.read(65_536):
            if not cut.is_set():
                there.write(data)
                await there.drain()
    if not cut.is_set():
        there.close()


@pytest.mark.soak
async def test_connections_to_postgres_that_fall_silent_are_given_up(
    survival: Survival, environment: dict[str, str], tmp_path: Path
) -> None:
    wire = Wire(environment["POWERON_POSTGRES"])
    async with wire.strung():
        with witnesses({**environment, "POWERON_POSTGRES": wire.dsn}, tmp_path, ["one", "two"]) as processes:
            await all_at_work(survival, processes)
            wire.cut()
            for _ in range(6):
                await survival.request()
            await survival.all_ended()
            processes.expect_alive()
        await survival.expect_all_well()
