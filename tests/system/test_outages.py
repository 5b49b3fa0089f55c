"""Kafka and Postgres go away, killed or frozen, and come back: what was begun ends, and what came meanwhile is done."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path

import psutil
import pytest
from own import OwnServers, frozen, own_servers
from surviving import Survival, all_at_work, until, witnesses

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

RESUMED_WITHIN = 12.0  # seconds from the server's return


@pytest.fixture
def own(software: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[OwnServers, None, None]:
    with own_servers(tmp_path_factory.mktemp("own"), software) as own:
        yield own


@pytest.fixture
async def survival(own: OwnServers, tmp_path: Path) -> AsyncGenerator[Survival, None]:
    async with own.survival(tmp_path) as survival:
        yield survival


async def kill(own: OwnServers, which: Callable[[OwnServers], psutil.Process], away: float) -> None:
    process = which(own)
    process.kill()
    await until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "it is dead")
    await asyncio.sleep(away)
    await own.mend()


async def freeze(own: OwnServers, which: Callable[[OwnServers], psutil.Process], away: float) -> None:
    """Connections stand, and nobody answers."""
    thaw = frozen(which(own))
    await asyncio.sleep(away)
    thaw()


Outage = Callable[[OwnServers, Callable[[OwnServers], psutil.Process], float], Awaitable[None]]


async def work_goes_on(survival: Survival, own: OwnServers, outage: Outage, which: str, *, away: float) -> float:
    """Work of every kind meets the outage; how many seconds after it all has ended."""
    gate = f"{outage.__name__}-{which}"
    held = [await survival.request(each, gate=gate) for each in ("pure", "idempotent")]
    await until(lambda: all(survival.running(id_) for id_ in held), "actions are at work")
    thinking = await survival.request(thinks=0.5)
    await until(lambda: survival.events(thinking), "a model is thinking")
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(outage(own, getattr(OwnServers, which), away))
        survival.open_gate(gate)
        asked = [group.create_task(survival.request(each, times=2)) for each in ("pure", "once")]
        await gone
        returned = time.monotonic()
    await until(lambda: survival.ended(*held, thinking, *(each.result() for each in asked)), "everything ends")
    return time.monotonic() - returned


@pytest.mark.soak
@pytest.mark.req("E-06")
async def test_kafka_and_postgres_go_and_come_back(survival: Survival, own: OwnServers, tmp_path: Path) -> None:
    with witnesses(own.environment(tmp_path / "home"), tmp_path, ["one", "two"]) as processes:
        await survival.settled(2)
        once = await survival.request("once", gate="never")
        await until(lambda: survival.running(once), "the action is at work")
        processes.replace([processes.name_of(survival.running(once)[0])])
        await all_at_work(survival, processes)
        took = [
            await work_goes_on(survival, own, kill, "kafka", away=0),
            await work_goes_on(survival, own, kill, "postgres", away=0),
            await work_goes_on(survival, own, freeze, "kafka", away=11),  # longer than a request is waited for
            await work_goes_on(survival, own, freeze, "postgres", away=3),
        ]
        await survival.all_ended()
        processes.expect_alive()
    assert max(took) < RESUMED_WITHIN
    assert survival.outcomes(once)[-1] == "unknown"
    await survival.expect_all_well()


@pytest.mark.req("E-06")
@pytest.mark.parametrize("which", ["kafka", pytest.param("postgres", marks=pytest.mark.soak)])
async def test_a_service_that_starts_while_a_server_is_unavailable_waits_for_it(
    survival: Survival, own: OwnServers, tmp_path: Path, which: str
) -> None:
    (own.kafka() if which == "kafka" else own.postgres()).kill()
    with witnesses(own.environment(tmp_path / "home"), tmp_path, ["one"]) as processes:
        await until(
            lambda: any(f'"{event}"' in processes.log() for event in ("server_unavailable", "loading_retried")),
            "it waits",
        )
        await own.mend()
        asked = await survival.request("pure")
        await until(lambda: survival.ended(asked), "the workflow ends")
        processes.expect_alive()
    await survival.expect_all_well()


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("outage", [kill, freeze])
@pytest.mark.parametrize("which", ["kafka", "postgres"])
async def test_a_server_is_unavailable_for_60_s(
    survival: Survival, own: OwnServers, tmp_path: Path, outage: Outage, which: str
) -> None:
    with witnesses(own.environment(tmp_path / "home"), tmp_path, ["one", "two"]) as processes:
        await all_at_work(survival, processes)
        took = await work_goes_on(survival, own, outage, which, away=60)
        await survival.all_ended()
        processes.expect_alive()
    assert took < RESUMED_WITHIN
    await survival.expect_all_well()
