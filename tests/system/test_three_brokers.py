"""Three brokers, each of which is killed, frozen and restarted while workflows go on: nothing is lost, nothing stops."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from beside import beside
from brokers import ClusteredKafka
from own import frozen
from processes import SESSION_TIMEOUT_MS
from servers import furnished, run_outside
from surviving import Survival, all_at_work, until, witnesses

from poweron_events import topics
from poweron_services.client.connect import connect
from poweron_services.embedded import kafka_server
from poweron_services.embedded.folders import prepare
from poweron_services.embedded.kafka_server import free_port
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(1_200)]

BROKERS = (1, 2, 3)
FROZEN = 12.0  # seconds: longer than a request is waited for, and until another broker leads
AWAY = 2.0  # seconds
PERIOD = 0.2  # seconds between two requests


@pytest.fixture
def brokers(
    software: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Sequence[ClusteredKafka], None, None]:
    monkeypatch.setattr(kafka_server, "_cluster_id", lambda: "ThreeBrokersOfOneTest0")
    ports, controllers = [free_port() for _ in BROKERS], [free_port() for _ in BROKERS]
    cluster = [
        ClusteredKafka(
            prepare(furnished(tmp_path / f"broker-{number}", software)),
            number=number,
            brokers=ports,
            controllers=controllers,
        )
        for number in BROKERS
    ]
    try:
        run_outside(start_all(cluster))
        yield cluster
    finally:
        for broker in cluster:
            if found := broker.find():
                psutil.Process(found.pid).kill()


async def start_all(cluster: Sequence[ClusteredKafka]) -> None:
    await asyncio.gather(*(broker.start(print) for broker in cluster))


@pytest.fixture
async def survival(brokers: Sequence[ClusteredKafka], dsn: str, tmp_path: Path) -> AsyncGenerator[Survival, None]:
    kafka = brokers[0].cluster
    async with connect(Settings(home=tmp_path / "home"), kafka=kafka, postgres=dsn) as connections:
        survival = Survival(connections, kafka, tmp_path)
        async with survival.followed():
            yield survival


def process_of(broker: ClusteredKafka) -> psutil.Process:
    found = broker.find()
    assert found is not None
    return psutil.Process(found.pid)


async def kill(broker: ClusteredKafka) -> None:
    process_of(broker).kill()
    await asyncio.sleep(AWAY)
    await broker.start(print)


async def restart(broker: ClusteredKafka) -> None:
    process = process_of(broker)
    process.send_signal(signal.SIGTERM)
    await until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "the broker ends")
    await broker.start(print)


async def freeze(broker: ClusteredKafka) -> None:
    thaw = frozen(process_of(broker))
    await asyncio.sleep(FROZEN)
    thaw()


async def in_sync(broker: ClusteredKafka) -> bool:
    """Whether every partition has all of its replicas again."""
    admin = AIOKafkaAdminClient(**broker.cluster.client_options())
    await admin.start()
    try:
        described = await admin.describe_topics([topics.EVENTS.name, topics.REQUESTS.name])
    finally:
        await admin.close()
    return all(len(each["isr"]) == len(BROKERS) for topic in described for each in topic["partitions"])


async def all_in_sync(broker: ClusteredKafka) -> None:
    async with asyncio.timeout(120):
        while not await in_sync(broker):  # noqa: ASYNC110 - Kafka tells nobody
            await asyncio.sleep(PERIOD)


@asynccontextmanager
async def asking(survival: Survival) -> AsyncGenerator[None, None]:
    """Ask for one workflow after the other meanwhile, of every kind of action in turn."""

    async def ask() -> None:
        while True:
            for action in ("pure", "idempotent", "once"):
                await survival.request(action)
                await asyncio.sleep(PERIOD)

    async with beside(ask()):
        yield


@pytest.mark.req("E-06")
@pytest.mark.parametrize("harm", [kill, freeze, restart])
async def test_each_of_three_brokers_comes_to_harm_in_turn(
    survival: Survival,
    brokers: Sequence[ClusteredKafka],
    dsn: str,
    tmp_path: Path,
    harm: Callable[[ClusteredKafka], Awaitable[None]],
) -> None:
    environment = {
        **brokers[0].cluster.environment(),
        "POWERON_KAFKA_SESSION_TIMEOUT_MS": str(SESSION_TIMEOUT_MS),
        "POWERON_POSTGRES": dsn,
        "POWERON_HOME": str(tmp_path / "home"),
    }
    with witnesses(environment, tmp_path, ["one", "two"]) as processes:
        await all_at_work(survival, processes)
        async with asking(survival):
            for broker in brokers:
                before = len(survival.requested)
                await harm(broker)
                await all_in_sync(broker)
                assert len(survival.requested) > before
        await survival.all_ended()
        processes.expect_alive()
        assert "log_lost" not in processes.log()
    await survival.expect_all_well()
