"""A real `poweron serve` is watched: while it works, while a server is away, while it stops, and once it hangs."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest
from own import OwnServers, frozen, own_servers
from processes import ONE_STEP, script, serving
from scrapes import values

from poweron_events import RequestWorkflow
from poweron_events.request import WorkflowRequested
from poweron_events.round_events import RoundCompleted
from poweron_services.client.connect import connect
from poweron_services.client.follow import Callbacks
from poweron_services.probes.process_probes import SILENT_AFTER
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, run_request

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

STARTED_WITHIN = 60.0  # seconds
SCRAPED_WITHIN = 2.0  # seconds
HANGS = (
    "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: time.sleep(600));"
    "from poweron_services.cli.entry import main; main()"
)
"""A `poweron` whose event loop hangs in the middle of other work when it is told to: the handler runs in its thread."""


@pytest.fixture(scope="module")
def own(software: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[OwnServers, None, None]:
    with own_servers(tmp_path_factory.mktemp("own"), software) as own:
        yield own


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@asynccontextmanager
async def watched(environment: dict[str, str]) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client of the metrics and probes of a process with this environment, which may not run yet."""
    async with httpx2.AsyncClient(base_url=f"http://{environment['POWERON_METRICS']}", timeout=10) as http:
        yield http


async def until(http: httpx2.AsyncClient, status: int, path: str = "/readyz") -> str:
    """What the process says once it answers with this status."""
    async with asyncio.timeout(STARTED_WITHIN):
        while True:
            try:
                answer = await http.get(path)
                if answer.status_code == status:
                    return answer.text
            except httpx2.TransportError:
                pass
            await asyncio.sleep(0.02)


async def until_value(http: httpx2.AsyncClient, name: str, label: tuple[str, ...], value: float) -> str:
    """The first scrape in which a metric has this value."""
    async with asyncio.timeout(STARTED_WITHIN):
        while True:
            scrape = (await http.get("/metrics")).text
            if values(scrape, name).get(label) == value:
                return scrape
            await asyncio.sleep(0.2)


async def ask(own: OwnServers, home: Path) -> str:
    async with connect(Settings(home=home), kafka=own.pair.kafka, postgres=own.pair.postgres) as connections:
        outcome = await run_request(
            connections,
            RequestWorkflow(prompt="Write it."),
            (),
            identity=local_identity(),
            serving=False,
            callbacks=Callbacks(),
            progress=lambda _: None,
        )
    assert outcome.status == "completed"
    return outcome.workflow_id


def environment_of(own: OwnServers, folder: Path) -> dict[str, str]:
    return {
        **own.environment(folder),
        "POWERON_MODEL": script(folder, ONE_STEP),
        "POWERON_METRICS": f"127.0.0.1:{free_port()}",
    }


async def test_a_working_process_shows_what_it_does_and_no_id(own: OwnServers, tmp_path: Path) -> None:
    environment = environment_of(own, tmp_path)
    with serving(environment, tmp_path, ["all"]):
        async with watched(environment) as http:
            await until(http, 200)
            workflow = await ask(own, tmp_path)
            scrape = await until_value(http, "poweron_consumer_group_lag_records", ("poweron.all",), 0)
            alive, ready = await http.get("/livez"), await http.get("/readyz")
    events = values(scrape, "poweron_events_total")
    assert events[WorkflowRequested.TYPE, "accepted"] >= 1
    assert events[RoundCompleted.TYPE, "accepted"] >= 1
    assert values(scrape, "poweron_stage_seconds_count")["plan",] >= 1
    assert values(scrape, "poweron_model_tokens_total")["input", "scripted:script"] > 0
    assert values(scrape, "poweron_projector_lag_records") == {(): 0}
    assert values(scrape, "poweron_server_up") == {("kafka",): 1, ("postgres",): 1}
    assert values(scrape, "poweron_ready") == {(): 1}
    assert set(values(scrape, "poweron_poll_age_seconds")) == {
        (group,)
        for group in (
            "poweron.all",
            "poweron.intake",
            "poweron.intake.cancellations",
            "poweron.projector",
            "poweron.projector.deadletter",
            "poweron.projector.ledger",
            "poweron.projector.checkpoints",
            "poweron.ledger",
        )
    }
    assert values(scrape, "process_resident_memory_bytes")[()] > 1_000_000
    assert workflow not in scrape
    assert str(tmp_path) not in scrape
    assert alive.status_code == 200
    assert (ready.status_code, ready.text) == (200, "Ready.\n")


def killed(server: psutil.Process) -> Callable[[], None]:
    server.kill()
    return lambda: None


@pytest.mark.parametrize(
    ("which", "away"),
    [
        ("postgres", killed),
        pytest.param("postgres", frozen, marks=pytest.mark.soak),
        pytest.param("kafka", frozen, marks=pytest.mark.soak),
    ],
)
async def test_while_a_server_is_away_the_process_is_alive_and_ready_and_names_it(
    own: OwnServers, which: str, away: Callable[[psutil.Process], Callable[[], None]], tmp_path: Path
) -> None:
    environment = environment_of(own, tmp_path)
    with serving(environment, tmp_path, ["all"]):
        async with watched(environment) as http:
            await until(http, 200)
            await until_value(http, "poweron_server_up", (which,), 1)
            thaw = away(own.postgres() if which == "postgres" else own.kafka())
            try:
                await until_value(http, "poweron_server_up", (which,), 0)
                for _ in range(5):
                    began = time.monotonic()
                    scrape = await http.get("/metrics")
                    assert time.monotonic() - began < SCRAPED_WITHIN
                    assert values(scrape.text, "poweron_server_up")[which,] == 0
                ready, alive = await http.get("/readyz"), await http.get("/livez")
            finally:
                thaw()
                await own.mend()
            await until_value(http, "poweron_server_up", (which,), 1)
    assert ready.status_code == alive.status_code == 200
    assert ready.text == f"Ready, but work waits for {which.capitalize()}, which does not answer.\n"
    assert "poweron_dead_letters{" not in scrape.text or which == "kafka"


@pytest.mark.soak
async def test_a_long_outage_of_kafka_is_no_reason_to_restart(own: OwnServers, tmp_path: Path) -> None:
    environment = environment_of(own, tmp_path)
    with serving(environment, tmp_path, ["all"]):
        async with watched(environment) as http:
            await until(http, 200)
            await ask(own, tmp_path)
            thaw = frozen(own.kafka())
            try:
                ages = list[float]()
                for _ in range(100):
                    ages.append(max(values((await http.get("/metrics")).text, "poweron_poll_age_seconds").values()))
                    assert (await http.get("/livez")).status_code == 200
                    await asyncio.sleep(1)
            finally:
                thaw()
                await own.mend()
    assert max(ages) < SILENT_AFTER / 2


async def test_a_process_that_waits_for_its_servers_is_alive_but_not_ready(own: OwnServers, tmp_path: Path) -> None:
    environment = environment_of(own, tmp_path) | {"POWERON_KAFKA": f"127.0.0.1:{free_port()}"}
    with serving(environment, tmp_path, ["all"]):
        async with watched(environment) as http:
            assert (await until(http, 503)).startswith("Starting: ")
            assert (await http.get("/livez")).status_code == 200
            assert values((await http.get("/metrics")).text, "poweron_ready") == {(): 0}


@contextmanager
def silent_model() -> Generator[str, None, None]:
    """The address of a model that takes requests and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


@pytest.mark.soak
async def test_after_sigterm_a_process_is_not_ready_while_it_finishes_its_work(own: OwnServers, tmp_path: Path) -> None:
    with silent_model() as address:
        environment = environment_of(own, tmp_path) | {
            "POWERON_MODEL": "openai:silent",
            "OPENAI_BASE_URL": address,
            "OPENAI_API_KEY": "none",
        }
        with serving(environment, tmp_path, ["all"]) as processes:
            async with watched(environment) as http:
                await until(http, 200)
                asking = asyncio.create_task(ask(own, tmp_path))
                await until_value(http, "poweron_waiting_turns", ("planner",), 1)
                process = processes.running["all"]
                process.send_signal(signal.SIGTERM)
                began = time.monotonic()
                assert (await until(http, 503)).startswith("Stopping: ")
                assert time.monotonic() - began < 0.5
                async with watched(environment) as new:  # it still listens
                    assert (await new.get("/livez")).status_code == 200
                    assert values((await new.get("/metrics")).text, "poweron_ready") == {(): 0}
                assert process.poll() is None
            code = await asyncio.to_thread(process.wait, 10)
            asking.cancel()
    assert code == 0


def hangs_at_a_signal(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HANGS, "serve"], env={**os.environ, **environment})


async def test_a_process_whose_event_loop_is_blocked_gives_no_answer(own: OwnServers, tmp_path: Path) -> None:
    environment = environment_of(own, tmp_path)
    hanging = hangs_at_a_signal(environment)
    try:
        async with watched(environment) as http:
            await until(http, 200)
            hanging.send_signal(signal.SIGUSR1)
            with pytest.raises(httpx2.TimeoutException):
                await http.get("/livez", timeout=3)
    finally:
        hanging.kill()
        hanging.wait()
