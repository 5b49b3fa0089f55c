"""While Kafka or Postgres is away, a process with its hands full waits: it neither burns the processor nor floods the log."""

import asyncio
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from own import OwnServers, frozen, own_servers
from processes import ONE_STEP, script, serving

from poweron_events import RequestWorkflow, encode_request, topics
from poweron_events.errors import Unavailable
from poweron_events.log import Message
from poweron_projections import request_answers
from poweron_services.client.connect import Connections, connect
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

AWAY = 5.0  # seconds that are measured
SETTLED_WITHIN = 60.0  # seconds: what was begun runs against the wall before
MAX_SHARE = 0.25  # of one processor; who spins takes all of it
MAX_LINES = 25  # a second
REQUESTS = 2_000


@pytest.fixture(scope="module")
def own(software: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[OwnServers, None, None]:
    with own_servers(tmp_path_factory.mktemp("own"), software) as own:
        yield own


@dataclass(frozen=True)
class Spent:
    """What a process did in a second while it waited."""

    share: float
    lines: float

    @property
    def is_little(self) -> bool:
        return self.share < MAX_SHARE and self.lines < MAX_LINES


async def spent(process: psutil.Process, log: Path) -> Spent:
    """What it did once all that had been begun was at an end, or at last."""
    deadline = time.monotonic() + SETTLED_WITHIN
    while True:
        began, cpu, size = time.monotonic(), _cpu(process), _lines(log)
        await asyncio.sleep(AWAY)
        took = time.monotonic() - began
        found = Spent((_cpu(process) - cpu) / took, (_lines(log) - size) / took)
        if found.is_little or time.monotonic() > deadline:
            return found


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def killed(server: psutil.Process) -> Callable[[], None]:
    server.kill()
    return lambda: None


async def keep_busy(connections: Connections) -> None:
    """Workflows are open, and more want to be."""
    values = [
        encode_request(
            RequestWorkflow(prompt="Write it."),
            source="/busy",
            request_id=f"{number}-{time.monotonic_ns()}",
            time="2026-11-21T00:00:00.000Z",
        )
        for number in range(REQUESTS)
    ]
    await connections.log.append(
        topics.REQUESTS.name, [Message(b"%d" % number, value) for number, value in enumerate(values)]
    )
    async with asyncio.timeout(120):
        while await _open(connections) < 10:  # noqa: ASYNC110 - Postgres tells nobody
            await asyncio.sleep(0.05)


async def _open(connections: Connections) -> int:
    try:
        return await request_answers.count_open(connections.pool, 1_000)
    except Unavailable:  # the tables are not there yet
        return 0


@pytest.mark.req("E-09")
@pytest.mark.parametrize(
    ("away", "which"),
    [
        pytest.param(killed, "kafka", marks=pytest.mark.soak),
        pytest.param(frozen, "postgres", marks=pytest.mark.soak),
        pytest.param(frozen, "kafka", marks=pytest.mark.soak),
        pytest.param(killed, "postgres", marks=pytest.mark.soak),
    ],
)
async def test_a_process_waits_quietly_while_a_server_is_unavailable(
    own: OwnServers, which: str, away: Callable[[psutil.Process], Callable[[], None]], tmp_path: Path
) -> None:
    environment = {**own.environment(tmp_path), "POWERON_MODEL": script(tmp_path, ONE_STEP)}
    with serving(environment, tmp_path, ["all"]) as processes:
        async with connect(Settings(home=tmp_path), kafka=own.pair.kafka, postgres=own.pair.postgres) as connections:
            await keep_busy(connections)
        server = own.kafka() if which == "kafka" else own.postgres()
        back = away(server)
        try:
            found = await spent(psutil.Process(processes.running["all"].pid), tmp_path / "all.log")
        finally:
            back()
            await own.mend()
    print(f"\n{which} {away.__name__}: {found.share:.3f} of a processor, {found.lines:.1f} lines a second")  # noqa: T201
    assert found.is_little, processes.log()[-3_000:]
