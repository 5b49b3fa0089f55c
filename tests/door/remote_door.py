"""A door that other machines can reach, so that everything needs a key."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
from beside import beside

from poweron_events.actor import Actor
from poweron_projections import migrations
from poweron_projections.access_keys import SCOPES, AccessKey, AccessScope, add_key
from poweron_projections.connection import Pool, connect
from poweron_services.door import http_server
from poweron_services.door.http_guard import LOOPBACK_NAMES
from poweron_services.settings.config import Settings

LIST = "/api/v1/workflows"
DAY = 86_400_000
TIMEOUT = 60.0  # seconds


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def code(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


@dataclass(frozen=True)
class RemoteDoor:
    """A door that is open, a client of it, and the rows behind it."""

    port: int
    http: httpx2.AsyncClient
    pool: Pool

    async def key(
        self, name: str = "crm", *scopes: AccessScope, life_ms: int = DAY, actor: str = "ada", roles: Sequence[str] = ()
    ) -> str:
        return (await self.added(name, *scopes, life_ms=life_ms, actor=actor, roles=roles))[1]

    async def added(
        self, name: str = "crm", *scopes: AccessScope, life_ms: int = DAY, actor: str = "ada", roles: Sequence[str] = ()
    ) -> tuple[AccessKey, str]:
        verified = Actor(id=actor, roles=tuple(roles), via="http", verified=True)
        return await add_key(self.pool, name, verified, scopes=scopes or SCOPES, life_ms=life_ms, created_by="root")

    async def answer(self, key: str, path: str = LIST) -> tuple[int, str]:
        response = await self.http.get(path, headers=bearer(key))
        return (200, "") if response.status_code == 200 else code(response)


@asynccontextmanager
async def remote(
    settings: Settings, *, serving: bool = False, is_local: bool = False, hosts: frozenset[str] = frozenset()
) -> AsyncGenerator[RemoteDoor, None]:
    """A door that has found its servers."""
    assert settings.postgres is not None
    async with (
        connect(settings.postgres.get_secret_value()) as pool,
        opening(settings, is_local=is_local, serving=serving, hosts=hosts) as port,
    ):
        await migrations.migrate(pool)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT) as http:
            door = RemoteDoor(port, http, pool)
            ready = bearer(await door.key(f"ready-{port}", "read"))
            while (await http.get(LIST, headers=ready)).status_code == 503:  # noqa: ASYNC110 - the door can only be asked
                await asyncio.sleep(0.1)
            yield door


@asynccontextmanager
async def opening(
    settings: Settings, *, is_local: bool = False, serving: bool = False, hosts: frozenset[str] = frozenset()
) -> AsyncGenerator[int, None]:
    """A door that listens, whether or not its servers answer; its port."""
    sock = http_server.listening("127.0.0.1", 0)
    running = http_server.run(
        settings, sock, LOOPBACK_NAMES | hosts, is_local=is_local, serving=serving, progress=lambda _: None
    )
    port: int = sock.getsockname()[1]
    async with beside(running):
        yield port
