"""Many followers of one workflow, some of which do not read, while the door is killed or Postgres is away."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from own import OwnServers, own_servers
from processes import POWERON, serving
from surviving import until

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.client.connect import connect
from poweron_services.experiments.bench.door_load import (
    Appender,
    DoorProcess,
    connected,
    door_process,
    expect_each_once,
    measured,
    until_all,
)
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

PER_SECOND = 10
STOPPED_WITHIN = 10.0  # seconds
SOME = pytest.param(50, 5, 5, id="some")
MANY = pytest.param(1_000, 50, 30, id="many", marks=pytest.mark.soak)


@dataclass(frozen=True)
class Load:
    door: DoorProcess
    appender: Appender

    @property
    def path(self) -> str:
        return f"/api/v1/workflows/{self.appender.workflow_id}/stream"


LOW = ("sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh")  # as many files as a process may have open by default


@asynccontextmanager
async def loaded(kafka: KafkaSettings, dsn: str, folder: Path) -> AsyncGenerator[Load, None]:
    """A door and a projector as processes, and a workflow that stays open."""
    environment = {**kafka.environment(), "POWERON_POSTGRES": dsn, "POWERON_HOME": str(folder / "home")}
    with serving(environment, folder, ["projector"]):
        async with (
            connect(Settings(home=folder / "home"), kafka=kafka, postgres=dsn) as connections,
            door_process([*LOW, str(POWERON)], {**os.environ, **environment}, folder / "door.log") as door,
        ):
            yield Load(door, await Appender.opened(connections.log))


@pytest.fixture
async def load(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> AsyncGenerator[Load, None]:
    async with loaded(kafka, dsn, tmp_path) as load:
        yield load


@pytest.mark.parametrize(("followers", "idle", "seconds"), [SOME, MANY])
async def test_each_follower_gets_each_record_once_and_soon(
    load: Load, followers: int, idle: int, seconds: int
) -> None:
    figures = await measured(
        load.door, load.appender, followers=followers - idle, idle=idle, seconds=seconds, per_second=PER_SECOND
    )
    assert figures.p95_ms <= 1_000
    assert figures.cores <= 0.5
    if followers == 1_000:
        assert figures.kb_per_follower <= 60


@pytest.mark.soak
@pytest.mark.parametrize(("followers", "idle", "seconds"), [SOME, MANY])
async def test_followers_of_a_door_that_is_killed_get_each_record_once(
    load: Load, followers: int, idle: int, seconds: int
) -> None:
    async with connected(load.door.port, load.path, followers) as clients:
        async with connected(load.door.port, load.path, idle, reads=False):
            appending = asyncio.create_task(load.appender.run(3 * seconds, PER_SECOND))
            while not appending.done():
                await asyncio.wait({appending}, timeout=5)
                await load.door.kill()
                await load.door.start()
            await appending
            await until_all(clients, len(load.appender.written) - 1)
        expect_each_once(clients, len(load.appender.written))
        assert min(client.connections for client in clients) > 2


async def test_a_door_stops_within_seconds_while_streams_are_open_and_clients_do_not_read(load: Load) -> None:
    async with (
        connected(load.door.port, load.path, 50) as clients,
        connected(load.door.port, load.path, 10, reads=False),
        connected(load.door.port, "/api/v1/stream", 10, reads=False),
    ):
        await load.appender.run(1, 200)
        await until_all(clients, len(load.appender.written) - 1)
        assert load.door.process is not None
        load.door.process.terminate()
        async with asyncio.timeout(STOPPED_WITHIN):
            assert await load.door.process.wait() == 0
    assert "Traceback" not in load.door.log.read_text()


async def test_followers_wait_while_postgres_is_away_and_miss_nothing(software: Path, tmp_path: Path) -> None:
    with own_servers(tmp_path / "own", software) as own:
        async with loaded(own.pair.kafka, own.pair.postgres, tmp_path) as load:
            async with connected(load.door.port, load.path, 20) as clients:
                await load.appender.run(1, PER_SECOND)
                await until_all(clients, len(load.appender.written) - 1)
                await _kill_postgres(own)
                await load.appender.run(2, PER_SECOND)
                await own.mend()
                await load.appender.run(1, PER_SECOND)
                await until_all(clients, len(load.appender.written) - 1)
            expect_each_once(clients, len(load.appender.written))
            assert [client.connections for client in clients] == [1] * 20
        assert "Traceback" not in load.door.log.read_text()


async def _kill_postgres(own: OwnServers) -> None:
    postgres = own.postgres()
    postgres.kill()
    await until(lambda: not postgres.is_running() or postgres.status() == psutil.STATUS_ZOMBIE, "it is dead")
